"""The real PyTorch source, from an empty cache, through the machine's own apt client (20 MB)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from cmake import CMAKE_BIN_DIR

from orchestrator.build.workshop.fetch import FetchedRuntime, fetch_runtime, read_marker
from orchestrator.context import Context
from orchestrator.load.workspace import load_config
from orchestrator.pytorch.configure import configured_headers
from orchestrator.pytorch.dialects import load_version
from orchestrator.pytorch.units import runtime_units, upstream_units
from orchestrator.source.tree import TreeRules, tree_digest, tree_files

ROOT = Path(__file__).parents[2]
PINS = load_config(ROOT)[0].pins
PIN, NEWER = PINS["pytorch_1_13"], PINS["pytorch_2_6"]
VERSION = load_version(PIN.pytorch)
DEBIAN = PIN.model_copy(update={"sources": tuple(s for s in PIN.sources if s.debian)})


def context(cache: Path, **env: str) -> Context:
    environment = {**os.environ, **env}
    return Context(ROOT, cache, ROOT / ".orchestrator", ROOT / "dist", environment)


def command(cache: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`orchestrator fetch` on this workspace, with a cache of the test's own."""
    env = {**os.environ, "ORCHESTRATOR_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    env.pop("PYTORCH_SOURCE", None)
    argv = [sys.executable, "-m", "orchestrator", "fetch", *options]
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> FetchedRuntime:
    """The pinned trees, fetched by the command into an empty cache."""
    cache = tmp_path_factory.mktemp("fetched") / "cache"
    done = command(cache)
    assert done.returncode == 0, done.stderr
    assert "apt: downloading pytorch_1.13.1+dfsg.orig.tar.xz\n" in done.stderr
    # now that it is there, this only says where
    return fetch_runtime(PIN, context(cache), lambda text: pytest.fail(text))


@pytest.mark.ci_only
def test_the_trees_are_the_pinned_ones(fetched: FetchedRuntime) -> None:
    assert fetched.digest == tree_digest(fetched.tree, VERSION.tree.rules) == PIN.tree
    fmt = PIN.third_party["fmt"]
    rules = TreeRules((f"{fmt.include}/**", "LICENSE*"))
    assert tree_digest(fetched.third_party["fmt"].parent, rules) == fmt.tree
    assert (fetched.third_party["fmt"] / "fmt/format.h").is_file()


def test_nothing_else_is_left_in_the_cache(fetched: FetchedRuntime) -> None:
    runtime = fetched.tree.parent
    assert sorted(entry.name for entry in runtime.parent.iterdir()) == [
        ".made-by-orchestrator",
        "runtime",
        "staging",
    ]
    assert list((runtime.parent / "staging").iterdir()) == []
    marker = read_marker(fetched.tree)
    assert marker
    assert marker.files == len(tree_files(fetched.tree, VERSION.tree.rules))
    files = [f for f in fetched.tree.rglob("*") if f.is_file()]
    assert len(files) == marker.files + 1, "the files that count, and the marker"


def test_the_command_when_all_is_there(fetched: FetchedRuntime) -> None:
    done = command(fetched.tree.parents[1])
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("pytorch 1.13.1"))
    assert lines[first : first + 3] == [
        f"pytorch 1.13.1  {fetched.tree}",
        f"                tree {PIN.tree}",
        "                3,460 files, 31,420,677 bytes,"
        " from debian pytorch_1.13.1+dfsg.orig.tar.xz",
    ]


def test_the_command_for_machines(fetched: FetchedRuntime) -> None:
    done = command(fetched.tree.parents[1], "--json", "--verify")
    here = context(fetched.tree.parents[1])
    newer = fetch_runtime(NEWER, here, lambda text: pytest.fail(text))
    hashed = [
        line
        for version, trees in (("2.6.0", newer), ("1.13.1", fetched))
        for line in (
            f"PyTorch {version}: hashing {trees.tree}",
            f"fmt: hashing {trees.third_party['fmt'].parent}",
            *(f"{name}: hashing {folder}" for name, folder in trees.libraries.items()),
        )
    ]
    # once each, also what both have
    assert done.stderr.splitlines() == [*dict.fromkeys(hashed)]
    said = json.loads(done.stdout)
    assert said["pytorch"] == "2.6.0"
    assert said["trees"][5] == {
        "name": "pytorch 1.13.1",
        "folder": str(fetched.tree),
        "digest": PIN.tree,
        "files": 3460,
        "bytes": 31420677,
        "way": "debian pytorch_1.13.1+dfsg.orig.tar.xz",
    }
    names = [tree["name"] for tree in said["trees"]]
    assert names == [
        *("pytorch 2.6.0", "fmt", "fxdiv", "pthreadpool", "xnnpack"),
        *("pytorch 1.13.1", "fmt"),
    ]


