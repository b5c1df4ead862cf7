"""`doctor --apk`: what is found in Android packages, and what is refused."""

from __future__ import annotations

import io
import json
import struct
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from golden_files import Golden
from test_output_schemas import faults
from zips import before_the_begin

from orchestrator import cli
from orchestrator.binary.elf_pages import (
    MisplacedSegmentError,
    SmallAlignmentError,
    UnalignedRelroError,
    fault,
)
from orchestrator.build.shipped.app_package import app_package
from orchestrator.errors import OrchestratorError
from orchestrator.load.declared import Workspace
from orchestrator.load.workspace import load_workspace
from orchestrator.packagers import contents
from orchestrator.packagers.app_package import NotAnAppPackageError
from orchestrator.packagers.contents import DamagedPackageError

ROOT = Path(__file__).parents[4]
CLASSIFIER = (ROOT / "apps/camera/models/classifier.ptl").read_bytes()
TRANSLATOR = (ROOT / "apps/translator/models/sentences.ptl").read_bytes()
PAGE = 0x4000
LOAD, RELRO = 1, 0x6474E552
# (type, offset, address, bytes, alignment) of program headers
Header = tuple[int, int, int, int, int]
ALIGNED: tuple[Header, ...] = (
    (LOAD, 0, 0, 0x900, PAGE),
    (LOAD, 0x900, PAGE + 0x900, 0x700, PAGE),
    (RELRO, 0x900, PAGE + 0x900, 0x700, 1),
)
# as 2.1.0's libraries are
SMALL: tuple[Header, ...] = ((LOAD, 0, 0, 0x900, 0x1000), (LOAD, 0x900, 0x1900, 0x700, 0x1000))


def elf(headers: tuple[Header, ...] = ALIGNED, holding: bytes = b"", *, sections: int = 0) -> bytes:
    """A shared object of 64 bits with these program headers; holding: also its sections."""
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    counts = (64, 56, len(headers), 64, sections, 0)
    behind = 64 + 56 * len(headers) if sections else 0
    head = struct.pack("<HHIQQQIHHHHHH", 3, 183, 1, 0, 64, behind, 0, *counts)
    body = b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, offset, address, address, size, size, align)
        for kind, offset, address, size, align in headers
    )
    return ident + head + body + holding


def apk(path: Path, files: Mapping[str, bytes], *, stored: bool = False) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            kind = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            archive.writestr(name, data, kind)
    return path


def torchscript() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("m/code/__torch__.py", "")
        archive.writestr("m/version", "3\n")
    return out.getvalue()


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    return load_workspace(ROOT, {})


def test_an_app_with_pytorch_android(workspace: Workspace, tmp_path: Path, golden: Golden) -> None:
    path = apk(
        tmp_path / "app.apk",
        {
            "AndroidManifest.xml": b"",
            "lib/arm64-v8a/libpytorch_jni_lite.so": elf(SMALL),
            "lib/armeabi-v7a/libpytorch_jni_lite.so": elf(SMALL),
            "lib/arm64-v8a/libfbjni.so": elf(SMALL),
            "lib/arm64-v8a/libdetect.so": elf(holding=b"\0N3c105ErrorE\0"),
            "lib/arm64-v8a/libold.so": elf(SMALL),
            "lib/arm64-v8a/libnew.so": elf(),
            "assets/classifier.ptl": CLASSIFIER,
            "assets/sentences.ptl": TRANSLATOR,
            "assets/scripted.pt": torchscript(),
            "assets/other.pte": b"\x10\0\0\0ET12" + bytes(100),
        },
    )
    report = app_package(path, workspace)
    golden(ROOT / "tests/golden/doctor/app.txt", report.text())
    assert faults("doctor_package", report.to_json()) == []


def test_a_library_of_ours_is_well(workspace: Workspace, tmp_path: Path) -> None:
    path = apk(
        tmp_path / "camera.aar",
        {
            "jni/arm64-v8a/libcamera_torch.so": elf(holding=b"\0lta_module_load\0"),
            "prefab/modules/camera_torch/libs/android.arm64-v8a/libcamera_torch.so": elf(SMALL),
            "assets/camera_libtorch/models/classifier.ptl": CLASSIFIER,
        },
    )
    report = app_package(path, workspace)
    assert report.well
    value = json.loads(report.to_json())
    assert [(one["path"], one["kind"]) for one in value["libraries"]] == [
        ("jni/arm64-v8a/libcamera_torch.so", "ours")
    ]
    assert value["models"][0]["runs_in"] == ["1.13.1", "2.6.0"]


