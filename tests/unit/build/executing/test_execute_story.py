"""What the pipeline writes before ninja runs, and the probe of the C++ API's headers."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from real_units import NoView
from toy_workspace import DIGEST, NOTHING, toy_invocation, toy_runtime

from orchestrator.build.delivering.public_headers import (
    ProbeFailedError,
    consumer_definitions,
    delivered_headers,
)
from orchestrator.build.executing.execute import (
    Execution,
    execute_actions,
    require_success,
    write_texts,
)
from orchestrator.build.executing.launch import with_headers
from orchestrator.compilers.resolve import CompilerMissingError
from orchestrator.deliver.headers import HeaderFile
from orchestrator.execute.ninja_run import ActionFailedError, NinjaResult
from orchestrator.system.staging import write_if_changed
from orchestrator.values.action import ActionGraph, Compile, Precompile
from orchestrator.values.packages import library_name

# What a launcher's zig has its library under, in the cache: by its release.
ZIG_LINK = f"zig-lib-{metadata.version('ziglang')}"


def written(path: Path) -> tuple[int, int]:
    """What a write changes of a file; a read may change its time of access."""
    facts = path.stat()
    return facts.st_ino, facts.st_mtime_ns


def test_a_file_is_written_only_where_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "state/build.ninja"
    assert write_if_changed(path, "one\n")
    before = written(path)
    assert not write_if_changed(path, "one\n")
    assert written(path) == before
    assert write_if_changed(path, "two\n")
    assert path.read_text() == "two\n"
    assert list(path.parent.iterdir()) == [path]


def test_what_a_plan_wants_written_is_written_where_it_is_not_there(tmp_path: Path) -> None:
    here = toy_invocation(tmp_path, ready=[toy_runtime(folders={"cache": str(tmp_path)})])
    write_texts(here, {"$cache/projections/a.h": "text a", "$cache/stubs/b.cpp": "text b"})
    first, second = tmp_path / "projections/a.h", tmp_path / "stubs/b.cpp"
    assert (first.read_text(), second.read_text()) == ("text a", "text b")
    before = written(first)
    second.write_text("half of")
    write_texts(here, {"$cache/projections/a.h": "text a", "$cache/stubs/b.cpp": "text b"})
    assert written(first) == before
    assert second.read_text() == "text b"


def test_library_names() -> None:
    assert library_name("camera") == "camera_torch"


COMPILER = """\
#!/bin/sh
echo "probe.o: $PWD/nothing \\\\"
echo " {root}/tree/ATen/ATen.h {root}/tree/c10/x.h {root}/system/stdio.h"
"""


ONE_RUNTIME = """\
version: 1
runtimes: {pytorch_2_6: {pytorch: 2.6.0, tree: "%s", sources: [path: /toy/tree]}}
"""


class Probed:
    """An invocation with a compiler that answers as its script says.

    folders  of the runtime, besides its tree
    changes  of `toy_invocation`
    """

    def __init__(
        self, root: Path, script: str, folders: Mapping[str, str] = NOTHING, **changes: Any
    ) -> None:
        compiler = root / "cxx"
        compiler.write_text(script.replace("{root}", str(root)))
        compiler.chmod(0o755)
        self.said: list[str] = []
        tools = SimpleNamespace(
            cxx=compiler,
            cc=compiler,
            ar=compiler,
            identity="toolchain",
            compile_flags=("-DOURS=1", "-march=x"),
            link_flags=(),
            config=SimpleNamespace(system="linux"),
            driver=SimpleNamespace(family="clang"),
        )
        self.runtime = toy_runtime(folders={"tree": f"{root}/tree", **folders})
        self.here = toy_invocation(
            root,
            log=self.said.append,
            ready=[self.runtime],
            found=dict.fromkeys(("linux-x86_64", "linux-arm64"), cast(Any, tools)),
            **{"env": os.environ, **changes},
        )

    def headers(self, abi: str = "linux-x86_64") -> tuple[HeaderFile, ...]:
        return delivered_headers(self.here, self.runtime, abi)


def test_headers_are_those_that_the_probe_reads_and_found_once(tmp_path: Path) -> None:
    (tmp_path / "WORKSPACE").write_text(ONE_RUNTIME % DIGEST)
    for header in ("tree/ATen/ATen.h", "tree/c10/x.h", "system/stdio.h"):
        (tmp_path / header).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / header).touch()
    one = Probed(tmp_path, COMPILER)
    found = one.headers()
    assert found == (
        HeaderFile(f"{tmp_path}/tree/ATen/ATen.h", "ATen/ATen.h"),
        HeaderFile(f"{tmp_path}/tree/c10/x.h", "c10/x.h"),
    )
    assert one.headers() is found
    assert one.said == ["finding the headers of the C++ API for linux-x86_64"]
    another = Probed(tmp_path, "#!/bin/sh\nexit 1\n")
    assert another.headers() == found
    assert another.said == []
    # nor by another checkout, whose folders are others
    (tmp_path / "checkout").mkdir()
    checkout = Probed(tmp_path / "checkout", "#!/bin/sh\nexit 1\n", cache=tmp_path / "cache")
    assert checkout.headers() == (
        HeaderFile(f"{tmp_path}/checkout/tree/ATen/ATen.h", "ATen/ATen.h"),
        HeaderFile(f"{tmp_path}/checkout/tree/c10/x.h", "c10/x.h"),
    )
    assert checkout.said == []


def test_of_several_runtimes_the_one_whose_headers_are_found_is_named(tmp_path: Path) -> None:
    one = Probed(tmp_path, COMPILER)
    one.headers()
    assert one.said == ["finding the headers of pytorch_2_6's C++ API for linux-x86_64"]


def test_a_probe_that_does_not_compile(tmp_path: Path) -> None:
    one = Probed(tmp_path, "#!/bin/sh\necho 'x.h:1:1: error: no' >&2\nexit 1\n")
    with pytest.raises(ProbeFailedError) as caught:
        one.headers("linux-arm64")
    assert caught.value.render() == (
        "error: the headers of the C++ API do not compile for linux-arm64\n"
        "  do:       check the flags in toolchains/linux-arm64.yaml\n"
        "  | x.h:1:1: error: no"
    )


def test_consumers_define_what_changes_a_headers_meaning(tmp_path: Path) -> None:
    one = Probed(tmp_path, "")
    definitions = consumer_definitions(one.here, one.runtime, "linux-x86_64")
    assert list(definitions) == sorted(definitions)
    assert {"OURS=1", "C10_MOBILE", "AT_PER_OPERATOR_HEADERS"} <= set(definitions)
    assert not {d for d in definitions if d.startswith(("NDEBUG", "FMT_", "_FILE", "MINIZ"))}


COPY = """\
#!/bin/sh
# A compiler or launcher: writes what it was called as, and where a launcher said who it is.
echo "$WHO" >> "$(dirname "$0")/log"
case "$1" in */cxx) shift ;; esac
for argument in "$@"; do
  case "$previous" in -o) out="$argument" ;; -MF) : > "$argument" ;; esac
  previous="$argument"
