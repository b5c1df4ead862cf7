"""What upstream's build for mobile compiles besides PyTorch: XNNPACK and QNNPACK, for x86-64.

`scripts/build_mobile.sh` builds both, whatever the selection. QNNPACK is in PyTorch's tree, and its
units are those of its `CMakeLists.txt`. Of XNNPACK, PyTorch 1.13.1 pins commit ae108ef; there is no
tree of it here. How many units there are, and their flags, is what that commit's `CMakeLists.txt`
says; what is compiled is what the XNNPACK that we pin, of November 2024, has of the same kinds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from benchmarks.sampling import every_kth
from orchestrator.libraries.declared import XNNPACK, LibraryData
from orchestrator.source.tree import TreeRules, tree_files
from orchestrator.values.action import Language

KERNELS: Final = "XNNPACK kernels"
REST: Final = "XNNPACK, not kernels"
QNNPACK: Final = "QNNPACK"
FAMILIES: Final = (KERNELS, REST, QNNPACK)

# Compilations of ae108ef. Every kernel of an x86 level and every scalar one is in its library
# `all_microkernels`, and those for production are compiled again in `XNNPACK`: more than 3,000,
# counted low. The rest: 66 cold and 3 hot units, 7 tables and 4 units of the JIT twice, 2 that are
# libraries of their own again.
_UPSTREAM_HAS: Final[Mapping[str, int]] = {KERNELS: 3000, REST: 66 + 3 + 2 * (7 + 4) + 2}

# The lists of kernels of ae108ef with its flags, but for XOP's, which our pin has no more.
LEVELS: Final[Mapping[str, tuple[str, ...]]] = {
    "scalar": (),
    "sse": ("-msse",),
    "sse2": ("-msse2",),
    "ssse3": ("-mssse3",),
    "sse41": ("-msse4.1",),
    "avx": ("-mavx",),
    "f16c": ("-mf16c",),
    "fma3": ("-mf16c", "-mfma"),
    "avx2": ("-mf16c", "-mfma", "-mavx2"),
    "avx512f": ("-mavx512f",),
    "avx512skx": ("-mavx512f", "-mavx512cd", "-mavx512bw", "-mavx512dq", "-mavx512vl"),
}
# Kinds of kernels that came later: dynamic quantisation, weights of 4 bits, packing.
_LATER: Final = re.compile(r"src/(q[dp]8-|f(16|32)-qc|[^/]*-pack[wq])")
_HOT: Final = TreeRules(("src/indirection.c", "src/operator-run.c", "src/tables/*.c"))
_COLD: Final = TreeRules(
    ("src/operators/*.c", "src/allocator.c", "src/init.c", "src/operator-delete.c")
)

_QNNPACK_TREE: Final = "aten/src/ATen/native/quantized/cpu/qnnpack"
_QNNPACK_KERNELS: Final = TreeRules(
    (
        "src/*/*sse2*.c",
        "src/u8lut32norm/scalar.c",
        "src/x8lut/scalar.c",
        "src/sgemm/6x8-psimd.c",
    ),
    # for its tests and benchmarks
    ("src/requantization/**",),
)
_QNNPACK_RUN: Final = TreeRules(("src/*-run.cc", "src/indirection.c", "src/operator-run.c"))
_QNNPACK_INIT: Final = TreeRules(("src/*.c", "src/*.cc"))

_FOR_ALL: Final = ("-fPIC", "-ffunction-sections", "-fdata-sections", "-w", "-DNDEBUG")


@dataclass(frozen=True)
class ThirdPartyUnit:
    """One compilation; `flags` are those behind `flag`, without include folders."""

    path: str
    language: Language
    family: str
    flag: Literal["-O2", "-Os"]
    flags: tuple[str, ...]
    source: Path
    include: tuple[Path, ...]


def third_party_units(
    pytorch: Path, data: LibraryData, trees: Mapping[str, Path], native: Path
) -> tuple[ThirdPartyUnit, ...]:
    """The units that a sample is taken of, sorted by path.

    trees are the folders of the pins of XNNPACK's `data`; native has our stubs of the headers
    that both want of libraries which are not here.
    """
    include = (
        trees[XNNPACK] / "include",
        trees[XNNPACK] / "src",
        trees["pthreadpool"] / "include",
        trees["fxdiv"] / "include",
        native / "libraries",
    )
    qnnpack = _qnnpack(pytorch / _QNNPACK_TREE, native / "qnnpack")
    units = (*_xnnpack(trees[XNNPACK], data, include), *qnnpack)
    return tuple(sorted(units, key=lambda unit: unit.path))


def third_party_counts(units: Sequence[ThirdPartyUnit]) -> Counter[str]:
    """How many compilations of each family upstream's build has."""
    return Counter({**Counter(unit.family for unit in units), **_UPSTREAM_HAS})


