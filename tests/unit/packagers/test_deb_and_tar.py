"""Tarballs and Debian packages of a delivered folder."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import package_toy as toy
import pytest
import zstandard
from zig_tool import zig

from orchestrator.binary.elf_symbols import needed_libraries, needed_versions
from orchestrator.deliver.delivered import ChangedDeliveryError, read_delivery
from orchestrator.deliver.files import EPOCH, ForeignFileError
from orchestrator.deliver.variant import DeliverInputs, deliver
from orchestrator.packagers import deb, tarball
from orchestrator.packagers.deb import NotForDebianError
from orchestrator.packagers.registry import PACKAGERS
from orchestrator.values.config.app import PackageKind
from orchestrator.values.config.toolchain import System


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> DeliverInputs:
    return toy.quick_inputs(tmp_path_factory.mktemp("quick"))


@pytest.fixture
def folder(quick: DeliverInputs, tmp_path: Path) -> Path:
    return deliver(quick, tmp_path / "dist").folder


def untar(path: Path) -> tarfile.TarFile:
    data = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    return tarfile.open(fileobj=io.BytesIO(data))


def dpkg(*arguments: str | Path) -> str:
    run = subprocess.run(["dpkg-deb", *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return run.stdout


def test_tarballs_hold_the_delivery_below_one_folder(folder: Path, tmp_path: Path) -> None:
    main, symbols = tarball.pack([read_delivery(folder)], tmp_path)
    assert main.name == "toy-libtorch-1.2.0-linux-x86_64.tar.zst"
    assert symbols.name == "toy-libtorch-1.2.0-linux-x86_64-symbols.tar.zst"
    top = "toy-libtorch-1.2.0-linux-x86_64"
    files = {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()}
    files.remove(".made-by-orchestrator")
    held: dict[Path, set[str]] = {main: set(), symbols: set()}
    for path, seen in held.items():
        with untar(path) as tar:
            members = {member.name: member for member in tar.getmembers()}
            assert list(members) == sorted(members)
            assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members.values()} == {
                (0, 0, "root", "root", EPOCH)
            }
            for name, member in members.items():
                assert name.split("/")[0] == top
                if member.isfile():
                    content = tar.extractfile(member)
                    assert content is not None
                    assert content.read() == (folder / name.removeprefix(f"{top}/")).read_bytes()
                    seen.add(name.removeprefix(f"{top}/"))
            executable = {name for name, m in members.items() if m.isfile() and m.mode == 0o755}
            assert executable == ({f"{top}/lib/libtoy_torch.so"} if path == main else set())
    documents = {name for name in files if name.startswith("share/")} | {"manifest.json"}
    assert held[symbols] == documents | {"symbols/libtoy_torch.so.debug"}
    assert held[main] == files - {"symbols/libtoy_torch.so.debug"}


@pytest.mark.parametrize("kind", ["deb", "tar"])
def test_equal_deliveries_give_equal_packages(
    kind: PackageKind, quick: DeliverInputs, tmp_path: Path
) -> None:
    one = PACKAGERS[kind].pack(
        [read_delivery(deliver(quick, tmp_path / "a").folder)], tmp_path / "a", {}
    )
    two = PACKAGERS[kind].pack(
        [read_delivery(deliver(quick, tmp_path / "b" / "c").folder)], tmp_path / "b", {}
    )
    assert [path.name for path in one] == [path.name for path in two]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


@pytest.mark.parametrize("kind", ["deb", "tar"])
def test_names_are_known_before_packing(
    kind: PackageKind, quick: DeliverInputs, tmp_path: Path
) -> None:
    done = deliver(quick, tmp_path)
    packages = PACKAGERS[kind].pack([read_delivery(done.folder)], tmp_path, {})
    assert PACKAGERS[kind].names([done.manifest], {}) == tuple(path.name for path in packages)


@pytest.mark.parametrize("kind", ["deb", "tar"])
def test_what_may_not_be_released_says_so_in_its_name(
    kind: PackageKind, quick: DeliverInputs, tmp_path: Path
) -> None:
    done = deliver(replace(quick, for_release=False), tmp_path)
    packages = PACKAGERS[kind].pack([read_delivery(done.folder)], tmp_path, {})
    assert all("NOT-FOR-RELEASE" in path.name for path in packages)


def test_a_package_that_is_there_is_not_made_again(folder: Path, tmp_path: Path) -> None:
    path, symbols = tarball.pack([read_delivery(folder)], tmp_path)
    before = path.stat().st_ino
    assert tarball.pack([read_delivery(folder)], tmp_path) == (path, symbols)
    assert path.stat().st_ino == before


def test_a_file_of_someone_else_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "toy-libtorch-1.2.0-linux-x86_64.tar.zst").write_text("mine")
    with pytest.raises(ForeignFileError):
        tarball.pack([read_delivery(folder)], tmp_path)


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ("edited", " has 8 bytes, not 303"),
        ("of the same size", " has different content"),
        ("lost", ": No such file or directory"),
    ],
)
def test_a_delivery_changed_by_hand_is_refused(
    change: str, seen: str, folder: Path, tmp_path: Path
) -> None:
    header = folder / "include/libtorch_app.h"
    if change == "edited":
        header.write_text("// mine\n")
    elif change == "of the same size":
        header.write_text(header.read_text().swapcase())
    else:
        header.unlink()
    with pytest.raises(ChangedDeliveryError) as caught:
        tarball.pack([read_delivery(folder)], tmp_path)
    assert caught.value.render() == (
        f"{folder}: error: the delivered folder was modified\n"
        "  expected: the files that its manifest lists, with their digests\n"
        f"  seen:     include/libtorch_app.h{seen}\n"
        "  do:       build the variant again: ./orchestrate build //apps/toy:linux-x86_64"
    )


def test_debian_packages_as_dpkg_reads_them(folder: Path, tmp_path: Path) -> None:
    library, development, symbols = deb.pack([read_delivery(folder)], tmp_path)
    assert [path.name for path in (library, development, symbols)] == [
        "toy-libtorch_1.2.0_amd64.deb",
        "toy-libtorch-dev_1.2.0_amd64.deb",
        "toy-libtorch-dbgsym_1.2.0_amd64.deb",
    ]
    assert dpkg("--field", library, "Package", "Version", "Architecture", "Depends") == (
        "Package: toy-libtorch\nVersion: 1.2.0\nArchitecture: amd64\nDepends: libc6 (>= 2.28)\n"
    )
    assert dpkg("--field", development, "Depends") == "toy-libtorch (= 1.2.0)\n"
    assert "control archive=" in dpkg("--info", library)
    assert contents(library) == [
        "-rw-r--r-- root/root ./usr/lib/x86_64-linux-gnu/libtoy_torch.so",
        "-rw-r--r-- root/root ./usr/share/doc/toy-libtorch/copyright",
        "-rw-r--r-- root/root ./usr/share/doc/toy-libtorch/manifest.json",
        "-rw-r--r-- root/root ./usr/share/doc/toy-libtorch/sbom.cdx.json",
    ]
    build_id = deliver_build_id(folder)
    assert contents(symbols) == [
        f"-rw-r--r-- root/root ./usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug",
        "-rw-r--r-- root/root ./usr/share/doc/toy-libtorch-dbgsym/copyright",
        "-rw-r--r-- root/root ./usr/share/doc/toy-libtorch-dbgsym/manifest.json",
        "-rw-r--r-- root/root ./usr/share/doc/toy-libtorch-dbgsym/sbom.cdx.json",
    ]
    assert dpkg("--field", symbols, "Section", "Depends", "Auto-Built-Package", "Build-Ids") == (
        "Section: debug\nDepends: toy-libtorch (= 1.2.0)\n"
        f"Auto-Built-Package: debug-symbols\nBuild-Ids: {build_id}\n"
    )
    dpkg("--control", library, tmp_path / "control")
    assert (tmp_path / "control/triggers").read_text() == "activate-noawait ldconfig\n"


def contents(package: Path) -> list[str]:
    lines = [line.split() for line in dpkg("--contents", package).splitlines()]
    return [f"{line[0]} {line[1]} {line[5]}" for line in lines if not line[0].startswith("d")]


def deliver_build_id(folder: Path) -> str:
    from orchestrator.deliver.manifest import read_manifest

    build_id = read_manifest(folder).library.build_id
    assert build_id
    return build_id


def test_a_library_of_libstdcxx_depends_on_what_its_symbols_need(
    quick: DeliverInputs, tmp_path: Path
) -> None:
    """Two stand-ins of the system's libraries, with versions as the real ones have them."""
    needed = []
    for soname, versions in (
        ("libstdc++.so.6", ("GLIBCXX_3.4.9", "GLIBCXX_3.4.30")),
        ("libc.so.6", ("GLIBC_2.17", "GLIBC_2.4")),
    ):
        stem = soname.partition(".")[0].replace("+", "x")
        script, code = tmp_path / f"{stem}.map", tmp_path / f"{stem}.c"
        names = [f"{stem}_{number}" for number in range(len(versions))]
        pairs = list(zip(versions, names, strict=True))
        script.write_text("".join(f"{version} {{ global: {n}; }};\n" for version, n in pairs))
        code.write_text("".join(f"int {name}(void) {{ return 1; }}\n" for name in names))
        library = tmp_path / soname
        zig("cc", "-target", toy.TARGET, "-shared", "-nostdlib", "-fPIC", code, "-o", library,
                 f"-Wl,-soname,{soname}", f"-Wl,--version-script={script}")  # fmt: skip
        needed.append((library, names))
    code = tmp_path / "user.c"
    calls = [name for _, names in needed for name in names]
    code.write_text(
        "".join(f"int {name}(void);\n" for name in calls)
        + f"int lta_use(void) {{ return {' + '.join(f'{name}()' for name in calls)}; }}\n"
    )
    user = tmp_path / "user.so"
    zig("cc", "-target", toy.TARGET, "-shared", "-nostdlib", "-fPIC", code, "-o", user,
             "-Wl,-soname,libtoy_torch.so", *(library for library, _ in needed))  # fmt: skip
    assert needed_libraries(user) == ("libstdc++.so.6", "libc.so.6")
    assert needed_versions(user) == {"GLIBC": "2.17", "GLIBCXX": "3.4.30"}

    toolchain = quick.toolchain.model_copy(
        update={"compiler": "command", "cxx_library": "libstdc++", "target": None,
                "version": "g++ (Debian 12.2.0-14) 12.2.0"}
    )  # fmt: skip
    done = deliver(replace(quick, shared_library=user, toolchain=toolchain), tmp_path / "dist")
    package = deb.pack([read_delivery(done.folder)], tmp_path)[0]
    assert dpkg("--field", package, "Depends") == "libc6 (>= 2.17), libstdc++6 (>= 12.1)\n"


