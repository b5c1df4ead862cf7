"""Universal files (`<mach-o/fat.h>`): one part per processor, as `lipo -create` joins them.

Contract: pure; equal parts give equal bytes, in whatever order they are passed.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

_MAGIC: Final = 0xCAFEBABE
_HEADER: Final = struct.Struct(">II")
# cputype, cpusubtype, offset, size, align (a power of two)
_ENTRY: Final = struct.Struct(">IIIII")
# <mach/machine.h>: CPU_TYPE_X86_64 with CPU_SUBTYPE_X86_64_ALL, CPU_TYPE_ARM64 with ..._ALL. lipo
# puts arm64 last.
_CPUS: Final = {"x86_64": (0x01000007, 3), "arm64": (0x0100000C, 0)}
# 8 bytes: what lipo gives archives, whose members say their own alignment.
_ALIGN: Final = 3


def universal(parts: Mapping[str, bytes]) -> bytes:
    """Parts by processor (`arm64`, `x86_64`) as one file; a part alone stays as it is.

    Offsets have 32 bits: raises `struct.error` past 4 GB.
    """
    if len(parts) == 1:
        return next(iter(parts.values()))
    ordered = [(cpu, parts[name]) for name, cpu in _CPUS.items() if name in parts]
    assert len(ordered) == len(parts), f"an unknown processor in {sorted(parts)}"
    head = _HEADER.pack(_MAGIC, len(ordered))
    body = b""
    start = _padded(_HEADER.size + len(ordered) * _ENTRY.size)
    for (kind, subtype), content in ordered:
        head += _ENTRY.pack(kind, subtype, start + len(body), len(content), _ALIGN)
        body += content.ljust(_padded(len(content)), b"\0")
    return head.ljust(start, b"\0") + body


def split_universal(data: bytes) -> dict[str, bytes]:
    """The inverse of `universal` for several parts; empty where the file is no universal one."""
    if len(data) < _HEADER.size or _HEADER.unpack_from(data)[0] != _MAGIC:
        return {}
    names = {cpu: name for name, cpu in _CPUS.items()}
    found = {}
    for number in range(_HEADER.unpack_from(data)[1]):
        at = _HEADER.size + number * _ENTRY.size
        kind, subtype, offset, size, _ = _ENTRY.unpack_from(data, at)
        found[names[kind, subtype]] = data[offset : offset + size]
    return found


def _padded(size: int) -> int:
    return size + -size % (1 << _ALIGN)
