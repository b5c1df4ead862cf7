"""Toolchains: from a declaration (toolchains/<abi>.yaml) to compiler wrappers with an identity."""
