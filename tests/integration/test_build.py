"""The main job on real PyTorch: every app of this repository, built, delivered and proven."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from guide import rough, shown
from native_runner import compile_consumer
from real import (
    CONSUMERS,
    ROOT,
    alone_in_repository,
    consume,
    models_of,
    orchestrator,
    workspace_copy,
)

from orchestrator.binary.elf import exported_symbols
from orchestrator.load.workspace import load_config

pytestmark = pytest.mark.real

APPS = sorted(path.parent.name for path in ROOT.glob("apps/*/app.yaml"))
NINJA = str(Path(sys.executable).with_name("ninja"))


@pytest.mark.parametrize("app", APPS)
def test_every_app_is_delivered_and_small(built: Path, app: str) -> None:
    manifest = json.loads((built / app / "linux-x86_64" / "manifest.json").read_text())
    library = built / app / "linux-x86_64" / manifest["library"]["file"]
    config = load_config(ROOT)[0]
    declared = yaml.safe_load((ROOT / "apps" / app / "app.yaml").read_text())
    runtime = declared.get("runtime", config.default_runtime)
    assert manifest["runtime"]["pytorch"] == config.pins[runtime].pytorch
    assert len(manifest["selection"]["operators"]) > 20
    assert library.stat().st_size < 4_000_000
    ours = [name.startswith("lta_") for name in exported_symbols(library)]
    # others are for add-ons
    assert all(ours) != declared.get("extensible", False)


# Prints what a library says of its selection.
_ASK = """
import ctypes, sys
digest = ctypes.CDLL(sys.argv[1]).lta_selection_digest
digest.restype = ctypes.c_char_p
print(digest().decode())
"""


@pytest.mark.parametrize("app", APPS)
def test_every_library_says_the_selection_of_its_manifest(built: Path, app: str) -> None:
    digests = set()
    for path in sorted((built / app).glob("*/manifest.json")):
        manifest = json.loads(path.read_text())
        selection = json.dumps(manifest["selection"], sort_keys=True, separators=(",", ":"))
        assert manifest["selection_digest"] == hashlib.sha256(selection.encode()).hexdigest()
        digests.add(manifest["selection_digest"])
    # an app's libraries for all its ABIs have one selection
    (digest,) = digests
    library = built / app / "linux-x86_64" / "lib" / f"lib{app}_torch.so"
    argv = [sys.executable, "-c", _ASK, str(library)]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == f"{digest}\n"


def test_a_manifest_of_another_selection_is_refused_by_what_the_library_says(
    built: Path, tmp_path: Path
) -> None:
    """Files and digests are in order: the selection alone is scanner's."""
    forged = tmp_path / "camera"
    shutil.copytree(built / "camera/linux-x86_64", forged)
    own, other = (
        json.loads((built / app / "linux-x86_64/manifest.json").read_text())
        for app in ("camera", "scanner")
    )
    assert own["selection_digest"] != other["selection_digest"]
    given = {name: other[name] for name in ("selection", "selection_digest")}
    (forged / "manifest.json").write_text(json.dumps(own | given))
    (model,) = models_of("camera")
    ran = orchestrator("fits", str(model), "--run", "--in", str(forged))
    assert ran.code == 1
    assert "the library is of another selection than its manifest says" in ran.out + ran.err
    assert other["selection_digest"] in ran.out + ran.err
    assert own["selection_digest"] in ran.out + ran.err


def test_the_readmes_table(built: Path) -> None:
    ran = orchestrator("build", "//...", "--quiet")
    table = ran.out.partition("\n\n")[0] + "\n"
    assert rough(table) == rough(shown("README.md", "app         ABI"))


