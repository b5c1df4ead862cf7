"""What `plan` tells: counts, who shares what, seconds, exact texts."""

from __future__ import annotations

import io
import json
import random
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from orchestrator.report.plan import (
    PlannedObjects,
    PlannedVariant,
    PlanReport,
    plain,
    plan_report,
    show,
)
from orchestrator.values.action import Compile, Precompile

HEADER = Precompile("$native/pch/aten.h", "linux-x86_64", ("-Oz",), "header", cost=6.0)


def unit(name: str, abi: str, cost: float = 2.0, pch: Precompile | None = None) -> Compile:
    """The compilation of `name`; equal names of one ABI are one object."""
    digest = f"{name}-{abi}"
    return Compile(name, f"$tree/{name}", "c++", abi, ("-Oz",), None, digest, cost, pch)


class Planned:
    """Variants, with the objects that they use."""

    def __init__(self) -> None:
        self.objects = PlannedObjects()
        self.variants: list[PlannedVariant] = []

    def add(self, app: str, abi: str, *names: str, **told: Any) -> Planned:
        """A variant with the units of these names."""
        return self.add_compiles(app, abi, *(unit(name, abi) for name in names), **told)

    def add_compiles(self, app: str, abi: str, *compiles: Compile, **told: Any) -> Planned:
        """A variant with these units."""
        self.variants.append(PlannedVariant(app, abi, self.objects.numbers(compiles), **told))
        return self

    def report(self, *present: str) -> PlanReport:
        """Their report."""
        return plan_report(self.variants, self.objects.actions, frozenset(present))


def toy(*present: str) -> PlanReport:
    planned = Planned()
    size = {"estimated_bytes": 1_655_684}
    planned.add("scanner", "linux-x86_64", "core", "linear", "topk", estimated_bytes=1_670_000)
    planned.add("camera", "linux-x86_64", "core", "linear", **size)
    planned.add("camera", "ios-arm64", "core", "linear", **size)
    planned.add("keyboard", "linux-x86_64", "core", "gru", estimated_bytes=999)
    return planned.report(*(f"$state/objects/{name[:2]}/{name}.o" for name in present))


PLAIN = """\
app       ABI           units  cached  to compile  CPU s  estimated  shared  most with
camera    ios-arm64         2       0           2      4    1.66 MB       0  -
camera    linux-x86_64      2       1           1      2    1.66 MB       2  scanner 2, keyboard 1
keyboard  linux-x86_64      2       1           1      2      999 B       1  camera 1, scanner 1
scanner   linux-x86_64      3       1           2      4    1.67 MB       2  camera 2, keyboard 1

9 units in 4 variants are 6 objects: 1 in the cache, 5 to compile, about 10 CPU seconds
"""


def test_the_table_and_the_sums() -> None:
    assert plain(toy("core-linux-x86_64")) == PLAIN
    target = io.StringIO()
    show(toy("core-linux-x86_64"), Console(file=target, width=40))
    assert target.getvalue() == PLAIN


def test_cpu_levels_that_not_every_library_has_are_told() -> None:
    planned, levels = Planned(), ("avx2", "avxvnni")
    planned.add("camera", "linux-x86_64", "core", cpu_levels=levels, usual_levels=False)
    planned.add("scanner", "linux-x86_64", "core", cpu_levels=("avx2",))
    report = planned.report()
    told = [line for line in plain(report).splitlines() if "CPU levels" in line]
    assert told == ["//apps/camera:linux-x86_64 chooses from CPU levels baseline, avx2, avxvnni"]
    rows = json.loads(report.to_json())["variants"]
    assert [row["cpu_levels"] for row in rows] == [["avx2", "avxvnni"], ["avx2"]]


def test_on_a_terminal_it_has_rules() -> None:
    target = io.StringIO()
    show(toy(), Console(file=target, force_terminal=True, width=140, color_system="standard"))
    assert "─" in target.getvalue()
    assert "6 objects" in target.getvalue()


def test_the_json_is_the_documented_one() -> None:
    text = toy("core-linux-x86_64").to_json()
    assert text == toy("core-linux-x86_64").to_json()
    assert text.endswith("]\n}\n")
    value = json.loads(text)
    assert list(value) == ["format", "objects", "cached", "cpu_seconds", "variants", "shared"]
    assert (value["objects"], value["cached"], value["cpu_seconds"]) == (6, 1, 10.0)
    assert value["variants"][1] == {
        "app": "camera",
        "abi": "linux-x86_64",
        "units": 2,
        "cached": 1,
        "shared": 2,
        "shared_with": [
            {"variant": "//apps/scanner:linux-x86_64", "units": 2},
            {"variant": "//apps/keyboard:linux-x86_64", "units": 1},
        ],
        "cpu_seconds": 2.0,
        "estimated_bytes": 1655684,
        "generated": True,
        "budget_bytes": None,
        "cpu_levels": [],
        "usual_levels": True,
        "is_over_budget": False,
    }
    host = [f"//apps/{app}:linux-x86_64" for app in ("camera", "keyboard", "scanner")]
    assert value["shared"] == [
        {"variants": host, "units": ["core"]},
        {"variants": [host[0], host[2]], "units": ["linear"]},
    ]


def test_nothing_planned() -> None:
    value = json.loads(Planned().report().to_json())
    assert (value["variants"], value["shared"]) == ([], [])


