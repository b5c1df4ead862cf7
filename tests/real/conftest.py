"""What tests of the real PyTorch find on an empty machine."""

from __future__ import annotations

from users_cache import users_cache

__all__ = ["users_cache"]