def test_a_package_without_pytorch(workspace: Workspace, tmp_path: Path) -> None:
    none = app_package(apk(tmp_path / "a.apk", {"AndroidManifest.xml": b""}), workspace)
    assert none.text() == f"{tmp_path}/a.apk: no PyTorch\n"
    other = app_package(apk(tmp_path / "b.apk", {"lib/x86_64/libx.so": elf(SMALL)}), workspace)
    assert other.text() == (
        f"{tmp_path}/b.apk: none of its 1 libraries is PyTorch\n"
        "other libraries that are not aligned to 16 KB: libx.so\n"
        "do: get newer releases of the other libraries, aligned to 16 KB\n"
    )
    assert not other.well


def test_executorch_is_told_apart(workspace: Workspace, tmp_path: Path) -> None:
    files = {
        "lib/arm64-v8a/libexecutorch.so": elf(),
        "lib/arm64-v8a/libmine.so": elf(holding=b"N10executorch7runtime"),
    }
    report = app_package(apk(tmp_path / "a.apk", files), workspace)
    assert {one.kind for one in report.libraries} == {"executorch"}
    assert report.well
    (old,) = app_package(
        apk(tmp_path / "b.apk", {"lib/x86_64/libexecutorch.so": elf(SMALL)}), workspace
    )._advice()
    assert old == "get newer releases of the other libraries, aligned to 16 KB"


def placed(path: Path, where: int) -> Path:
    """An APK with a library that is not compressed, whose bytes begin there."""
    entry = zipfile.ZipInfo("lib/arm64-v8a/libx.so")
    entry.extra = struct.pack("<HH", 0xD935, where - 30 - len(entry.filename) - 4)
    entry.extra += bytes(where - 30 - len(entry.filename) - 4)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(entry, elf())
    return path


def test_a_library_that_is_mapped_out_of_the_apk(workspace: Workspace, tmp_path: Path) -> None:
    assert app_package(placed(tmp_path / "good.apk", PAGE), workspace).well
    (found,) = app_package(placed(tmp_path / "bad.apk", 0x1000), workspace).libraries
    assert (found.faults, found.all_faults) == ((), ("lies at 0x1000 in the APK",))
    report = app_package(tmp_path / "bad.apk", workspace)
    assert not report.well
    assert report.text().splitlines()[1:] == [
        "do: package with the Android Gradle plugin 8.5.1 or newer, or run zipalign -P 16 before"
        " signing: not at multiples of 16 KB in the APK are libx.so"
    ]
    # Gradle places what it takes from an AAR
    aar = apk(tmp_path / "a.aar", {"jni/arm64-v8a/libx.so": elf()}, stored=True)
    assert app_package(aar, workspace).well


@pytest.mark.parametrize(
    ("headers", "error", "seen"),
    [
        (
            ((LOAD, 0x900, PAGE + 0x100, 0x700, PAGE),),
            MisplacedSegmentError,
            "address 0x4100, offset 0x900",
        ),
        (
            ((LOAD, 0, 0, 0x6000, PAGE), (RELRO, 0x1000, 0x1000, 0x1000, 1)),
            UnalignedRelroError,
            "0x2000",
        ),
        (((LOAD, 0, 0, 0x6000, PAGE), (RELRO, 0, 0, PAGE, 1)), None, ""),
        (
            ((LOAD, 0x1900, 0x1900, 0x700, PAGE), (LOAD, 0, 0, 0x900, PAGE)),
            MisplacedSegmentError,
            "an end at 0x900, and a beginning at 0x1900",
        ),
        (ALIGNED, None, ""),
    ],
)
def test_what_a_loader_asks_for(
    headers: tuple[Header, ...], error: type[OrchestratorError] | None, seen: str
) -> None:
    found = fault(ELFFile(io.BytesIO(elf(headers))), PAGE)
    assert type(found) is (error or type(None))
    assert (found.seen if found else "") == seen