def test_of_many_that_share_three_are_named() -> None:
    planned = Planned()
    for n in range(5):
        planned.add(f"app{n}", "linux-x86_64", "core", *"xyz"[:n])
    report = planned.report()
    assert report.variants[4].shared_with == (
        ("//apps/app3:linux-x86_64", 4),
        ("//apps/app2:linux-x86_64", 3),
        ("//apps/app1:linux-x86_64", 2),
    )
    assert report.variants[0].shared_with[0] == ("//apps/app1:linux-x86_64", 1)


def test_what_is_shared_with_each_is_as_it_is_counted_one_by_one() -> None:
    source, planned = random.Random(2), Planned()
    own = {f"app{n}": source.sample("abcdefghijkl", source.randint(1, 9)) for n in range(9)}
    for app, units in own.items():
        planned.add(app, "linux-x86_64", *units)
    for row in planned.report().variants:
        counts = {other: len({*own[row.app]} & {*own[other]}) for other in own if other != row.app}
        most = sorted((other for other in counts if counts[other]), key=lambda o: -counts[o])[:3]
        assert row.shared_with == tuple((f"//apps/{o}:linux-x86_64", counts[o]) for o in most)


def test_of_those_that_share_as_much_the_first_are_named() -> None:
    planned = Planned()
    for app in "edcba":
        planned.add(app, "linux-x86_64", "core")
    shared_with = planned.report().variants[1].shared_with
    assert shared_with == tuple((f"//apps/{app}:linux-x86_64", 1) for app in "acd")


def test_objects_are_numbered_once() -> None:
    objects = PlannedObjects()
    a, b, c = (unit(name, "linux-x86_64") for name in "abc")
    assert [*objects.numbers([b, a, b])] == [0, 1]
    assert [*objects.numbers([c, unit("a", "linux-x86_64"), c])] == [2, 1]
    assert objects.actions == [b, a, c]


def test_objects_of_no_variant_do_not_count() -> None:
    planned = Planned().add("camera", "linux-x86_64", "core")
    planned.objects.numbers([unit("other", "linux-x86_64")])
    report = planned.report()
    assert (report.objects, report.cpu_seconds) == (1, 2.0)


def test_a_shard_counts_as_its_members() -> None:
    abi = "linux-x86_64"
    shard = replace(unit("shard", abi), members=tuple(unit(name, abi) for name in "ab"))
    planned = Planned()
    planned.add_compiles("camera", abi, shard, unit("own", abi))
    planned.add_compiles("scanner", abi, shard, unit("other", abi))
    report = planned.report(shard.object)
    row = report.variants[0]
    assert (row.units, row.cached, row.shared) == (3, 2, 2)
    assert row.shared_with == (("//apps/scanner:linux-x86_64", 2),)
    assert report.shared[0].units == ("a", "b")


def test_a_precompiled_header_counts_once_for_all_that_read_it() -> None:
    compiles = tuple(unit(name, "linux-x86_64", pch=HEADER) for name in ("a", "b"))
    planned = Planned()
    for app in ("camera", "scanner"):
        planned.add_compiles(app, "linux-x86_64", *compiles)
    # such units take a fifth of what they cost alone
    assert planned.report().cpu_seconds == pytest.approx(0.4 + 0.4 + 6.0)
    assert planned.report().variants[1].cpu_seconds == pytest.approx(0.4 + 0.4 + 6.0)
    assert planned.report(HEADER.output).cpu_seconds == pytest.approx(0.8)
    assert planned.report(compiles[0].object).cpu_seconds == pytest.approx(0.4 + 6.0)
    assert planned.report(*(action.object for action in compiles)).cpu_seconds == 0.0


def test_registrations_that_do_not_exist_yet_are_told() -> None:
    report = Planned().add("camera", "linux-x86_64", "a", generated=False).report()
    assert plain(report).splitlines()[-1] == (
        "1 variant without generated registrations yet: its units count as not cached"
    )


def test_an_estimate_above_its_budget_is_told() -> None:
    def report(size: int | None, budget: int) -> PlanReport:
        told = {"estimated_bytes": size, "budget_bytes": budget}
        return Planned().add("camera", "linux-x86_64", "core", **told).report()

    size = 1_655_684
    assert "budget" not in plain(report(size, size))
    over = report(size, size - 1)
    assert over.variants[0].is_over_budget
    assert plain(over).splitlines()[-1] == (
        "//apps/camera:linux-x86_64 is estimated at 1,655,684 bytes, over its budget of 1,655,683;"
        " estimates are mostly within 8 %"
    )
    assert not report(None, size - 1).variants[0].is_over_budget


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_apps_and_abis_are_never_cut_on_a_terminal(width: int) -> None:
    target = io.StringIO()
    show(toy(), Console(file=target, force_terminal=True, width=width, color_system=None))
    lines = target.getvalue().splitlines()
    rows = [line for line in lines if line.startswith(("camera", "keyboard", "scanner"))]
    assert len(rows) == 4
    assert all(re.match(r"(camera|keyboard|scanner) +(linux-x86_64|ios-arm64) ", r) for r in rows)
    assert "…" not in target.getvalue()
    heads = next(line for line in lines if line.startswith("app"))
    assert "estimated" in heads
    assert ("most with" in heads, "to compile" in heads) == (width >= 100, width >= 80)
