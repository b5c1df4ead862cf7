"""Names of headers and areas."""

from __future__ import annotations

import pytest

from orchestrator.size.areas import area_of
from orchestrator.size.attribution import Share
from orchestrator.size.walk import header_of


@pytest.mark.parametrize(
    ("symbol", "header", "area"),
    [
        ("_ZNK3c1013TensorOptions7backendEv", "c10", "tensors"),
        ("_ZN2at6native9view_implERKNS_6TensorE", "at::native", "operators"),
        # tables of jumps of an inline function have no symbol, but a section
        (".rodata._ZNK3c1013TensorOptions7backendEv", "c10", "tensors"),
        (".rodata._ZN9libunwind15LocalAddressSpace4findEv", "libunwind", "C++ library"),
        (".rodata.table", "C", "tensors"),
    ],
)
def test_where_an_inline_function_is_from(symbol: str, header: str, area: str) -> None:
    assert header_of(symbol) == f"a header of {header}"
    assert area_of(Share((), header_of(symbol), "code", 1)) == area
