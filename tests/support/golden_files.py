"""The type of the fixture `golden` (tests/conftest.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

# Compares a file of the tree with the text that it must have.
Golden = Callable[[Path, str], None]
