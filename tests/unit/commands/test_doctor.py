"""`doctor`: what it finds on machines that have this and lack that."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator import cli
from orchestrator.commands import doctor
from orchestrator.commands.findings import Finding, Machine, _available, findings
from orchestrator.compilers.capabilities import LinkerBrokenError
from orchestrator.load.workspace import Toolchain, load_workspace
from orchestrator.values.config.workspace import Source

ZEROS = "0" * 64
WORKSPACE = f"""\
version: 1
runtime:
  pytorch: 1.13.1
  tree: "{ZEROS}"
  sources:
  - path: $PYTORCH_SOURCE
  - debian: {{package: pytorch, archive: pytorch.tar.xz, sha256: "{ZEROS}"}}
  - git: {{remote: r, tag: t}}
"""
COMPILERS = {
    "linux-x86_64": ("linux", "elf", "{zig: {target: x86_64-linux-gnu.2.28}}", "native"),
    "linux-gcc": ("linux", "elf", "{command: {cxx: g++, cc: gcc}}", "native"),
    "linux-arm64": (
        "linux",
        "elf",
        "{zig: {target: aarch64-linux-musl}}",
        "{emulator: [qemu-aarch64-static]}",
    ),
    "linux-musl": (
        "linux",
        "elf",
        "{zig: {target: aarch64-linux-musl}}",
        "{emulator: [qemu-aarch64-static], debian: [qemu-user-static]}",
    ),
    "android-arm64": ("android", "elf", "{ndk: {api: 24}}", "none"),
    "android-shim": ("android", "elf", "{ndk: {api: 24, shim: true}}", "none"),
    "ios-arm64": ("ios", "macho", "{xcode: {sdk: iphoneos, minimum: '15.0'}}", "none"),
}
FULL = Machine(
    python="3.12.1",
    install="install it again",
    packages={"cmake": "4.4.4", "ninja": "1.13.2", "ziglang": "0.17.0"},
    which=lambda name: f"/bin/{name}",
    env={"ANDROID_NDK_HOME": "/ndk"},
    cache=Path("/cache"),
    free=10**11,
    writable=True,
    is_folder=lambda path: path in ("/ndk", "/pytorch"),
    fetched=lambda name, tree: False,
    able=lambda toolchain: "toy 1.0: shared",
)


def _found(
    root: Path, targets: Collection[str], machine: Machine, extra: str = ""
) -> Mapping[str, Finding]:
    (root / "WORKSPACE").write_text(WORKSPACE + extra)
    (root / "toolchains").mkdir()
    for abi, (system, form, compiler, run) in COMPILERS.items():
        (root / "toolchains" / f"{abi}.yaml").write_text(
            f"abi: {abi}\nsystem: {system}\nprocessor: arm64\nformat: {form}\n"
            f"compiler: {compiler}\nrun: {run}\n"
        )
    (root / "apps" / "camera").mkdir(parents=True)
    (root / "apps" / "camera" / "small.ptl").touch()
    (root / "apps" / "camera" / "app.yaml").write_text(
        f"models: [file: small.ptl]\ntargets: [{', '.join(targets)}]\n"
    )
    return {each.name: each for each in findings(load_workspace(root, machine.env), machine)}


def _missing(found: Mapping[str, Finding]) -> dict[str, tuple[str, ...]]:
    return {name: each.needed_by for name, each in found.items() if each.state == "missing"}


def test_a_machine_that_has_everything(tmp_path: Path) -> None:
    found = _found(tmp_path, COMPILERS, FULL)
    assert _missing(found) == {}
    assert found["ziglang"].needed_by == ("linux-arm64", "linux-musl", "linux-x86_64")
    assert found["Android NDK"] == Finding(
        "Android NDK",
        "present",
        "/ndk",
        ("android-arm64", "android-shim"),
        "install it and set ANDROID_NDK_HOME; without it Android libraries are built against a stub"
        " sysroot and cannot be shipped",
    )
    assert found["qemu-aarch64-static"].needed_by == ("linux-arm64", "linux-musl")
    assert found["source of pytorch"].found == "not fetched yet; available from apt-get"
    assert found["disk space"].found == "100.0 GB free"


def test_a_named_ndk_that_is_not_there(tmp_path: Path) -> None:
    machine = replace(FULL, env={"ANDROID_NDK_ROOT": "/elsewhere"})
    assert _missing(_found(tmp_path, COMPILERS, machine))["Android NDK"] == (
        "android-arm64",
        "android-shim",
    )


def test_a_bare_machine(tmp_path: Path) -> None:
    bare = replace(
        FULL,
        packages=dict.fromkeys(FULL.packages),
        which=lambda name: None,
        env={},
        free=10**9,
        writable=False,
        is_folder=lambda path: False,
        able=lambda toolchain: None,
    )
    every = ("every build",)
    assert _missing(_found(tmp_path, COMPILERS, bare)) == {
        "ninja": every,
        "ziglang": ("android-shim", "ios-arm64", "linux-arm64", "linux-musl", "linux-x86_64"),
        "Android NDK": ("android-arm64",),
        "g++": ("linux-gcc",),
        "gcc": ("linux-gcc",),
        "qemu-aarch64-static": ("linux-arm64", "linux-musl"),
        "source of pytorch": every,
        "cache folder": every,
        "disk space": every,
    }


def test_only_declared_targets_count(tmp_path: Path) -> None:
    lean = replace(FULL, which=lambda name: "/bin/git" if name == "git" else None, env={})
    found = _found(tmp_path, ["linux-x86_64"], lean)
    assert _missing(found) == {}
    assert found["Android NDK"].state == "absent"
    assert "qemu-aarch64-static" not in found
    assert found["source of pytorch"].found == "not fetched yet; available from git"


def test_a_local_source_goes_first(tmp_path: Path) -> None:
    machine = replace(FULL, env={"PYTORCH_SOURCE": "/pytorch"})
    found = _found(tmp_path, ["linux-x86_64"], machine)
    assert found["source of pytorch"].found == "not fetched yet; available from path /pytorch"


def test_an_archive_is_available_by_its_address() -> None:
    source = Source.model_validate(
        {"archive": {"url": "https://example.org/pytorch.tar.gz", "sha256": ZEROS}}
    )
    assert _available(source, Path("/"), FULL) == "https://example.org/pytorch.tar.gz"


def test_each_tree_of_several_runtimes_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fmt = f'{{fmt: {{tree: "{ZEROS}", include: include, sources: [git: {{remote: r, tag: t}}]}}}}'
    pin = f"sources: [git: {{remote: r, tag: t}}], third_party: {fmt}"
    runtimes = f"""\
