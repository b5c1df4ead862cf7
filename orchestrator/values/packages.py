"""The name of an app's packages."""

from __future__ import annotations


def default_package_name(app: str) -> str:
    """The name of an app's packages where it gives none: `_`, which Debian's names may not have
    (Debian Policy, 5.6.1), becomes `-`."""
    return f"{app.lower().replace('_', '-')}-libtorch"
