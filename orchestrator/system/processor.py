"""The instruction sets of this machine's processor, as the kernel reports them."""

from __future__ import annotations

from pathlib import Path

# proc(5): `flags` on x86, `Features` on ARM
_KEYS = ("flags", "Features")


def processor_instructions(root: Path = Path("/")) -> frozenset[str]:
    """The names in the first processor's line in /proc/cpuinfo; none where it cannot be read.
    `root` is where proc is mounted."""
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        key, _, names = line.partition(":")
        if key.strip() in _KEYS:
            return frozenset(names.split())
    return frozenset()
