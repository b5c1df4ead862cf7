"""Links whose outputs the cache keeps: what identifies them, who shares them, what is damaged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from real_units import NoView
from toy_workspace import toy_invocation, toy_runtime

from orchestrator.build.executing import execute, stored_links
from orchestrator.build.executing.execute import Execution, execute_actions
from orchestrator.build.executing.stored_links import VALUES, deciding, link_identity
from orchestrator.cache.store import ObjectStore
from orchestrator.commands import replay
from orchestrator.compilers.environment import LEADING
from orchestrator.values.action import ActionGraph, Compile, Link

ABI = "linux-x86_64"
SHARED = Link(
    "$state/v/libtoy.so",
    "shared",
    ABI,
    ("$state/objects/aa/a.o",),
    ("$state/v/libc++.a",),
    ("-Wl,--gc-sections",),
    ("$native/exports.map",),
)
DIGESTS = {"$state/objects/aa/a.o": "1", "$state/v/libc++.a": "2", "$native/exports.map": "3"}


def toolchain(**changes: Any) -> Any:
    value = {"identity": "zig", "link_flags": ("-O2",), "own": (), "link_inputs": ""} | changes
    return SimpleNamespace(
        identity=value["identity"],
        link_flags=value["link_flags"],
        config=SimpleNamespace(link_flags=value["own"]),
        driver=SimpleNamespace(link_inputs=value["link_inputs"]),
    )


def digest(
    link: Link = SHARED,
    tools: Any = None,
    environment: Iterable[str] = (),
    more: Mapping[str, str] | None = None,
) -> str | None:
    digests = {**DIGESTS, **(more or {})}
    identity = link_identity(link, tools or toolchain(), environment, digests)
    return None if identity is None else identity.digest


def test_the_identity_is_another_one_with_each_input(monkeypatch: pytest.MonkeyPatch) -> None:
    assert digest() == digest()
    # the same wherever the workspace and its objects are
    assert digest() == digest(replace(SHARED, output="$state/another/libtoy.so"))
    objects = ("$state/objects/bb/b.o", "$state/objects/aa/a.o")
    both = {"$state/objects/bb/b.o": "4"}
    found = [
        digest(),
        digest(replace(SHARED, kind="extensible")),
        digest(replace(SHARED, flags=())),
        digest(replace(SHARED, output="$state/v/libother.so")),
        digest(replace(SHARED, whole=objects), more=both),
        digest(replace(SHARED, whole=objects[::-1]), more=both),
        digest(
            replace(SHARED, whole=(*objects[1:], "$state/v/libc++.a"), on_demand=objects[:1]),
            more=both,
        ),
        *(digest(more={path: "another"}) for path in DIGESTS),
        digest(tools=toolchain(identity="another zig")),
        digest(tools=toolchain(link_flags=("-O1",))),
        digest(tools=toolchain(link_inputs="a sysroot")),
        digest(environment=["SOURCE_DATE_EPOCH=1"]),
        digest(environment=["SOURCE_DATE_EPOCH=2"]),
    ]
    monkeypatch.setattr(stored_links, "link_commands", lambda abi, link: {"shared": "ld"})
    found.append(digest())
    monkeypatch.undo()
    monkeypatch.setattr(stored_links, "own_steps", lambda kind: "another relink.py")
    found.append(digest())
    assert None not in found
    assert len({*found}) == len(found)


@pytest.mark.parametrize(
    "call",
    [
        lambda: digest(tools=toolchain(link_inputs=None)),
        lambda: digest(tools=toolchain(own=("-Wl,--dynamic-list=/list",))),
        *(partial(digest, more={path: ""}) for path in DIGESTS),
        lambda: digest(replace(SHARED, whole=("$state/objects/cc/c.o",))),
    ],
)
def test_where_something_that_it_reads_is_not_known_there_is_none(
    call: Callable[[], str | None],
) -> None:
    assert call() is None


def test_variables_that_no_linker_reads_or_gets_decide_nothing() -> None:
    env = {"ZIG_GLOBAL_CACHE_DIR": "/a", "ZIG_LOCAL_CACHE_DIR": "/b", "TERM": "x", "PATH": "/c"}
    env |= {"ZIG_LIBC": "/d", "LIBRARY_PATH": "/e", "SOURCE_DATE_EPOCH_OF_MINE": "1"}
    found = deciding({**env, "ZERO_AR_DATE": "2", "SOURCE_DATE_EPOCH": "1"})
    assert found == ("SOURCE_DATE_EPOCH=1", "ZERO_AR_DATE=2")


def test_a_replay_looks_at_every_variable_that_decides() -> None:
    deciding_there = replay._DECIDING
    assert [one for one in (*LEADING, *VALUES) if not one.startswith(deciding_there)] == []


# Compiles, links and archives by writing all that it reads into what it makes; logs what it makes.
TOOL = """\
#!/bin/sh
[ ! -e "$(dirname "$0")/fail" ] || exit 1
out= files=
previous=
for argument in "$@"; do
  case "$previous" in -o | rcsD) out=$argument ;; -MF) : > "$argument" ;; esac
  case "$argument" in
    @*) files="$files $(cat "${argument#@}")" ;;
    -* | rcsD) ;;
    *) case "$previous" in -o | rcsD | -MF) ;; *) files="$files $argument" ;; esac ;;
  esac
  previous=$argument
