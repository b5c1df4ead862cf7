"""What `explain` tells of a toy variant: as planned, as logged, and after each kind of change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from core_toy import FACTS, LINEAR, make_index, spec
from toy_natives import natives
from toy_workspace import toy_invocation, toy_runtime

from orchestrator.build.executing import stored_links
from orchestrator.build.explaining import actions as module
from orchestrator.build.explaining.action_details import shared_details
from orchestrator.build.explaining.actions import (
    UnknownActionError,
    action_log,
    explain,
    log_actions,
    log_path,
)
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.cache.store import ObjectStore
from orchestrator.codegen.registrations import GeneratedUnit
from orchestrator.plan.anchors import anchored
from orchestrator.plan.graph import VariantObjects, native_compiles, registration_compiles
from orchestrator.plan.planner import Planner
from orchestrator.plan.unity import UnityRules, shard_compile
from orchestrator.plan.variant import VariantSpec
from orchestrator.pytorch.dialects import load_version
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import registry
from orchestrator.values.action import Link
from orchestrator.values.fingerprint import text_digest
from orchestrator.values.labels import VariantLabel
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection

LABEL = VariantLabel("camera", "linux-x86_64")
APP = """\
models: [{file: models/classifier.ptl}]
targets: [linux-x86_64]
"""
NATIVE = natives()
M = frozenset({"m"})


def selection(*operators: str, dtype: str = "Float") -> Selection:
    return Selection(dict.fromkeys(map(Op, operators), M), kernel_dtypes={"linear_tag": {dtype: M}})


class Toy:
    """A workspace of one variant, of which tests change what a build would read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.said: list[str] = []
        self.version, self.zig = "0.17.0", ["c++", "-g0"]
        self.selection = selection("aten::linear")
        self.spec: VariantSpec = spec()
        self.link_flags: tuple[str, ...] = ("-Wl,--gc-sections",)
        (root / "exports.map").write_text("one")

    @property
    def here(self) -> Invocation:
        identity = {"zig": f"ziglang {self.version}", "verbs": {"cxx": self.zig}}
        toolchain: Any = SimpleNamespace(
            identity=self.spec.toolchain,
            compile_flags=self.spec.compile_flags,
            link_flags=("-s",),
            cxx=Path("/cache/toolchains/linux-x86_64-12345/cxx"),
            config=SimpleNamespace(link_flags=()),
            driver=SimpleNamespace(version=self.version, identity=identity, link_inputs=""),
        )
        runtime = toy_runtime(
            folders={"state": f"{self.root}/state", "native": str(self.root)},
            native=NATIVE,
            parts={"tree": "7" * 64, "native": {"x.h": "int x;\n"}, "configure": [("A", "1")]},
        )
        return toy_invocation(
            self.root,
            {"camera": APP},
            log=self.said.append,
            ready=[runtime],
            found={LABEL.abi: toolchain},
            state=self.root / "state",
        )

    @property
    def variant(self) -> Any:
        plan = Planner(make_index(), FACTS).plan(
            registry(make_index(), ["CPU"], DIALECT.keys), self.selection, self.spec
        )
        unit = GeneratedUnit(
            "registrations",
            Path(f"/cache/r/{len(plan.request.operators)}.cpp"),
            f"{len(plan.request.operators)}" * 64,
        )
        objects = VariantObjects(
            plan,
            registration_compiles(FACTS, self.spec, [unit], Path("/cache")),
            native_compiles(FACTS, self.spec, ["capi/capi.cpp"], NATIVE),
        )
        objects = self.change(objects)
        shared = Link(
            "$state/variants/camera/linux-x86_64/libcamera_torch.so",
            "shared",
            LABEL.abi,
            objects.whole,
            objects.on_demand,
            self.link_flags,
            ("$native/exports.map",),
        )
        links = SimpleNamespace(all=(shared,), runner_compiles=())
        return SimpleNamespace(label=LABEL, selection=self.selection, objects=objects, links=links)

    def change(self, objects: VariantObjects) -> VariantObjects:
        return objects

    def build(self) -> None:
        """As a build that links everything."""
        log_actions(self.here, [self.variant])
        store = ObjectStore((self.root / "cache",))
        for action in self.variant.objects.compiles:
            made = self.root / "made.o"
            made.write_text(action.unit)
            store.put(action.object.removeprefix("$state/"), made)
        (log_path(self.here, LABEL).parent / "libcamera_torch.so").touch()

    def explained(self, name: str) -> str:
        return "".join(one.text() for one in explain(self.here, LABEL, name))


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    toy = Toy(tmp_path)

    def planned(here: object, labels: list[VariantLabel], *, generate: bool) -> tuple[Any, ...]:
        assert (labels, generate) == ([LABEL], False)
        return (toy.variant,)

    monkeypatch.setattr(module, "plan_variants", planned)
    return toy


