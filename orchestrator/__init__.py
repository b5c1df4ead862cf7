"""Cuts real PyTorch into one small, proven libtorch per app and ABI. Words: docs/design.md."""