version: 1
runtimes:
  first: {{pytorch: 1.13.1, tree: "{ZEROS}", {pin}}}
  second: {{pytorch: 1.13.1, tree: "{ZEROS}", {pin}}}
  third: {{pytorch: 1.13.1, tree: "{"1" * 64}", {pin}}}
defaults: {{runtime: first}}
"""
    monkeypatch.setattr(sys.modules[__name__], "WORKSPACE", runtimes)
    found = _found(tmp_path, ["linux-x86_64"], FULL)
    assert [name for name in found if name.startswith("source of ")] == [
        "source of pytorch (first)",
        "source of fmt",
        "source of pytorch (third)",
    ]


def test_a_fetched_source_needs_no_way(tmp_path: Path) -> None:
    machine = replace(
        FULL, which=lambda name: None, fetched=lambda name, tree: (name, tree) == ("1.13.1", ZEROS)
    )
    found = _found(tmp_path, ["linux-x86_64"], machine)
    assert found["source of pytorch"].found == "fetched"
    assert _missing(found) == {}


def test_a_declared_launcher_is_needed(tmp_path: Path) -> None:
    machine = replace(FULL, which=lambda name: None if name == "ccache" else "/bin/x")
    found = _found(tmp_path, ["linux-x86_64"], machine, "launcher: {command: [ccache]}\n")
    assert _missing(found) == {"ccache": ("every build",)}


def test_an_emulator_that_a_build_can_get(tmp_path: Path) -> None:
    machine = replace(FULL, which=lambda name: "/bin/apt-get" if name == "apt-get" else None)
    found = _found(tmp_path, ["linux-musl"], machine)
    assert found["qemu-aarch64-static"].state == "present"
    assert found["qemu-aarch64-static"].found == "not on PATH; a build gets it through apt-get"


def test_what_toolchains_can_do_is_told(tmp_path: Path) -> None:
    found = _found(tmp_path, ["linux-x86_64"], FULL)
    assert found["toolchain linux-x86_64"].found == "toy 1.0: shared"


def test_a_broken_toolchain_is_missing(tmp_path: Path) -> None:
    def broken(toolchain: Toolchain) -> str:
        raise LinkerBrokenError("it compiles but cannot link", hint="look at its linker")

    found = _found(tmp_path, ["linux-x86_64"], replace(FULL, able=broken))
    assert found["toolchain linux-x86_64"] == Finding(
        "toolchain linux-x86_64",
        "missing",
        "",
        ("linux-x86_64",),
        "it compiles but cannot link: look at its linker",
    )


def _doctor(root: Path, *words: str, **env: str) -> int:
    return cli.main(["doctor", *words], env=env, cwd=root)


def test_the_verb_answers_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "WORKSPACE").write_text(WORKSPACE)
    env = {"PYTORCH_SOURCE": "source", "ORCHESTRATOR_CACHE": "cache/of/mine"}
    code = _doctor(tmp_path, "--json", **env)
    listed: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    assert code == (1 if any(each["state"] == "missing" for each in listed) else 0)
    assert [each for each in listed if each["name"] in ("source of pytorch", "cache folder")] == [
        {
            "name": "source of pytorch",
            "state": "present",
            "found": f"not fetched yet; available from path {tmp_path}/source",
            "needed_by": ["every build"],
            "get": "install git or an apt client, or add a `path` to its sources in WORKSPACE",
        },
        {
            "name": "cache folder",
            "state": "present",
            "found": f"{tmp_path}/cache/of/mine",
            "needed_by": ["every build"],
            "get": f"{tmp_path}/cache/of/mine is not writable: correct its mode, or set"
            " ORCHESTRATOR_CACHE",
        },
    ]


def test_the_verb_tells_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "WORKSPACE").write_text(WORKSPACE)
    (tmp_path / "file").touch()
    assert _doctor(tmp_path, ORCHESTRATOR_CACHE="file") == 1
    rows = {line[9:27].strip(): line[:7] for line in capsys.readouterr().out.splitlines()}
    assert rows["packages"] == "ok     "
    assert rows["Xcode"] == "-      "
    assert rows["source of pytorch"] == rows["cache folder"] == "missing"


def test_what_is_present_takes_few_rows(capsys: pytest.CaptureFixture[str]) -> None:
    every = ("every build",)
    found = (
        Finding("python", "present", "3.11.7", every, ""),
        Finding("ninja", "absent", "", (), "pip install it"),
        Finding("ziglang", "present", "0.17.0", ("ios-arm64",), ""),
        Finding("toolchain a", "present", "zig 1: shared", ("a",), ""),
        Finding("toolchain b", "present", "zig 1: shared, lto", ("b",), ""),
        Finding("javac", "present", "/usr/bin/javac", (), ""),
        Finding("git", "present", "/usr/bin/git", (), ""),
    )
    doctor._print_table(found, whole=False)
    assert capsys.readouterr().out == (
        "    what        found, or how to get it        needed by\n"
        "ok  packages    python 3.11.7, ziglang 0.17.0  every build\n"
        "-   ninja       pip install it\n"
        "ok  toolchains  zig 1: a, b                    a, b\n"
        "ok  programs    /usr/bin/javac, /usr/bin/git\n"
    )