def test_nothing_changed_is_told_again_and_ninja_has_no_work(built: Path) -> None:
    words = ("build", "//...", "--json", "--quiet")
    with alone_in_repository():
        # what a replay says of itself, the ordinary way finds out
        (ROOT / ".orchestrator/last-build.json").unlink(missing_ok=True)
        first, again = (orchestrator(*words) for _ in range(2))
        ninja = subprocess.run(
            [NINJA, "-f", str(ROOT / ".orchestrator/build.ninja")],
            capture_output=True,
            text=True,
            check=True,
        )
    assert (first.code, again.code) == (0, 0)
    ordinary = json.loads(first.out)
    assert (ordinary["replayed"], ordinary["actions_run"]) == (False, 0)
    assert json.loads(again.out)["replayed"]
    assert ninja.stdout == "ninja: no work to do.\n"


def test_verify_alone(built: Path) -> None:
    ran = orchestrator("verify", "//apps/reader:linux-x86_64", "--quiet")
    assert ran.code == 0, ran.err
    assert ran.out == (
        "//apps/reader:linux-x86_64 detector: ok, 3 runs, also at CPU level baseline\n"
        "//apps/reader:linux-x86_64 recogniser: ok, 2 runs, also at CPU level baseline\n"
    )


def test_c_consumer_of_the_shared_library(built: Path, tmp_path: Path) -> None:
    output = consume(tmp_path, "c_shared", "camera", built / "camera/linux-x86_64")
    assert "[1, 10]" in output or "1 x 10" in output or "1, 10" in output


def test_the_whole_c_api_holds_what_its_header_says(built: Path, tmp_path: Path) -> None:
    assert consume(tmp_path, "c_api_check", "camera", built / "camera/linux-x86_64").endswith(
        "ok\n"
    )


def test_the_memory_of_freed_tensors_stays_in_the_process(built: Path, tmp_path: Path) -> None:
    delivered = built / "camera/linux-x86_64"
    source = CONSUMERS / "heap.c"
    program = compile_consumer(source, tmp_path / "heap", "camera", delivered)
    argv = [str(program), str(ROOT / "apps/camera/models/classifier.ptl")]
    told = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    before, after = map(int, told.split())
    assert before > 100  # glibc alone gives the pages of 1.5 MB back in every round
    assert after < 5


def test_cpp_consumer_of_the_static_libraries(built: Path, tmp_path: Path) -> None:
    delivered = built / "camera/linux-x86_64"
    toolchain = delivered / "lib/cmake/camera_libtorch/toolchain.cmake"
    define = f"-DCMAKE_TOOLCHAIN_FILE={toolchain}"
    assert consume(tmp_path, "cpp_static", "camera", delivered, define)