done
cat $files > "$out" || exit 1
basename "${out%.*.part}" >> "$(dirname "$0")/log"
"""


class Checkout:
    """A workspace whose graph is two objects, an archive, a library and a program; all have one
    cache."""

    link_inputs: str | None = ""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.said = root, list[str]()
        state, tree, tool = root / name, root / "tree", root / "tool"
        for folder in (root / "cache", state, tree):
            folder.mkdir(exist_ok=True)
        for source in ("a.cpp", "b.cpp", "exports.map"):
            if not (tree / source).exists():
                (tree / source).write_text(f"{source}\n")
        if not tool.exists():
            tool.write_text(TOOL)
            tool.chmod(0o755)
        folders = {"cache": f"{root}/cache", "state": str(state), "tree": str(tree)}
        found = toolchain(link_inputs=self.link_inputs, link_flags=())
        for verb in ("cxx", "cc", "ar"):
            setattr(found, verb, tool)
        self.here = toy_invocation(
            root,
            log=self.said.append,
            ready=[toy_runtime(folders=folders)],
            found={ABI: found},
            state=state,
            env=dict(os.environ),
        )
        self.names = {"a": "a" * 64, "b": "b" * 64}

    @property
    def graph(self) -> ActionGraph:
        first, second = (
            Compile(f"{n}.cpp", f"$tree/{n}.cpp", "c++", ABI, (), None, self.names[n], 1.0)
            for n in ("a", "b")
        )
        archive = Link("$state/v/libb.a", "archive", ABI, (second.object,), ())
        library = Link(
            "$state/v/libtoy.so",
            "shared",
            ABI,
            (first.object,),
            (archive.output,),
            ("-shared",),
            ("$tree/exports.map",),
        )
        program = Link("$state/v/driver", "executable", ABI, (first.object,), (library.output,))
        return ActionGraph(
            {one.object: one for one in (first, second)}, (program, library, archive)
        )

    def build(self, *, fails: bool = False) -> list[str]:
        """What was compiled and linked."""
        log = self.root / "log"
        log.unlink(missing_ok=True)
        view = NoView()
        done: Execution = execute_actions(
            self.here,
            self.graph,
            {},
            name="build",
            jobs=1,
            keep_going=False,
            view=lambda costs, jobs: view,
        )
        assert bool(done.result.failures) == fails
        made = log.read_text().split() if log.exists() else []
        assert fails or done.result.actions == len(made)
        return sorted(
            {"a" * 64: "a", "b" * 64: "b"}.get(one.partition(".")[0], one) for one in made
        )

    def texts(self) -> dict[str, str]:
        folder = self.here.context.state / "v"
        return {
            path.name: path.read_text()
            for path in sorted(folder.iterdir())
            if path.suffix != ".members"
        }

    def entries(self) -> list[Path]:
        return sorted((self.root / "cache/links").glob("*/*"))


LINKS = ["driver", "libb.a", "libtoy.so"]
EVERYTHING = ["a", "b", *LINKS]


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A checkout that has built everything, the only one so far."""
    for function in ("checked_environment", "compiler_environment"):
        answer = (dict(os.environ), 0) if function == "checked_environment" else dict(os.environ)
        monkeypatch.setattr(execute, function, lambda *folders, answer=answer: answer)
    monkeypatch.setattr(execute, "zig_caches", lambda env: ())
    for name in VALUES:
        monkeypatch.delenv(name, raising=False)
    checkout = Checkout(tmp_path, "first")
    assert checkout.build() == EVERYTHING
    return checkout


def test_a_second_checkout_links_nothing(first: Checkout) -> None:
    second = Checkout(first.root, "second")
    assert second.build() == []
    assert second.texts() == first.texts()
    assert os.access(second.here.context.state / "v/driver", os.X_OK)
    # and neither does another build in either
    assert (second.build(), first.build()) == ([], [])
    assert (first.said, second.said) == ([], [])
    assert len(first.entries()) == len(LINKS)


