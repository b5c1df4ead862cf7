"""Compilers: from a declaration (toolchains/<abi>.yaml) to wrappers with an identity."""
