"""`orchestrator export bazel`: what it refuses before it writes, and what it copies."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from toy_workspace import toy_invocation

from orchestrator.build.bazel import export
from orchestrator.build.bazel.export import NotExportedError, export_bazel
from orchestrator.errors import Place
from orchestrator.execute.bazel import BazelWorkspace
from orchestrator.values.labels import VariantLabel


def test_an_extensible_library_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    label = VariantLabel("toy", "linux-x86_64")
    variant = SimpleNamespace(
        label=label,
        app=SimpleNamespace(place=Place("apps/toy/app.yaml", 1, 1)),
        objects=SimpleNamespace(plan=SimpleNamespace(spec=SimpleNamespace(extensible=True))),
    )
    monkeypatch.setattr(export, "plan_variants", lambda *_: [variant])
    with pytest.raises(NotExportedError) as caught:
        export_bazel(toy_invocation(tmp_path), [label], tmp_path / "exported")
    assert caught.value.render() == (
        "apps/toy/app.yaml:1:1: error: //apps/toy:linux-x86_64 takes add-ons, and Bazel does not"
        " build such libraries yet\n"
        "  expected: an app without `extensible: true`\n"
        "  seen:     extensible: true\n"
        "  do:       build it with ./orchestrate build"
    )
    assert not (tmp_path / "exported").exists()


def test_nothing_of_an_installation_is_copied(tmp_path: Path) -> None:
    """Python compiles what it installs, and writes down when, and a tree says how it came: keys of
    actions would be a machine's own. zig's sources for other systems are as many as all others."""
    files = {
        "zig/libc/musl/abs.c": True,
        "zig/libc/include/generic-musl/stdio.h": True,
        "zig/libc/include/x86_64-netbsd-none/stdio.h": False,
        "zig/libc/mingw/abs.c": False,
        "zig/lldb/printers.py": True,
        "zig/lldb/__pycache__/printers.cpython-311.pyc": False,
        "tree/tools/gen.py": True,
        "tree/tools/__pycache__/gen.cpython-311.pyc": False,
        "tree/.complete": False,
    }
    for name in files:
        (tmp_path / "here" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "here" / name).write_text(name)
    for folder in ("zig", "tree"):
        export._copy(tmp_path / "here" / folder, tmp_path / "there" / folder)
    there = {p.relative_to(tmp_path / "there").as_posix() for p in tmp_path.glob("there/**/*.*")}
    assert there == {name for name, wanted in files.items() if wanted}


def test_zig_is_told_where_the_stub_sysroot_is_in_the_workspace(tmp_path: Path) -> None:
    here = tmp_path / "toolchains/android-arm64-v8a-0123"
    here.mkdir(parents=True)
    (here / "libc.txt").write_text(f"include_dir={here}\ncrt_dir={here}\nmsvc_lib_dir=\n")
    export._copy(here, tmp_path / "there/toolchain_android-arm64-v8a")
    assert (tmp_path / "there/toolchain_android-arm64-v8a/libc.txt").read_text() == (
        "include_dir=/proc/self/cwd/sources/toolchain_android-arm64-v8a\n"
        "crt_dir=/proc/self/cwd/sources/toolchain_android-arm64-v8a\n"
        "msvc_lib_dir=\n"
    )


def test_a_folder_that_is_half_written_is_no_workspace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of no Bazel: new ones look for `MODULE.bazel`, old ones for `WORKSPACE`."""
    names = ("WORKSPACE", "rules/action.bzl", "MODULE.bazel", "apps/toy/BUILD.bazel", ".bazelrc")
    written = list[str]()

    def write_text(path: Path, *_: object, **__: object) -> None:
        written.append(path.relative_to(tmp_path / "exported").as_posix())

    exported = BazelWorkspace(dict.fromkeys(names, ""), frozenset(), (), ())
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", write_text)
        export._write(exported, tmp_path / "exported", {}, tmp_path)
    assert written[-2:] == ["MODULE.bazel", "WORKSPACE"]
    assert {*written} >= {*names}
