"""A library's size before it is built, from what the index tells of its code.

The index has objects at `-Oz`, with all dtypes. What a library has of them is told by weights,
which were fitted to libraries for x86-64 Linux: the demo apps' and ten of the zoo's. They stand for
what no reference tells: unwinding, texts and tables grow with code, hot units are compiled for
speed, and beside units of a kernel library there are kernels of ours that call them. On other
platforms a library is larger or smaller, which their tables tell. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from orchestrator.select.tag_code import Switched

# Bytes of a library without operators, and those for each byte by the index.
_BASE: Final = 498_178
_PLAIN: Final = 0.548
_SWITCHED: Final = 1.060
_HOT: Final = 2.232
_LIBRARY: Final = 2.938
# `optimize: size`, and what a library exports for add-ons: camera's (benchmarks/RESULTS.md).
_OPTIMISED_AS_WHOLE: Final = 0.735
_EXTENSIBLE: Final = 72_592


@dataclass(frozen=True)
class Code:
    """Bytes of the index that a library needs.

    plain     whatever the dtypes
    switched  behind switches over dtypes, of the selected cases, but for those in hot units
    hot       the same in hot units
    library   of kernel libraries
    version   those of the library by which the version of PyTorch differs from these weights
    """

    plain: int
    switched: int
    hot: int
    library: int
    version: int


def code_of(needed: int, switched: Switched, library: int, version: int) -> Code:
    """The kinds of code of a library that needs `needed` bytes of the index, all dtypes included,
    and `library` bytes of kernel libraries."""
    return Code(
        plain=needed - switched.bytes,
        switched=switched.selected - switched.hot,
        hot=switched.hot,
        library=library,
        version=version,
    )


def estimated_bytes(code: Code, scale: float, more: int, *, lto: bool, extensible: bool) -> int:
    """Bytes of the stripped library. scale, more: its platform's, against x86-64 Linux."""
    size = scale * (_BASE + _weighed(code)) + more + extensible * _EXTENSIBLE
    return round(size * _OPTIMISED_AS_WHOLE if lto else size)


def grown_bytes(before: Code, after: Code, scale: float) -> int:
    """Bytes by which a stripped library grows with more code. scale: its platform's."""
    return round(scale * (_weighed(after) - _weighed(before)))


def _weighed(code: Code) -> float:
    return (
        _PLAIN * code.plain
        + _SWITCHED * code.switched
        + _HOT * code.hot
        + _LIBRARY * code.library
        + code.version
    )