def test_a_unit_before_and_after_its_first_build(toy: Toy) -> None:
    assert toy.explained(LINEAR) == f"{LINEAR} of {LABEL}: never built here; to be compiled\n"
    toy.build()
    assert toy.explained(LINEAR) == f"{LINEAR} of {LABEL}: up to date\n"
    assert toy.explained("link") == f"libcamera_torch.so of {LABEL}: up to date\n"


def test_another_compiler(toy: Toy) -> None:
    toy.build()
    toy.version, toy.zig, toy.spec = "0.18.0", ["c++", "-g1"], spec(toolchain="u" * 64)
    differs = (
        "  compiler, arguments of cxx: added -g1\n"
        "  compiler, arguments of cxx: removed -g0\n"
        "  compiler, version: 0.17.0 -> 0.18.0\n"
        "  compiler, zig: ziglang 0.17.0 -> ziglang 0.18.0\n"
    )
    again = "to be compiled again; since the last build:"
    assert toy.explained(LINEAR) == f"{LINEAR} of {LABEL}: {again}\n{differs}"
    assert toy.explained("native/capi/capi.cpp") == (
        f"native/capi/capi.cpp of {LABEL}: {again}\n{differs}"
    )
    head, *lines = toy.explained("libcamera_torch.so").splitlines()
    assert head == f"libcamera_torch.so of {LABEL}: to be linked again; since the last build:"
    assert lines[:-1] == differs.splitlines()
    assert lines[-1].startswith("  objects: changed core/Guard.cpp, core/Tensor.cpp, generated/")


