"""Helpers for every package: processes, atomic writes, locks, templates that trust no caller."""