def choose_third_party(units: Sequence[ThirdPartyUnit], each: int) -> tuple[ThirdPartyUnit, ...]:
    """The sample: `each` of every family, spread evenly over the sizes of their sources."""
    families: dict[str, list[ThirdPartyUnit]] = {}
    for unit in sorted(units, key=lambda u: (u.source.stat().st_size, u.path)):
        families.setdefault(unit.family, []).append(unit)
    return tuple(
        unit
        for family in sorted(families)
        for unit in every_kth(families[family], min(each, len(families[family])))
    )


def _xnnpack(tree: Path, data: LibraryData, include: tuple[Path, ...]) -> Iterator[ThirdPartyUnit]:
    # our pin wants each of its switches said
    switches = tuple(
        flag for flag in data.flags if flag.startswith("-D") and "__FILE__" not in flag
    )
    flags = (*_FOR_ALL, *dict.fromkeys(switches), "-std=gnu99")

    def unit(path: str, family: str, flag: Literal["-O2", "-Os"], *own: str) -> ThirdPartyUnit:
        name, language = f"{XNNPACK}/{path}", _language(path)
        return ThirdPartyUnit(name, language, family, flag, (*flags, *own), tree / path, include)

    for level, own in LEVELS.items():
        for path in all_kernels(
            (tree / f"cmake/gen/{level}_microkernels.cmake").read_text("utf-8")
        ):
            if not _LATER.match(path):
                yield unit(path, KERNELS, "-O2", "-fno-math-errno", *own)
    for path in tree_files(tree, _HOT):
        yield unit(path, REST, "-O2")
    for path in tree_files(tree, _COLD):
        yield unit(path, REST, "-Os")


def all_kernels(text: str) -> tuple[str, ...]:
    """The kernels that a list of XNNPACK's names, for production or not, each once."""
    return tuple(dict.fromkeys(re.findall(r"^\s+(src/[^\s)]+\.c)\)?$", text, re.MULTILINE)))


def _qnnpack(tree: Path, stubs: Path) -> Iterator[ThirdPartyUnit]:
    include = (stubs, tree / "include", tree / "src")
    flags = (*_FOR_ALL, "-DPYTORCH_QNNPACK_RUNTIME_QUANTIZATION=1")
    kernels = set(tree_files(tree, _QNNPACK_KERNELS))
    running = set(tree_files(tree, _QNNPACK_RUN))
    for path in kernels | set(tree_files(tree, _QNNPACK_INIT)):
        language = _language(path)
        standard = "-std=gnu11" if language == "c" else "-std=gnu++14"
        own = ("-msse2",) if path in kernels and "sse2" in path else ()
        flag: Literal["-O2", "-Os"] = "-O2" if path in kernels | running else "-Os"
        yield ThirdPartyUnit(
            f"{_QNNPACK_TREE}/{path}",
            language,
            QNNPACK,
            flag,
            (*flags, standard, *own),
            tree / path,
            include,
        )


def _language(path: str) -> Language:
    return "c" if path.endswith(".c") else "c++"
