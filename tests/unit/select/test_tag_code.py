"""Code of dtypes that are not selected, in the indices that are shipped."""

from __future__ import annotations

import pytest
from shipped_index import shipped

from orchestrator.index.model import RuntimeIndex
from orchestrator.pytorch.v2_6.dialect import DIALECT
from orchestrator.select.tag_code import UnselectedDtypes
from orchestrator.values.selection import Selection

M = frozenset({"m"})
# Its switch is 924 KB, for eleven dtypes.
SORT = "sorting_kernel_method_name"


@pytest.fixture(scope="module")
def index() -> RuntimeIndex:
    return shipped(DIALECT)


def left_out(index: RuntimeIndex, *dtypes: str, tags: tuple[str, ...] = (SORT,)) -> int:
    switches = [n for n, found in index.kernel_tags.items() if SORT in found]
    selection = Selection(kernel_dtypes={tag: dict.fromkeys(dtypes, M) for tag in tags})
    return UnselectedDtypes(index).bytes(switches, selection)


def test_the_fewer_dtypes_the_more_is_left_out(index: RuntimeIndex) -> None:
    none, one = left_out(index, tags=()), left_out(index, "Float")
    two = left_out(index, "Float", "Long")
    assert none > 900_000
    assert one == pytest.approx(none * 7 / 8, rel=0.01)
    assert two == pytest.approx(none * 6 / 8, rel=0.01)


def test_all_dtypes_leave_nothing_out(index: RuntimeIndex) -> None:
    assert left_out(index, "*") == 0
    assert UnselectedDtypes(index).bytes(index.kernel_tags, Selection(everything=True)) == 0


def test_what_only_switches_lead_to_goes_with_them(index: RuntimeIndex) -> None:
    """Inline functions too: the copies of `std::sort` for each dtype."""
    switches = [n for n, found in index.kernel_tags.items() if SORT in found]
    units = {index.owners[n] for n in switches}
    float_only = Selection(kernel_dtypes={SORT: {"Float": M}})
    found = UnselectedDtypes(index).switched(switches, float_only, units)
    own = sum(size for size, owner in zip(index.sizes, index.owners, strict=True) if owner in units)
    assert found.bytes > own
    assert found.selected == pytest.approx(found.bytes / 8, rel=0.01)
    assert 0 < found.hot < found.selected
    assert UnselectedDtypes(index).switched(switches, float_only).hot == 0


def test_code_of_two_switches_is_there_for_the_one_with_more_dtypes(index: RuntimeIndex) -> None:
    unit = next(n for n, u in enumerate(index.units) if u.path.endswith("cpu/CopyKernel.cpp"))
    both = [n for n in index.kernel_tags if index.owners[n] == unit]
    assert len(both) > 1
    every = UnselectedDtypes(index).bytes(both, Selection())
    each = [UnselectedDtypes(index).bytes([node], Selection()) for node in both]
    assert max(each) <= every < sum(each)
