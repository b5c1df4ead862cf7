"""Frozen values that every layer shares: they parse once, print back, and import only errors."""