done
echo done > "$out"
"""


class Workshop(Probed):
    """Carries out graphs, with a compiler that only leaves files.

    state  the folder of the workspace's own files
    """

    flags: tuple[str, ...] = ()

    def __init__(
        self,
        root: Path,
        launcher: Mapping[str, object] | None = None,
        *,
        state: str = "state",
        **folders: str,
    ) -> None:
        for name in ("cache", state, "tree"):
            (root / name).mkdir(exist_ok=True)
        (root / "tree/a.cpp").touch()
        folders = {
            "cache": str(root / "cache"),
            "state": str(root / state),
            "pch": str(root / state / "pch"),
            **folders,
        }
        added = "" if launcher is None else f"launcher: {json.dumps(launcher)}\n"
        super().__init__(root, COPY, folders, added=added, state=root / state)

    def action(self, name: str) -> Compile:
        return Compile(
            "a.cpp", "$tree/a.cpp", "c++", "linux-x86_64", self.flags, None, name * 64, 1.0
        )

    def carry(self, *names: str) -> Execution:
        return self.carry_out(map(self.action, names))

    def carry_out(
        self, actions: Iterable[Compile], targets: Collection[str] | None = None
    ) -> Execution:
        """targets: objects; None: all."""
        graph = ActionGraph({one.object: one for one in actions})
        view = NoView()
        return execute_actions(
            self.here,
            graph,
            {"$cache/projections/digest.h": "text"},
            name="toy",
            targets=sorted(graph.compiles if targets is None else targets),
            jobs=1,
            keep_going=False,
            view=lambda costs, jobs: view,
        )


def test_targets_that_are_there_are_no_reason_to_make_others(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.carry("a")
    one, other = shop.action("a"), shop.action("b")
    done = shop.carry_out([one, other], targets=[one.object])
    assert done.result == NinjaResult(0, {})
    assert shop.carry("a", "b").result == NinjaResult(1, {})


def test_what_the_cache_holds_is_not_compiled_even_as_a_target(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    first = shop.carry("a")
    assert first.compiled == {shop.action("a").object}
    assert first.result == NinjaResult(1, {})
    assert (tmp_path / "cache/projections/digest.h").read_text() == "text"
    # another workspace: its ninja has never heard of the object
    shop = Workshop(tmp_path, state="another")
    both = shop.carry("a", "b")
    assert both.compiled == {shop.action("b").object}
    assert both.result == NinjaResult(1, {})
    none = shop.carry("a", "b")
    assert (none.compiled, none.result) == (frozenset(), NinjaResult(0, {}))


def test_a_precompiled_header_is_restored_only_where_a_unit_is_compiled_with_it(
    tmp_path: Path,
) -> None:
    shop = Workshop(tmp_path)
    header = Precompile("$tree/torch.h", "linux-x86_64", (), "header", 9.0)
    (tmp_path / "tree/torch.h").touch()
    first, second, third = (replace(shop.action(name), pch=header) for name in "abc")
    assert shop.carry_out([first, second]).result.actions == 3
    # another workspace, on the same cache
    shop, state = Workshop(tmp_path, state="another"), tmp_path / "another"
    assert shop.carry_out([first, second]).result.actions == 0
    assert not (state / "pch").exists()
    # one that is there already, and that nothing needs: not read, and not kept either
    (state / "pch").mkdir()
    damaged = state / "pch/header.pch"
    damaged.write_text("half of")
    stored = sorted((tmp_path / "cache").rglob("*.pch"))
    assert len(stored) == 1
    assert shop.carry_out([first, second]).result.actions == 0
    assert (damaged.read_text(), sorted((tmp_path / "cache").rglob("*.pch"))) == ("half of", stored)
    # it is checked for the first unit that is compiled with it
    assert shop.carry_out([first, third]).result.actions == 1
    assert damaged.read_text() == "done\n"
    assert (damaged.stat().st_ino, shop.said) == (stored[0].stat().st_ino, [])


# Who is asked for a version is found again; who is to compile fails, and is gone where `gone` is.
FAILS = """\
#!/bin/sh
case "$1" in -*version|-E*|-v|-print*) echo toy 12.1; exit 0 ;; esac
[ ! -e "$(dirname "$0")/gone" ] || rm -- "$0"
echo "a.cpp:1:1: error: no" >&2
exit 1
"""

TOOLCHAIN = """\
abi: linux-x86_64
system: linux
processor: x86_64
format: elf
run: native
compiler: {{command: {{cxx: {program}, cc: sh, ar: sh}}}}
"""


@pytest.mark.parametrize("gone", [True, False])
def test_a_compiler_that_is_removed_in_the_middle_is_told_by_its_toolchain(
    tmp_path: Path, gone: bool
) -> None:
    program = tmp_path / "cxx"
    (tmp_path / "toolchains").mkdir()
    (tmp_path / "toolchains/linux-x86_64.yaml").write_text(TOOLCHAIN.format(program=program))
    shop = Workshop(tmp_path)
    program.write_text(FAILS)
    if gone:
        (tmp_path / "gone").touch()
    execution = shop.carry("a")
    graph = ActionGraph({one.object: one for one in [shop.action("a")]})
    with pytest.raises(CompilerMissingError if gone else ActionFailedError) as caught:
        require_success(shop.here, graph, execution)
    told = caught.value.render()
    if gone:
        assert told == (
            f"toolchains/linux-x86_64.yaml: error: {program} is not on PATH\n"
            f"  do:       install {program}, or choose a toolchain of zig"
        )
    else:
        assert "a.cpp:1:1: error: no" in told


def test_a_launcher_stands_before_the_compiler_with_its_environment(tmp_path: Path) -> None:
    launcher = tmp_path / "my launcher"
    launcher.write_text(COPY)
    launcher.chmod(0o755)
    said = {"command": [str(launcher)], "env": {"WHO": "launcher"}}
    assert Workshop(tmp_path, said).carry("c").result == NinjaResult(1, {})
    assert (tmp_path / "log").read_text() == "launcher\n"


def test_a_launcher_sees_no_folder_of_this_installation(tmp_path: Path) -> None:
    """It runs in the cache folder, and all that a unit is compiled with lies there."""
    launcher = tmp_path / "ccache"
    launcher.write_text(COPY + 'echo "$PWD $CCACHE_COMPILERCHECK $CCACHE_BASEDIR $*" > "$0.log"\n')
    launcher.chmod(0o755)
    said = {"command": [str(launcher)], "env": {"CCACHE_BASEDIR": "mine"}}
    shop = Workshop(tmp_path, said, zig=str(tmp_path / "zig/lib"))
    shop.flags = ("-I$native/selection", "-I$zig/include")
    assert shop.carry("c").result == NinjaResult(1, {})
    cache = str(tmp_path / "cache")
    words = (tmp_path / "ccache.log").read_text().split()
    assert words[:3] == [cache, "string:toolchain", "mine"]
    selection, zig = [word for word in words if word.startswith("-I")]
    assert selection.startswith(f"-I{cache}/native-headers/")
    assert zig == f"-I{cache}/toolchains/{ZIG_LINK}/include"
    assert (Path(selection[2:]) / "ATen/selected_mobile_ops.h").is_file()
    assert (tmp_path / "cache/toolchains" / ZIG_LINK).readlink() == tmp_path / "zig/lib"
    # a copy that was damaged is made again
    header = Path(selection[2:]) / "ATen/selected_mobile_ops.h"
    text = header.read_text()
    header.write_text("")
    assert shop.carry("d").result == NinjaResult(1, {})
    assert header.read_text() == text


def test_our_own_sources_change_and_units_do_not_see_it() -> None:
    unit = Compile("a.cpp", "$tree/a.cpp", "c++", "x", ("-I$native/stubs",), None, "f", 1.0)
    own = replace(unit, source="$native/a.cpp")
    graph = with_headers(ActionGraph({"unit": unit, "own": own}))
    assert graph.compiles == {"unit": replace(unit, flags=("-I$native_headers/stubs",)), "own": own}
