"""Which CPU levels this machine's processor has, by what Linux says of it: not as our code asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from orchestrator.system.processor import processor_instructions

# What /proc/cpuinfo calls the instructions of each level of libraries/data/xnnpack.yaml.
_INSTRUCTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "avx2": ("avx2", "fma", "f16c"),
    "avxvnni": ("avx2", "fma", "f16c", "avx_vnni"),
    "avx512": ("avx2", "fma", "f16c", "avx512f"),
    "avx512vnni": (
        *("avx2", "fma", "f16c"),
        *("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"),
    ),
    "dotprod": ("asimddp",),
    "vfpv4": ("vfpv4",),
}


def processor_levels() -> tuple[str, ...]:
    """In the order of the table."""
    has = processor_instructions()
    return tuple(level for level, needed in _INSTRUCTIONS.items() if {*needed} <= has)
