"""Packages read again: each kind tells of its libraries, and nothing else is taken for one."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import package_toy as toy
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ios_toy import ABIS, build, delivered, toolchain
from test_aar import ARCHITECTURES
from test_aar import inputs as android_inputs
from zips import before_the_begin, zipped

from orchestrator.deliver.delivered import read_delivery
from orchestrator.deliver.manifest import MANIFEST, FileFact, read_manifest
from orchestrator.deliver.variant import deliver
from orchestrator.errors import OrchestratorError
from orchestrator.packagers import aar, contents, deb, tarball, wheel, xcframework
from orchestrator.packagers.contents import (
    DamagedPackageError,
    NoLibraryError,
    NotAPackageError,
    Packaged,
    read_packages,
    take_library,
    take_model,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("quick")
    return deliver(toy.quick_inputs(made / "parts"), made / "dist").folder


@pytest.fixture(scope="module")
def packages(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    into = tmp_path_factory.mktemp("packages")
    made = (
        *tarball.pack([read_delivery(folder)], into),
        *deb.pack([read_delivery(folder)], into),
        *wheel.pack([read_delivery(folder)], into),
    )
    names = ("tar", "tar symbols", "deb", "deb dev", "deb symbols", "wheel")
    return dict(zip(names, made, strict=True))


def read_one(path: Path) -> Packaged:
    (one,) = read_packages(path)
    return one


def refusal(path: Path) -> OrchestratorError:
    with pytest.raises(OrchestratorError) as caught:
        read_packages(path)
    return caught.value


def test_a_wheel(folder: Path, packages: Mapping[str, Path], tmp_path: Path) -> None:
    """Its manifest is without the headers, which a wheel has not."""
    one, manifest = read_one(packages["wheel"]), read_manifest(folder)
    assert one.inside == "toy_libtorch/libtoy_torch.so"
    told = (one.manifest.app, one.manifest.selection, one.manifest.runtime)
    assert told == (manifest.app, manifest.selection, manifest.runtime)
    take_library(one, tmp_path / "taken.so")
    assert (tmp_path / "taken.so").read_bytes() == (folder / "lib/libtoy_torch.so").read_bytes()


def test_a_folder_and_its_packages_tell_the_same(
    folder: Path, packages: Mapping[str, Path], tmp_path: Path
) -> None:
    manifest = read_manifest(folder)
    for path, inside in (
        (folder, "lib/libtoy_torch.so"),
        (packages["tar"], "toy-libtorch-1.2.0-linux-x86_64/lib/libtoy_torch.so"),
        (packages["deb"], "usr/lib/x86_64-linux-gnu/libtoy_torch.so"),
    ):
        one = read_one(path)
        assert one == Packaged(path, manifest, inside)
        take_library(one, tmp_path / "taken.so")
        assert (tmp_path / "taken.so").read_bytes() == (folder / "lib/libtoy_torch.so").read_bytes()
    # all of an app's ABIs
    assert read_packages(folder.parent) == (read_one(folder),)


def test_a_delivered_model_is_taken_from_each_kind_of_package(tmp_path: Path) -> None:
    """By its digest: packages put it into folders of their own."""
    model = tmp_path / "toy.ptl"
    model.write_bytes(b"weights" * 1000)
    android = replace(android_inputs(tmp_path / "arm", "android-arm64-v8a"), app="toy")
    made = []
    for inputs, pack in (
        (toy.quick_inputs(tmp_path / "parts"), (tarball, deb)),
        (android, (aar,)),
    ):
        path = f"share/{inputs.app}/models/toy.ptl"
        fact = inputs.models[0].model_copy(update={"name": "toy", "delivered": path})
        inputs = replace(inputs, models=(fact,), model_files={"toy": model})
        folder = deliver(inputs, tmp_path / "dist").folder
        made += [
            folder,
            *(one.pack([read_delivery(folder)], tmp_path / "packages", {})[0] for one in pack),
        ]
    for number, path in enumerate(made):
        one = read_one(path)
        (held,) = one.manifest.models
        into = tmp_path / f"taken-{number}.ptl"
        assert take_model(one, held, into), path
        assert into.read_bytes() == model.read_bytes()
        # one that the manifest does not list, and another file of its name
        into.unlink()
        assert not take_model(one, held.model_copy(update={"delivered": None}), into)
        files = {str(held.delivered): FileFact(bytes=7, sha256=64 * "0")}
        other = one.manifest.model_copy(update={"files": {**one.manifest.files, **files}})
        assert not take_model(replace(one, manifest=other), held, into)
        assert not into.exists()


def test_an_aar_tells_of_all_its_abis(tmp_path: Path) -> None:
    variants = [android_inputs(tmp_path / abi, abi) for abi in ARCHITECTURES]
    folders = [deliver(variant, tmp_path / "dist").folder for variant in variants]
    main, sources, symbols, _ = aar.pack([*map(read_delivery, folders)], tmp_path / "packages", {})
    found = read_packages(main)
    assert [one.manifest.abi for one in found] == sorted(ARCHITECTURES)
    assert [one.manifest for one in found] == [read_manifest(folder) for folder in sorted(folders)]
    assert found[0].inside == "jni/arm64-v8a/libtoy_torch.so"
    for other in (sources, symbols):
        assert isinstance(refusal(other), NotAPackageError)


def test_an_xcframework_tells_of_all_its_abis(tmp_path: Path) -> None:
    """The library of the simulators is a universal one: each of its parts counts."""
    folders = []
    for abi in ABIS:
        tools = toolchain(abi, tmp_path / "tools")
        folders.append(delivered(tmp_path, tools, build(tmp_path / abi, tools)))
    for path in xcframework.pack([*map(read_delivery, folders)], tmp_path / "packages"):
        found = read_packages(path)
        assert {one.manifest.abi for one in found} == {*ABIS}
        assert {one.inside.split("/")[-2] for one in found} == {
            "ios-arm64",
            "ios-arm64_x86_64-simulator",
        }


def test_what_goes_with_a_library_is_none(packages: Mapping[str, Path]) -> None:
    error = refusal(packages["deb symbols"])
    assert isinstance(error, NoLibraryError)
    assert error.render() == (
        f"{packages['deb symbols']}: error: this package holds no library\n"
        "  expected: libtoy_torch.so of toy-libtorch\n"
        "  seen:     the manifest of toy for linux-x86_64 alone\n"
        "  do:       name the library's own package: not that of its symbols, headers or sources"
    )
    for name in ("tar symbols", "deb dev"):
        assert isinstance(refusal(packages[name]), NoLibraryError)


def test_what_is_none_of_ours(tmp_path: Path) -> None:
    def zipped(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("AndroidManifest.xml", "<manifest/>")
            archive.writestr("assets/manifest.json", '{"name": "web"}')

    def tarred(path: Path) -> None:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            tar.addfile(tarfile.TarInfo("empty"))
        path.write_bytes(zstandard.compress(out.getvalue()))

    cases: Mapping[str, tuple[Callable[[Path], object], str]] = {
        "text": (lambda path: path.write_text("hello there"), "a file of 68 65 6c 6c..."),
        "empty": (lambda path: path.write_bytes(b""), "an empty file"),
        "folder": (lambda path: path.mkdir(), "a folder without manifest.json"),
        "zip": (zipped, "an archive without a manifest.json of ours"),
        "tar": (tarred, "an archive without a manifest.json of ours"),
        "ar": (lambda path: path.write_bytes(b"!<arch>\n"), "an ar archive without data.tar.zst"),
        "none": (lambda path: None, "No such file or directory"),
    }
    for name, (make, seen) in cases.items():
        make(tmp_path / name)
        error = refusal(tmp_path / name)
        assert isinstance(error, NotAPackageError), name
        assert error.seen == seen


def changed(folder: Path, into: Path, change: Callable[[dict[str, object]], None]) -> Path:
    """A delivered folder with another manifest."""
    into.mkdir()
    (into / "lib").mkdir()
    (into / "lib/libtoy_torch.so").write_bytes((folder / "lib/libtoy_torch.so").read_bytes())
    value = json.loads((folder / MANIFEST).read_text())
    change(value)
    (into / MANIFEST).write_text(json.dumps(value))
    return into


@pytest.mark.parametrize(
    ("key", "value", "seen"),
    [
        ("operators", ["aten::add\n\x1b[2J"], "selection.operators.0: malformed"),
        ("operators", [f"aten::a{n}" for n in range(20_001)], "selection.operators: "),
        ("kernel_dtypes", {"add_kernel": ["Flot"]}, "selection.kernel_dtypes.add_kernel.0"),
        ("kernel_dtypes", {"a b": ["Float"]}, "selection.kernel_dtypes.a b.[key]"),
        ("root_operators", "aten::add", "selection.root_operators: "),
        ("backends", ["CPU", ""], "selection.backends.1: "),
        ("surprise", 1, "selection.surprise: Extra inputs are not permitted"),
    ],
)
def test_a_manifest_is_checked(
    key: str, value: object, seen: str, folder: Path, tmp_path: Path
) -> None:
    def change(manifest: dict[str, object]) -> None:
        selection = manifest["selection"]
        assert isinstance(selection, dict)
        selection[key] = value

    error = refusal(changed(folder, tmp_path / "x", change))
    assert isinstance(error, DamagedPackageError)
    assert (error.seen or "").startswith(seen)
    assert "\x1b" not in error.render()


def test_a_manifest_from_before_is_read(folder: Path, tmp_path: Path) -> None:
    def change(manifest: dict[str, object]) -> None:
        for part, keys in (
            ("selection", ("root_operators", "resolved_operators", "backends")),
            ("runtime", ("bytecode", "archive")),
        ):
            held = manifest[part]
            assert isinstance(held, dict)
            for key in keys:
                del held[key]

    manifest = read_one(changed(folder, tmp_path / "x", change)).manifest
    assert manifest.selection.root_operators is None
    assert manifest.runtime.bytecode is None


def test_a_manifest_of_another_library(folder: Path, tmp_path: Path) -> None:
    path = changed(folder, tmp_path / "x", lambda manifest: None)
    library = path / "lib/libtoy_torch.so"
    library.write_bytes(library.read_bytes()[:-1] + b"\1")
    error = refusal(path)
    assert isinstance(error, DamagedPackageError)
    assert str(error.place) == f"{path}!lib/libtoy_torch.so"
    assert error.seen == "another one"


@pytest.mark.parametrize("name", ["tar", "deb"])
@pytest.mark.parametrize("left", [0.02, 0.5, 0.9, 0.999])
def test_truncated_packages(
    name: str, left: float, packages: Mapping[str, Path], tmp_path: Path
) -> None:
    data = packages[name].read_bytes()
    path = tmp_path / "cut"
    path.write_bytes(data[: int(len(data) * left)])
    assert isinstance(refusal(path), DamagedPackageError | NotAPackageError)


@given(data=st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_damage_is_told(data: st.DataObject, packages: Mapping[str, Path], tmp_path: Path) -> None:
    """Whatever is in a file: it is read as it was, or refused by an error of ours."""
    name = data.draw(st.sampled_from(("tar", "deb")))
    whole = packages[name].read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[at : at + 4] = data.draw(st.binary(min_size=1, max_size=8))
    path = tmp_path / "damaged"
    path.write_bytes(damaged)
    try:
        found = read_packages(path)
    except (NotAPackageError, DamagedPackageError, NoLibraryError) as error:
        error.render()
    else:
        assert replace(found[0], path=packages[name]) == read_one(packages[name])


@pytest.mark.parametrize("name", ["tar", "tar symbols"])
def test_a_frame_tells_of_damage(name: str, packages: Mapping[str, Path], tmp_path: Path) -> None:
    """By the checksum at its end, whoever unpacks it."""
    whole = packages[name].read_bytes()
    (tmp_path / "damaged").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    error = refusal(tmp_path / "damaged")
    assert isinstance(error, DamagedPackageError)
    assert error.seen is not None
    assert "Restored data doesn't match checksum" in error.seen


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_UNPACKED", 2**20)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo("x/lib/libx.so")
        entry.size = 2**22
        tar.addfile(entry, io.BytesIO(bytes(2**22)))
    (tmp_path / "bomb").write_bytes(zstandard.compress(out.getvalue()))
    error = refusal(tmp_path / "bomb")
    assert isinstance(error, DamagedPackageError)
    assert error.expected == (
        "at most 100,000 files of 1 MiB in all, and of 100 times the package's size"
    )


def test_a_small_package_of_much_is_refused(tmp_path: Path) -> None:
    """Gigabytes of zeros are a few hundred bytes."""
    packer = zstandard.ZstdCompressor()
    entry = tarfile.TarInfo("x/lib/libx.so")
    entry.size = 2**27
    with (tmp_path / "bomb").open("wb") as file, packer.stream_writer(file) as stream:
        stream.write(entry.tobuf())
        for _ in range(2**7):
            stream.write(bytes(2**20))
        stream.write(bytes(1024))
    error = refusal(tmp_path / "bomb")
    assert (error.expected or "").endswith("100 times the package's size")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_file_is_packed_as_ours_are(method: int, tmp_path: Path) -> None:
    """zipfile unpacks a piece of other methods at once: 3 KB were 4 GB."""
    with zipfile.ZipFile(tmp_path / "x.aar", "w", method) as archive:
        archive.writestr(MANIFEST, bytes(2**20))
    error = refusal(tmp_path / "x.aar")
    assert (type(error), error.seen) == (DamagedPackageError, f"a file packed by method {method}")


def test_a_file_before_the_archive(tmp_path: Path) -> None:
    """Found by fuzzing: the system refuses to seek there."""
    path = tmp_path / "x.aar"
    path.write_bytes(before_the_begin(zipped({MANIFEST: b"{}"})))
    error = refusal(path)
    assert (type(error), error.seen) == (DamagedPackageError, "-1,000")


def test_a_table_of_contents_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_TABLE", 10_000)
    with zipfile.ZipFile(tmp_path / "x.aar", "w") as archive:
        for number in range(1000):
            archive.writestr(str(number), "")
    assert refusal(tmp_path / "x.aar").seen == "a table of contents of more than 10,000 bytes"


@pytest.mark.parametrize("one", ["[],", '{"":0},', "0,"])
def test_a_manifest_of_too_many_values(one: str, tmp_path: Path) -> None:
    """What pydantic says of a refused one took 3 KB for each of them."""
    (tmp_path / MANIFEST).write_text(f'{{"format": 1, "x": [{one * 150_001}0]}}')
    error = refusal(tmp_path)
    assert error.expected == "at most 50,000 objects and 150,000 values"


def test_a_package_is_a_plain_file() -> None:
    error = refusal(Path("/dev/zero"))
    assert (type(error), error.seen) == (NotAPackageError, "Not a plain file")