def test_every_built_in_symbol_has_its_names(built: Path, tmp_path: Path) -> None:
    """The packed names of native/runtime_library/packed_symbols.h against PyTorch's own list."""
    delivered = built / "camera/linux-x86_64"
    toolchain = delivered / "lib/cmake/camera_libtorch/toolchain.cmake"
    options = (f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DPROGRAM=symbols.cpp")
    symbols = consume(tmp_path, "cpp_static", "camera", delivered, *options)
    assert re.fullmatch(r"2\d\d\d symbols\n", symbols), symbols


def test_a_tensor_of_another_kind_meets_an_error_and_no_kernel(built: Path, tmp_path: Path) -> None:
    """Where the dispatcher would find no kernel, a direct call raises the dispatcher's error."""
    delivered = built / "camera/linux-x86_64"
    toolchain = delivered / "lib/cmake/camera_libtorch/toolchain.cmake"
    options = (f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DPROGRAM=keys.cpp")
    none = "with arguments from the '{}' backend: this library has no such kernel"
    assert consume(tmp_path, "cpp_static", "camera", delivered, *options).splitlines() == [
        "narrow of an ordinary tensor: [1, 2]",
        f"narrow of a negative tensor: Could not run 'aten::narrow' {none.format('Negative')}",
        "zero_ of an ordinary tensor: [2, 2]",
        f"zero_ of a quantised tensor: Could not run 'aten::zero_' {none.format('QuantizedCPU')}",
        f"zero_ of a tensor without memory: Could not run 'aten::zero_' {none.format('Meta')}",
        # slice and copy_ have a kernel for every backend, which looks for itself
        "slice of a quantised tensor: _ZN2at15get_qtensorimplERKNS_10TensorBaseE was left out of"
        " this library: its models never called it",
        "copy_ of a sparse tensor: !tensor_base_->defined() || tensor_base_->layout() == kStrided",
        f"zero_ of no tensor: Could not run 'aten::zero_' {none.format('Undefined')}",
        "an operator that is not there: Could not find schema for aten::mul.Tensor",
    ]


def test_a_second_workspace_reuses_every_object(built: Path, tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    ran = orchestrator("build", "//apps/camera:linux-x86_64", "--json", cwd=root)
    assert ran.code == 0, ran.err
    (variant,) = json.loads(ran.out)["variants"]
    assert variant["units_compiled"] == 0
    first = (built / "camera/linux-x86_64/manifest.json").read_bytes()
    assert (root / "dist/camera/linux-x86_64/manifest.json").read_bytes() == first


def test_a_library_without_the_operator_never_leaves_quietly(built: Path, tmp_path: Path) -> None:
    """A trace that lost an operator of the model: the build fails and names model and operator."""
    root = workspace_copy(tmp_path, "camera")
    lock = root / "apps/camera/traces/classifier.yaml"
    value = yaml.safe_load(lock.read_text())
    value["calls"].pop("aten::_softmax")
    value["selected_operators"]["operators"].pop("aten::_softmax")
    lock.write_text(yaml.safe_dump(value, sort_keys=False))
    ran = orchestrator("build", "//apps/camera:linux-x86_64", "--quiet", cwd=root)
    assert ran.code == 1
    assert "error: verification of //apps/camera:linux-x86_64 failed" in ran.err
    assert "classifier" in ran.err
    assert "aten::_softmax" in ran.err


def test_a_library_without_the_dtype_never_leaves_quietly(built: Path, tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    lock = root / "apps/camera/traces/classifier.yaml"
    value = yaml.safe_load(lock.read_text())
    # of all tags: a dtype that the model computes in is selected for other layouts too
    for tag in value["kernel_calls"]:
        value["kernel_calls"][tag] = {"Double": 1}
        value["selected_operators"]["kernel_metadata"][tag] = ["Double"]
    lock.write_text(yaml.safe_dump(value, sort_keys=False))
    ran = orchestrator("build", "//apps/camera:linux-x86_64", "--quiet", cwd=root)
    assert ran.code == 1
    assert re.search("kernel `[^`]+` is not in this library for Float", ran.err)


def test_a_failing_unit_keeps_everything_else(built: Path, tmp_path: Path) -> None:
    """A compiler that fails in one unit: told with the unit; the next build goes on from there."""
    root = workspace_copy(tmp_path, "camera")
    toolchain = root / "toolchains/linux-x86_64.yaml"
    toolchain.write_text(toolchain.read_text() + "\ncompile_flags: [-Dc10=1]\n")
    ran = orchestrator("build", "//apps/camera:linux-x86_64", "--quiet", "--jobs", "1", cwd=root)
    assert ran.code == 1
    assert "failed to build" in ran.err
    assert "failures.log" in ran.err


def test_clean_removes_only_what_builds_made(built: Path, tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    assert orchestrator("build", "//apps/camera:linux-x86_64", "--quiet", cwd=root).code == 0
    (root / "dist-of-mine").mkdir()
    assert orchestrator("clean", "--quiet", cwd=root).code == 0
    assert sorted(p.name for p in root.iterdir()) == [
        "WORKSPACE",
        "apps",
        "dist-of-mine",
        "toolchains",
    ]


def test_two_builds_at_once_in_one_workspace(built: Path, tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    argv = [
        sys.executable,
        "-P",
        "-m",
        "orchestrator",
        "build",
        "//apps/camera:linux-x86_64",
        "--quiet",
    ]
    both = [
        subprocess.Popen(argv, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    assert [process.wait() for process in both] == [0, 0]
    for process in both:
        process.communicate()
