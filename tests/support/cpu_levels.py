"""Which CPU levels this machine's processor has, by what Linux says of it: not as our code asks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
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


# AMD's Zen 5 with units of 512 bits, and Intel's servers since Ice Lake: vendor, family, models.
_COMPUTE_512_BITS: Final = (
    ("AuthenticAMD", 26, (*range(0x00, 0x20), *range(0x40, 0x50), *range(0x70, 0x80))),
    ("GenuineIntel", 6, (0x6A, 0x6C, 0x8F, 0xCF, 0xAD, 0xAE)),
)


def processor_levels() -> tuple[str, ...]:
    """In the order of the table."""
    has = processor_instructions()
    return tuple(level for level, needed in _INSTRUCTIONS.items() if {*needed} <= has)


def used_levels() -> tuple[str, ...]:
    """Those that a library uses where none is named: AVX-512 for floats only where it pays."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    of = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    wide = any(
        (of.get("vendor_id"), of.get("cpu family")) == (vendor, str(family))
        and int(of["model"]) in models
        for vendor, family, models in _COMPUTE_512_BITS
    )
    return tuple(level for level in processor_levels() if wide or level != "avx512")
