"""Names of libc++'s classes as libstdc++ spells them, told by binutils' own demangler."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

import pytest
from shipped_index import shipped

from orchestrator.codegen.respelled import LIBCXX, libstdcxx_spelled
from orchestrator.pytorch.dialects import DIALECTS


@pytest.mark.parametrize(
    ("symbol", "spelled"),
    [
        ("_ZN2at4keptENSt3__18optionalIlEE", "_ZN2at4keptESt8optionalIlE"),
        # the namespace was what S0_ referred to
        (
            "_ZN2at4keptENSt3__18optionalIlEENS1_IbEES2_",
            "_ZN2at4keptESt8optionalIlES0_IbES1_",
        ),
        ("_ZNK2at4Kept3getERKNSt3__16vectorIlEE", "_ZNK2at4Kept3getERKSt6vectorIlE"),
    ],
)
def test_names(symbol: str, spelled: str) -> None:
    assert libstdcxx_spelled(symbol) == spelled


@pytest.mark.parametrize(
    "symbol",
    [
        "_ZN2at4nameEv",  # nothing of the C++ library's
        "_ZN2at4keptERKNSt3__112basic_stringIcEE",  # in another namespace there
        "_ZN2at4keptIlEEvNSt3__18optionalIlEE",  # a template of a function
        "_ZN2at4keptENSt3__18functionIFvlEEE",  # a function's type
        "_ZN2at4keptENSt3__18optionalIXadL_ZN2at4kindEEEE",  # a function as an argument
        "_ZN2at4keptENSt3__18optionalILN2at4KindE0EEE",  # an enumeration's value as one
        "kept_St3__1",
        # no names
        "_ZN2at4keptENSt3__1",
        "_ZN2at4keptENSt3__18optional",
        "_ZN2at4keptENSt3__18optionalIlEES",
        "_ZN2at4keptENSt3__18optionalIlEES9_",
        "_ZN2at4keptENSt3__199optionalIlEE",
        "_ZN2at4keptENSt3__1C",
    ],
)
def test_what_has_no_other_name_here(symbol: str) -> None:
    assert libstdcxx_spelled(symbol) is None


def test_each_means_the_same_to_a_demangler() -> None:
    """The functions of PyTorch 2.6.0's kernels."""
    names = {name.split("@")[0] for name in shipped(DIALECTS["2.6.0"]).names if LIBCXX in name}
    pairs = {
        name: other
        for name in sorted(names)
        if name.startswith("_ZN2at6native") and (other := libstdcxx_spelled(name))
    }
    assert len(pairs) > 900
    assert demangled(pairs.values()) == [
        name.replace("std::__1::", "std::") for name in demangled(pairs)
    ]


def demangled(names: Iterable[str]) -> list[str]:
    done = subprocess.run(
        ["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()