def test_another_command_of_links(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.build()
    monkeypatch.setattr(stored_links, "link_commands", lambda abi, link: {"shared": "ld $in"})
    head, line = toy.explained("link").splitlines()
    assert head == f"libcamera_torch.so of {LABEL}: to be linked again; since the last build:"
    assert line.startswith("  command: ${cxx_linux-x86_64} -shared ")
    assert line.endswith(" -> ld $in")


def test_more_operators(toy: Toy) -> None:
    toy.build()
    toy.selection = selection("aten::linear", "aten::add.Tensor", dtype="Long")
    assert toy.explained(LINEAR) == (
        f"{LINEAR} of {LABEL}: to be compiled again; since the last build:\n"
        "  selection, kernel dtypes: added linear_tag Long\n"
        "  selection, kernel dtypes: removed linear_tag Float\n"
    )
    assert toy.explained("generated/registrations.cpp") == (
        f"generated/registrations.cpp of {LABEL}: to be compiled again; since the last build:\n"
        "  generated source, CPU kernels: added aten::add.Tensor\n"
        "  generated source, operators: added aten::add.Tensor\n"
    )


def test_an_object_that_the_cache_has_is_not_compiled(toy: Toy) -> None:
    toy.build()
    before, toy.selection = toy.selection, selection("aten::linear", dtype="Long")
    toy.build()
    toy.selection = before
    assert toy.explained(LINEAR).startswith(
        f"{LINEAR} of {LABEL}: not to be compiled, the cache has the object; since the last build:"
    )


def test_what_the_last_change_was_is_told_after_it(toy: Toy) -> None:
    toy.build()
    toy.link_flags = ("-Wl,--gc-sections", "-Wl,--icf=safe")
    (toy.root / "exports.map").write_text("two")
    toy.build()
    first, second = (
        "7692c3ad3540",  # sha256 of `one`
        "3fc4ccfe7458",
    )
    assert toy.explained("link") == (
        f"libcamera_torch.so of {LABEL}: up to date\n"
        "  what differed when it was last made:\n"
        "    flags: added -Wl,--icf=safe\n"
        f"    $native/exports.map: {first} -> {second}\n"
    )
    assert toy.explained(LINEAR) == f"{LINEAR} of {LABEL}: up to date\n"


def test_an_object_that_was_pruned(toy: Toy) -> None:
    toy.build()
    for entry in (toy.root / "cache/objects").glob("*/*"):
        entry.unlink()
    assert toy.explained(LINEAR) == (
        f"{LINEAR} of {LABEL}: to be compiled again; nothing differs, but the output is missing\n"
    )


def test_a_damaged_log_is_told_and_counts_as_none(toy: Toy) -> None:
    toy.build()
    log_path(toy.here, LABEL).write_text("x")
    assert toy.explained(LINEAR).startswith(f"{LINEAR} of {LABEL}: never built here; ")
    assert toy.said == [
        f"warning: the log of what {LABEL} was built from is damaged: it counts as none"
    ]
    toy.build()
    assert toy.explained(LINEAR) == f"{LINEAR} of {LABEL}: up to date\n"


def test_an_unknown_unit(toy: Toy) -> None:
    with pytest.raises(UnknownActionError) as caught:
        toy.explained("Linear.cpp")
    assert caught.value.render() == (
        f"error: {LABEL} has no unit `Linear.cpp`\n"
        "  expected: a unit's path, the name of a file that is linked, or `link`\n"
        f"  do:       did you mean `{LINEAR}`?"
    )


def in_a_shard(objects: VariantObjects) -> VariantObjects:
    inside = [one for one in objects.plan.on_demand if one.unit.startswith("core/")]
    shard = shard_compile(UnityRules(), inside, "core-1")
    left = [one for one in objects.plan.on_demand if one not in inside]
    return replace(objects, plan=replace(objects.plan, on_demand=(shard, *left)))


def test_a_unit_of_a_shard_is_explained_by_its_shard(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy, "change", in_a_shard)
    toy.build()
    toy.spec = spec(compile_flags=("-DNEW",))
    assert toy.explained("core/Tensor.cpp") == (
        f"unity/core-1.cpp of {LABEL}: to be compiled again; since the last build:\n"
        "  flags: added -DNEW\n"
    )


def with_anchors(objects: VariantObjects) -> VariantObjects:
    return anchored(objects, (), NATIVE)


@pytest.mark.parametrize("change", [lambda objects: objects, in_a_shard, with_anchors])
def test_every_action_is_logged_under_its_digest(
    change: Callable[[VariantObjects], VariantObjects], toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy, "change", change)
    variant = toy.variant
    log = action_log(toy.here, variant, shared_details(toy.here, ["linux-x86_64"]))
    for action in variant.objects.compiles:
        assert log.actions[action.unit].digest == action.fingerprint
        for member in action.members:
            assert log.actions[member.unit].parts["shard"] == action.unit
            assert log.actions[member.unit].parts["runtime"] == FACTS.identity
    # what is not mentioned is not logged
    mentioned = {part for one in log.actions.values() for part in one.parts.values()}
    assert log.details.keys() <= mentioned
    assert log.details[NATIVE.digest_of("capi/capi.cpp")] == NATIVE.read_by("capi/capi.cpp")
    runtime = log.details[FACTS.identity]
    assert runtime["tree"] == "7" * 64
    assert runtime["native x.h"] == text_digest("int x;\n")
    values = load_version("1.13.1").configure.values
    assert {f"configure {name}": value for name, value in values.items()}.items() <= runtime.items()


def test_a_link_is_another_one_with_another_object_flag_or_input(toy: Toy) -> None:
    def digest() -> str:
        found = action_log(toy.here, toy.variant, {})
        return found.actions["libcamera_torch.so"].digest

    digests = [digest(), digest()]
    (toy.root / "exports.map").write_text("two")
    digests.append(digest())
    toy.link_flags = ()
    digests.append(digest())
    toy.selection = selection("aten::linear", dtype="Long")
    digests.append(digest())
    assert digests[0] == digests[1]
    assert len({*digests}) == 4
