"""Variants as a Bazel workspace."""