def test_another_file_system_gets_copies_that_run(
    first: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError("no links here")

    for entry in first.entries():
        entry.chmod(0o644)
    monkeypatch.setattr(Path, "hardlink_to", refuse)
    second = Checkout(first.root, "second")
    assert second.build() == []
    assert os.access(second.here.context.state / "v/driver", os.X_OK)


@pytest.mark.parametrize("number", range(len(LINKS)))
def test_a_damaged_entry_is_told_dropped_and_made_again(first: Checkout, number: int) -> None:
    expected, damaged = first.texts(), first.entries()[number]
    damaged.write_text("damaged")
    second = Checkout(first.root, "second")
    made = second.build()
    assert len(made) == 1 or "libtoy.so" in made or "libb.a" in made
    assert second.said == [
        f"1 damaged linked file in the cache: removed, to be linked again ({damaged.name[:12]}...)"
    ]
    assert second.texts() == expected
    # the first one's file was another name of the damaged one
    assert first.build() == []
    assert first.texts() == expected


def test_what_differs_is_linked_and_what_was_before_is_not_linked_again(first: Checkout) -> None:
    script = first.root / "tree/exports.map"
    before = first.texts()
    script.write_text("another\n")
    # before the library is linked nobody knows that its bytes are the same
    assert first.build() == ["driver", "libtoy.so"]
    script.write_text("exports.map\n")
    assert first.build() == []
    assert first.texts() == before


def test_a_link_that_fails_leaves_what_was_there_and_stores_nothing(first: Checkout) -> None:
    (first.root / "tree/exports.map").write_text("another\n")
    (first.root / "fail").touch()
    before = first.texts()
    assert first.build(fails=True) == []
    assert first.texts() == before
    (first.root / "fail").unlink()
    assert first.build() == ["driver", "libtoy.so"]
    assert Checkout(first.root, "second").build() == []


def test_an_object_that_was_pruned_is_compiled_and_what_is_linked_of_it_linked(
    first: Checkout,
) -> None:
    (entry,) = (first.root / "cache/objects").glob("bb/*")
    entry.unlink()
    before = first.texts()
    # the files are there, of a link that may be another one: nobody knows the object yet
    assert first.build() == ["b", *LINKS]
    assert first.texts() == before


def test_a_link_that_the_cache_has_lost_is_kept_by_its_workspace(first: Checkout) -> None:
    for entry in first.entries():
        entry.unlink()
    assert first.build() == []
    assert len(first.entries()) == len(LINKS)
    # not where the file is damaged
    for entry in first.entries():
        entry.unlink()
    (first.here.context.state / "v/driver").write_text("damaged")
    assert first.build() == ["driver"]
    assert "damaged" not in first.texts().values()


def test_ninjas_log_of_another_link_does_not_vouch_for_what_the_cache_gave(
    first: Checkout,
) -> None:
    """One link by ninja, another from the cache in its place, and the first again without a cache:
    its command is the one in ninja's log, and the file is younger than all that it is linked of."""
    script = first.root / "tree/exports.map"
    one = first.texts()
    (first.root / "tree/b.cpp").write_text("another\n")
    first.names["b"] = "c" * 64
    second = Checkout(first.root, "second")
    second.names = dict(first.names)
    second.build()
    assert first.build() == []
    two = first.texts()
    assert two != one
    for entry in first.entries():
        entry.unlink()
    (first.root / "tree/b.cpp").write_text("b.cpp\n")
    first.names["b"] = "b" * 64
    assert script.read_text() == "exports.map\n"
    assert first.build() == LINKS
    assert first.texts() == one


def test_a_compiler_that_does_not_tell_what_it_links_keeps_nothing(
    first: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkout, "link_inputs", None)
    second = Checkout(first.root, "second")
    assert second.build() == LINKS
    assert second.build() == []
    assert Checkout(first.root, "third").build() == LINKS
    # what the cache gave under a known identity was another compiler's
    assert Checkout(first.root, "first").build() == LINKS


def test_a_cache_that_cannot_be_written_links_in_the_workspace_once(first: Checkout) -> None:
    second = Checkout(first.root, "second")
    own = ObjectStore((second.here.context.state / "store",))
    second.here = replace(second.here, store=own)
    assert second.build() == EVERYTHING
    assert second.build() == []


def test_what_a_link_reads_of_another_one_is_what_that_makes_now(first: Checkout) -> None:
    """Not the file of an earlier build, which still lies there when the store is asked."""

    class Joined(Checkout):
        @property
        def graph(self) -> ActionGraph:
            graph = super().graph
            joined = Link(
                "$state/v/joined.o",
                "relocatable",
                ABI,
                ("$state/objects/aa/" + "a" * 64 + ".o",),
                (),
                (),
                ("$state/v/libb.a",),
            )
            (archive,) = (one for one in graph.links if one.kind == "archive")
            return ActionGraph(graph.compiles, (joined, archive))

    checkout = Joined(first.root, "joined")
    assert checkout.build() == ["joined.o"]
    (first.root / "tree/b.cpp").write_text("another b.cpp\n")
    checkout.names["b"] = "c" * 64
    assert checkout.build() == ["c" * 64 + ".o", "joined.o", "libb.a"]
    # now it is known of what it is made
    assert Joined(first.root, "other").build() == []
