"""`size` of what was not built."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from package_toy import quick_inputs
from toy_workspace import toy_invocation

from orchestrator.build.delivering.page import made_page
from orchestrator.build.explaining.size import (
    Bytes,
    NothingMeasuredError,
    OptimisedAsWholeError,
    bytes_for,
    measure,
    measured,
    members_of,
)
from orchestrator.deliver.variant import deliver
from orchestrator.index.objects import ObjectFacts, Section
from orchestrator.size.attribution import Asked, Attribution, shares_of
from orchestrator.size.graph import LinkedGraph, LinkedObject, Node
from orchestrator.values.labels import VariantLabel

APP = "models: [{file: m.ptl}]\ntargets: [linux-x86_64]\n"


def test_what_is_not_built(tmp_path: Path) -> None:
    here = toy_invocation(tmp_path, {"camera": APP})
    with pytest.raises(NothingMeasuredError) as raised:
        measured(here, VariantLabel("camera", "linux-x86_64"))
    assert raised.value.render() == (
        f"{tmp_path}/dist/camera/linux-x86_64: error: //apps/camera:linux-x86_64 is not built\n"
        "  expected: a delivered library\n"
        "  do:       run: ./orchestrate build //apps/camera:linux-x86_64"
    )


def test_what_is_another_apps(tmp_path: Path) -> None:
    here = toy_invocation(tmp_path, {"camera": APP})
    deliver(quick_inputs(tmp_path / "linked"), here.context.dist)
    delivered = here.context.dist / "camera/linux-x86_64"
    delivered.parent.mkdir()
    shutil.copytree(here.context.dist / "toy/linux-x86_64", delivered)
    label = VariantLabel("camera", "linux-x86_64")
    for look in (lambda: measured(here, label), lambda: made_page(here, [label], "dist")):
        with pytest.raises(NothingMeasuredError) as raised:
            look()
        assert raised.value.render() == (
            f"{delivered}/manifest.json: error: what lies where //apps/camera:linux-x86_64 is"
            " delivered is another app's, or for another ABI\n"
            "  expected: //apps/camera:linux-x86_64\n"
            "  seen:     //apps/toy:linux-x86_64\n"
            "  do:       run: ./orchestrate build //apps/camera:linux-x86_64"
        )


def test_what_is_optimised_as_a_whole(tmp_path: Path) -> None:
    here = toy_invocation(tmp_path, {"camera": APP})
    spec: Any = SimpleNamespace(lto=True)
    variant: Any = SimpleNamespace(
        label=VariantLabel("camera", "linux-x86_64"),
        app=here.workspace.apps["camera"],
        objects=SimpleNamespace(plan=SimpleNamespace(spec=spec)),
    )
    runtime: Any = None
    with pytest.raises(OptimisedAsWholeError) as raised:
        measure(here, runtime, variant, tmp_path / "libcamera_torch.so")
    assert raised.value.what == (
        "//apps/camera:linux-x86_64 is optimised as a whole: its objects do not tell what it has"
    )


def test_bytes_as_a_line() -> None:
    assert Bytes(7, 1234, 5678).text() == (
        "without it the library would be 1,234 bytes smaller; "
        "what it needs as others do takes 5,678 bytes more"
    )
    assert Bytes(7, 1234, None).text() == (
        "it takes 7 bytes; without it the library would be 1,234 bytes smaller"
    )


def graph() -> LinkedGraph:
    """Models ask for `add.Tensor` and `mul`, whose kernel calls `add.Tensor` and `sum`."""
    nodes = [
        Node("aten::add.Tensor", "", {"code": 1}, {3}),
        Node("aten::mul", "", {"code": 10}, {0, 2}),
        Node("aten::sum", "", {"code": 100}, {3}),
        Node("f", "a.cpp", {"code": 1000}),
        Node("main", "b.cpp", {"code": 10_000}),
    ]
    return LinkedGraph(nodes, [4], {"aten::add.Tensor": 0, "aten::mul": 1}, {0, 1, 2})


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        # a kernel calls it: without models that ask it is there still
        ("aten::add", Bytes(1, 0, 1001)),
        ("mul", Bytes(10, 110, 1001)),
        ("aten::sum", Bytes(100, 100, 1000)),
        ("a.cpp", Bytes(1000, 1000, None)),
        ("main", Bytes(10_000, 10_000, None)),
        ("add_stub", None),
    ],
)
def test_bytes_for_a_subject(subject: str, expected: Bytes | None) -> None:
    assert bytes_for(graph(), subject) == expected


def test_bytes_of_an_operator_are_those_of_the_table() -> None:
    shares = shares_of(graph())
    asked = {"aten::add.Tensor": Asked({}), "aten::mul": Asked({})}
    found = Attribution("camera", "a", "", 11_111, None, {}, asked, shares)
    for name, amount in found.alone().items():
        assert bytes_for(graph(), name) == Bytes(
            {"aten::mul": 10}.get(name, 1), amount, found.shared()[name]
        )


def test_units_of_a_shard() -> None:
    """A constructor's names are one body's: the index has one of them."""
    index: Any = SimpleNamespace(
        names=["_ZN1SC2Ev", "local@a.cpp", "other", "_ZN1TC2Ev"],
        owners=[0, 0, 1, 2],
        units=[SimpleNamespace(path=path) for path in ("a.cpp", "b.cpp", "c.cpp")],
    )
    runtime: Any = SimpleNamespace(index=index)
    shard: Any = SimpleNamespace(members=[SimpleNamespace(unit=one) for one in ("a.cpp", "b.cpp")])
    members = members_of(runtime, shard)
    assert members == {
        "_ZN1SC1Ev": "a.cpp",
        "_ZN1SC2Ev": "a.cpp",
        "local": "a.cpp",
        "other": "b.cpp",
    }
    linked = LinkedObject("unity/x.cpp", ObjectFacts({}, {}, {}, {}), False, members)
    one = Section(1, ".text.other", 4, False, False, ("other",), ())
    assert linked.unit_of(one) == "b.cpp"
    assert linked.unit_of(replace(one, defines=("start",))) == "unity/x.cpp"
    single: Any = SimpleNamespace(members=())
    assert members_of(runtime, single) == {}