def test_headers_cost_time_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 dynamic segments and 1,000 sections are 2,000 things, not a million."""
    monkeypatch.setattr(ELFFile, "iter_sections", lambda *_: pytest.fail("reads sections"))
    count = 1000
    made = elf(((2, 0x40, 0x40, 64, 8),) * count, bytes(64 * count), sections=count)
    assert isinstance(fault(ELFFile(io.BytesIO(made)), PAGE), SmallAlignmentError)


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(60), b"text" * 99]
)
def test_what_is_no_library_is_told(workspace: Workspace, data: bytes, tmp_path: Path) -> None:
    path = apk(tmp_path / "a.apk", {"lib/arm64-v8a/libx.so": data})
    assert app_package(path, workspace).libraries[0].faults == ("is no ELF file",)


def refused(path: Path, workspace: Workspace) -> str:
    with pytest.raises((NotAnAppPackageError, DamagedPackageError)) as caught:
        app_package(path, workspace)
    error = caught.value
    return f"{error.what}: {error.seen}".replace(str(path), "FILE")


def test_what_is_no_package(workspace: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "a.apk"
    assert refused(path, workspace) == "this is not an Android package: No such file or directory"
    path.write_bytes(b"")
    assert refused(path, workspace) == "this is not an Android package: an empty file"
    path.write_bytes(b"<html>")
    assert refused(path, workspace) == "this is not an Android package: a file of 3c 68 74 6d..."
    assert refused(tmp_path, workspace) == "this is not an Android package: Is a directory"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    assert refused(path, workspace) == (
        "this package is truncated or damaged: File is not a zip file"
    )
    inner = {"splits/base-master.apk": b"PK", "toc.pb": b""}
    assert refused(apk(path, inner), workspace) == (
        "this is a set of Android packages: splits/base-master.apk in it"
    )
    plugin = {"AndroidManifest.xml": b"", "assets/plugin.apk": b""}
    assert app_package(apk(path, plugin), workspace).well
    for member, seen in (
        ("Payload/Vad.app/Vad", "an app of iOS"),
        ("torch/version.py", "a zip without AndroidManifest.xml"),
    ):
        assert refused(apk(path, {member: b""}), workspace) == (
            f"this is not an Android package: {seen}"
        )


def test_a_package_that_does_harm(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.apk"
    name = "lib/arm64-v8a/libx.so"
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")
        archive.writestr(name, elf())
        archive.writestr(name, elf())
    assert refused(path, workspace).endswith(f"{name} twice")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr(name, elf())
    assert refused(path, workspace).endswith("method 14")
    # found by fuzzing
    unnamed = apk(path, {"AndroidManifest.xml": b"", "_x": b""}).read_bytes()
    path.write_bytes(unnamed.replace(b"_x", b"\0x"))
    assert app_package(path, workspace).well
    for stored in (True, False):
        path.write_bytes(before_the_begin(apk(path, {name: elf()}, stored=stored).read_bytes()))
        assert refused(path, workspace).endswith("damaged: -1,000")
    # packs a thousandfold
    apk(path, {name: bytes(2**27)})
    assert refused(path, workspace).endswith("more")
    # says less than it has
    whole = apk(path, {name: b"x" * 100}, stored=True).read_bytes()
    path.write_bytes(whole.replace(struct.pack("<II", 100, 100), struct.pack("<II", 90, 90)))
    assert refused(path, workspace).startswith("this package is truncated or damaged: Bad CRC-32")
    path.write_bytes(whole.replace(b"x" * 100, b"y" * 100))
    assert refused(path, workspace).startswith("this package is truncated or damaged: Bad CRC-32")
    apk(path, {f"{number}.txt": b"" for number in range(3)})
    monkeypatch.setattr("orchestrator.packagers.app_package.MAX_MEMBERS", 2)
    assert refused(path, workspace).endswith("more")
    assert contents.MAX_MEMBERS > 2


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = apk(tmp_path / "a.aar", {"jni/arm64-v8a/libpytorch_jni.so": elf(SMALL)})
    env = {"ORCHESTRATOR_CACHE": str(tmp_path / "cache"), "PATH": ""}
    assert cli.main(("doctor", "--aar", str(path)), env=env, cwd=ROOT) == 1
    out = capsys.readouterr().out
    assert out == (
        "libpytorch_jni.so: PyTorch Mobile\n"
        "  arm64-v8a: a segment of the library is aligned to less than a page: 0x1000, not"
        " at least 0x4000\n"
        "do: Google Play refuses these libraries: build one that is aligned, for the app's models"
        " alone (docs/guide/from-pytorch-mobile.md)\n"
        "do: java_api: org.pytorch in its app.yaml gives an AAR that has the same classes\n"
    )
    good = apk(tmp_path / "good.apk", {"lib/arm64-v8a/liba.so": elf()})
    assert cli.main(("doctor", "--apk", str(good), "--json"), env=env, cwd=ROOT) == 0
    assert faults("doctor_package", capsys.readouterr().out) == []
    assert cli.main(("doctor", "--apk", str(tmp_path / "none"), "--json"), env=env, cwd=ROOT) == 1
    assert faults("failure", capsys.readouterr().out) == []
