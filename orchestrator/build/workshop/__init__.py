"""The declarations, and finders of what is here: toolchains, runtimes, models."""
