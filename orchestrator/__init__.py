"""Builds one small, verified libtorch per app and ABI from the PyTorch sources.

Terms: docs/design.md.
"""