@pytest.mark.ci_only
def test_a_release_that_is_not_the_machines_own(fetched: FetchedRuntime, tmp_path: Path) -> None:
    """A machine of another release of the distribution finds the version on the same mirror."""
    config = ["apt-config", "shell", "MAIN", "Dir::Etc::sourcelist/f", "PARTS"]
    done = subprocess.run([*config, "Dir::Etc::sourceparts/d"], capture_output=True, text=True)
    main, parts = (Path(line.split("'")[1]) for line in done.stdout.splitlines())
    (tmp_path / "parts").mkdir()
    for file in [main, *(parts.iterdir() if parts.is_dir() else [])]:
        if file.is_file() and file.suffix in (".list", ".sources"):
            text = file.read_text().replace("bookworm", "trixie")
            (tmp_path / "parts" / file.name).write_text(text)
    (tmp_path / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{tmp_path}/none";\nDir::Etc::sourceparts "{tmp_path}/parts";\n'
    )
    said: list[str] = []
    env = {"APT_CONFIG": str(tmp_path / "apt.conf")}
    again = fetch_runtime(DEBIAN, context(tmp_path / "cache", **env), said.append)
    assert again.digest == fetched.digest
    assert "apt: downloading pytorch_1.13.1+dfsg.orig.tar.xz" in said


@pytest.mark.ci_only
def test_a_checkout_gives_the_same_tree(fetched: FetchedRuntime, tmp_path: Path) -> None:
    """A source folder with more in it, as a checkout after a build in place has."""
    checkout = tmp_path / "checkout"
    subprocess.run(["cp", "-r", fetched.tree, checkout], check=True)
    for litter in ("aten/src/ATen/Config.h", "third_party/fmt/fmt.h", "torchgen/x.pyc", ".git/x"):
        (checkout / litter).parent.mkdir(parents=True, exist_ok=True)
        (checkout / litter).touch()
    path = {"path": str(checkout)}
    pin = PIN.model_validate(PIN.model_dump() | {"sources": [path], "third_party": {}})
    again = fetch_runtime(pin, context(tmp_path / "cache"), lambda text: None)
    assert again.digest == fetched.digest
    assert not (again.tree / "aten/src/ATen/Config.h").exists()


def test_every_unit_is_there(fetched: FetchedRuntime) -> None:
    units = runtime_units(fetched.tree, VERSION)
    assert Counter(unit.kind for unit in units) == {
        "native": 182,
        "aten-core": 86,
        "c10": 67,
        "quantized": 90,
        "torch": 59,
        "native-cpu-kernel": 55,
        "generated": 25,
        "serialize": 5,
        "third-party": 1,
    }
    assert all((fetched.tree / unit.path).is_file() for unit in units if not unit.generated)
    paths = [unit.path for unit in units]
    assert "aten/src/ATen/native/cpu/AdaptiveAvgPoolKernel.cpp" in paths
    assert "generated/Operators_4.cpp" in paths


def test_upstream_compiles_553_units(fetched: FetchedRuntime) -> None:
    """The counts of a real run of upstream's build, family by family."""
    units = upstream_units(fetched.tree, VERSION)
    assert Counter(unit.family for unit in units) == {
        "native": 123,
        "c10": 67,
        "native in folders": 65,
        "quantized": 56,
        "kernels": 54,
        "ATen other": 50,
        "ATen core": 34,
        "jit other": 29,
        "csrc other": 23,
        "generated registrations and operators": 18,
        "others": 18,
        "jit mobile": 16,
    }
    assert len(units) == 553
    assert Counter(unit.flag for unit in units) == {"-O2": 499, "-O3": 54}


def test_cmake_configures_the_same_headers(fetched: FetchedRuntime, tmp_path: Path) -> None:
    values = VERSION.configure.values
    script = [f'set({name} "{value}")' for name, value in values.items()]
    for header, source in VERSION.configure.headers.items():
        script.append(f'configure_file("{fetched.tree / source}" "{tmp_path / header}")')
    (tmp_path / "script.cmake").write_text("\n".join(script))
    cmake = Path(CMAKE_BIN_DIR) / "cmake"
    subprocess.run([cmake, "-P", tmp_path / "script.cmake"], check=True)
    for header, text in configured_headers(fetched.tree, VERSION).items():
        assert (tmp_path / header).read_text() == text