def test_copyright_holds_every_licence(folder: Path, tmp_path: Path) -> None:
    dpkg("--extract", deb.pack([read_delivery(folder)], tmp_path)[0], tmp_path / "root")
    text = (tmp_path / "root/usr/share/doc/toy-libtorch/copyright").read_text()
    assert text == (
        "miniz 2.1.0: MIT\n\nDo as you like.\n\npytorch 1.13.1: BSD-3-Clause\n\nDo as you like.\n\n"
    )


def test_unpacked_development_package_serves_cmake(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for package in deb.pack([read_delivery(folder)], tmp_path)[:2]:
        dpkg("--extract", package, root)
    source = toy.GOLDEN / "consumers/c_shared"
    build = tmp_path / "build"
    for command in (
        ["cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={root}/usr",
         "-DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu"],
        ["cmake", "--build", build],
    ):  # fmt: skip
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
    said = subprocess.run([build / "app"], check=True, capture_output=True, text=True).stdout
    assert said == "5 toy 1\n"


def test_digests_in_the_control_archive_are_true(folder: Path, tmp_path: Path) -> None:
    package = deb.pack([read_delivery(folder)], tmp_path)[1]
    dpkg("--extract", package, tmp_path / "root")
    dpkg("--control", package, tmp_path / "control")
    lines = (tmp_path / "control/md5sums").read_text().splitlines()
    assert len(lines) == len(contents(package))
    for line in lines:
        digest, path = line.split("  ")
        data = (tmp_path / "root" / path).read_bytes()
        assert hashlib.md5(data, usedforsecurity=False).hexdigest() == digest


def test_a_release_candidate_sorts_before_its_release(quick: DeliverInputs, tmp_path: Path) -> None:
    done = deliver(replace(quick, version="1.2.0-rc1"), tmp_path)
    package = deb.pack([read_delivery(done.folder)], tmp_path)[0]
    assert package.name == "toy-libtorch_1.2.0~rc1_amd64.deb"
    assert dpkg("--field", package, "Version") == "1.2.0~rc1\n"


@pytest.mark.parametrize(
    ("system", "target", "seen"),
    [
        ("android", None, "android"),
        ("linux", "aarch64-linux-musl", "linux (aarch64-linux-musl)"),
    ],
)
def test_other_systems_get_no_debian_package(
    system: System, target: str | None, seen: str, quick: DeliverInputs, tmp_path: Path
) -> None:
    compiler = "zig" if target else "ndk"
    toolchain = quick.toolchain.model_copy(update={"target": target, "compiler": compiler})
    done = deliver(replace(quick, system=system, toolchain=toolchain), tmp_path)
    with pytest.raises(NotForDebianError) as caught:
        deb.pack([read_delivery(done.folder)], tmp_path)
    assert caught.value.seen == seen
    assert not list(tmp_path.glob("*.deb"))


def test_a_moved_delivery_can_be_packed(folder: Path, tmp_path: Path) -> None:
    moved = shutil.move(folder, tmp_path / "elsewhere")
    assert tarball.pack([read_delivery(Path(moved))], tmp_path)[0].exists()
