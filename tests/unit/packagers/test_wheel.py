"""Wheels of delivered folders: what is in them, that pip can take it, and the code itself."""

from __future__ import annotations

import ast
import base64
import csv
import email
import hashlib
import io
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import package_toy as toy
import pytest
from packaging.licenses import canonicalize_license_expression
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from orchestrator.deliver.delivered import read_delivery
from orchestrator.deliver.files import EPOCH
from orchestrator.deliver.manifest import Manifest, read_manifest
from orchestrator.deliver.variant import DeliverInputs, deliver
from orchestrator.packagers import wheel
from orchestrator.packagers.registry import PACKAGERS
from orchestrator.packagers.wheel import NotForPythonError
from orchestrator.values.config.toolchain import System

INFO = "toy_libtorch-1.2.0.dist-info"
MODULES = ("__init__", "_app", "_errors", "_library", "_model", "_types", "_values")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> DeliverInputs:
    return toy.quick_inputs(tmp_path_factory.mktemp("quick"))


def packed(inputs: DeliverInputs, folder: Path) -> Path:
    (path,) = wheel.pack([read_delivery(deliver(inputs, folder / "dist").folder)], folder)
    return path


def with_model(inputs: DeliverInputs) -> DeliverInputs:
    """The same, with the model delivered."""
    (model,) = inputs.models
    return replace(
        inputs,
        models=(model.model_copy(update={"delivered": "share/toy/models/toy.ptl"}),),
        model_files={"toy": b"a model"},
    )


def test_what_is_in_it(quick: DeliverInputs, tmp_path: Path) -> None:
    path = packed(with_model(quick), tmp_path)
    assert path.name == "toy_libtorch-1.2.0-py3-none-manylinux_2_5_x86_64.whl"
    folder = tmp_path / "dist/toy/linux-x86_64"
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        assert [entry.filename for entry in entries] == [
            *(f"toy_libtorch/{name}.py" for name in MODULES),
            "toy_libtorch/libtoy_torch.so",
            "toy_libtorch/manifest.json",
            "toy_libtorch/models/toy.ptl",
            "toy_libtorch/py.typed",
            f"{INFO}/METADATA",
            f"{INFO}/RECORD",
            f"{INFO}/WHEEL",
            f"{INFO}/licenses/miniz/LICENSE",
            f"{INFO}/licenses/pytorch/LICENSE",
            f"{INFO}/sboms/sbom.cdx.json",
        ]
        executable = [e.filename for e in entries if e.external_attr >> 16 & 0o111]
        assert executable == ["toy_libtorch/libtoy_torch.so"]
        library = archive.read("toy_libtorch/libtoy_torch.so")
        assert library == (folder / "lib/libtoy_torch.so").read_bytes()
        assert archive.read("toy_libtorch/models/toy.ptl") == b"a model"
        manifest = Manifest.parse(archive.read("toy_libtorch/manifest.json").decode())
        assert sorted(manifest.files) == [
            "lib/libtoy_torch.so",
            *(f"share/doc/toy_libtorch/licences/{part}/LICENSE" for part in ("miniz", "pytorch")),
            "share/doc/toy_libtorch/sbom.cdx.json",
            "share/toy/models/toy.ptl",
        ]
        whole = read_manifest(folder)
        assert manifest == whole.model_copy(update={"files": manifest.files})
        bill = archive.read(f"{INFO}/sboms/sbom.cdx.json")
        assert bill == (folder / "share/doc/toy_libtorch/sbom.cdx.json").read_bytes()


def test_the_record_lists_every_file(quick: DeliverInputs, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed(quick, tmp_path)) as archive:
        listed = list(csv.reader(io.StringIO(archive.read(f"{INFO}/RECORD").decode())))
        expected = []
        for name in sorted(archive.namelist()):
            content = archive.read(name)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            own = name == f"{INFO}/RECORD"
            expected.append(
                [name, "" if own else f"sha256={digest.decode()}", "" if own else str(len(content))]
            )
    assert sorted(listed) == expected


def test_the_metadata_are_what_pip_reads(quick: DeliverInputs, tmp_path: Path) -> None:
    path = packed(replace(quick, version="1.2.0-rc1"), tmp_path)
    name, version, _, tags = parse_wheel_filename(path.name)
    info = "toy_libtorch-1.2.0rc1.dist-info"
    with zipfile.ZipFile(path) as archive:
        metadata = Metadata.from_email(archive.read(f"{info}/METADATA"), validate=True)
        declared = email.message_from_bytes(archive.read(f"{info}/WHEEL"))
        held = set(archive.namelist())
    assert (metadata.name, metadata.version) == ("toy-libtorch", Version("1.2.0rc1"))
    assert (name, version) == ("toy-libtorch", metadata.version)
    assert metadata.requires_dist == [Requirement("numpy>=1.23")]
    assert metadata.license_expression == canonicalize_license_expression("BSD-3-Clause AND MIT")
    assert metadata.license_files == ["miniz/LICENSE", "pytorch/LICENSE"]
    assert {f"{info}/licenses/{file}" for file in metadata.license_files} <= held
    assert declared["Wheel-Version"] == "1.0"
    assert declared["Root-Is-Purelib"] == "false"
    assert [declared["Tag"]] == [str(tag) for tag in tags]
    # the sample has no name that it does not define
    (sample,) = re.findall("```python\n(.*?)```", metadata.description or "", re.DOTALL)
    tree = ast.parse(sample)
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id not in ("list",)}
    imported = {a.asname or a.name for n in tree.body if isinstance(n, ast.Import) for a in n.names}
    assert bound <= {"model", "result", "print", *imported}


def test_equal_deliveries_give_equal_wheels(quick: DeliverInputs, tmp_path: Path) -> None:
    one, two = (packed(quick, tmp_path / name) for name in ("a", "b/c"))
    assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(one) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(2023, 1, 1, 0, 0, 0)}
    assert one.stat().st_mtime == EPOCH


def test_a_wheel_that_is_there_is_not_made_again(quick: DeliverInputs, tmp_path: Path) -> None:
    before = packed(quick, tmp_path).stat().st_ino
    assert packed(quick, tmp_path).stat().st_ino == before


def test_the_name_is_known_before_packing(quick: DeliverInputs, tmp_path: Path) -> None:
    done = deliver(quick, tmp_path)
    packages = PACKAGERS["wheel"].pack([read_delivery(done.folder)], tmp_path, {})
    assert PACKAGERS["wheel"].names([done.manifest], {}) == tuple(path.name for path in packages)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.2.0", "1.2.0+not.for.release"), ("1.2.0+lab", "1.2.0+lab.not.for.release")],
)
def test_what_may_not_be_released_can_be_on_no_index(
    version: str, expected: str, quick: DeliverInputs, tmp_path: Path
) -> None:
    path = packed(replace(quick, version=version, for_release=False), tmp_path)
    assert path.name.split("-")[1] == expected
    with zipfile.ZipFile(path) as archive:
        text = archive.read(f"toy_libtorch-{expected}.dist-info/METADATA").decode()
    assert "Classifier: Private :: Do Not Upload\n" in text
    assert "**NOT FOR RELEASE**" in text


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"package_name": "toy++"}, "toy++ is not a valid name of a Python package"),
        ({"version": "1.2.0~1"}, "1.2.0~1 is not a valid version of a Python package"),
    ],
)
def test_what_no_wheel_can_have(
    change: dict[str, str], what: str, quick: DeliverInputs, tmp_path: Path
) -> None:
    done = deliver(replace(quick, **change), tmp_path)  # type: ignore[arg-type]
    with pytest.raises(NotForPythonError) as caught:
        wheel.pack([read_delivery(done.folder)], tmp_path)
    assert caught.value.what == what


def test_another_system_has_no_wheels(quick: DeliverInputs, tmp_path: Path) -> None:
    system: System = "android"
    done = deliver(replace(quick, system=system, abi="android-x86_64"), tmp_path)
    with pytest.raises(NotForPythonError) as caught:
        wheel.names([done.manifest])
    assert caught.value.render() == (
        "error: android-x86_64 is not for a system that has wheels\n"
        "  expected: Linux\n"
        "  seen:     android\n"
        "  do:       remove `wheel` from the app's packages, or the ABI from its targets"
    )


@pytest.fixture(scope="module")
def code(quick: DeliverInputs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's package, unpacked."""
    folder = tmp_path_factory.mktemp("code")
    with zipfile.ZipFile(packed(with_model(quick), folder)) as archive:
        archive.extractall(folder)
    return folder


def test_its_code_is_checked_as_ours(code: Path) -> None:
    """mypy reads it with numpy: tests/integration/test_wheel_installed.py."""
    rules = "--isolated --no-cache --line-length=100 --target-version=py310"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ruff", "check", *rules.split()),
            *("--select=E,F,W,I,UP,B,C4,RUF", "toy_libtorch"),
        ],
        cwd=code,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_types_are_read_from_schemas(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This module alone needs no library and no numpy."""
    text = (code / "toy_libtorch/_types.py").read_text()
    types = type(sys)("toy_types")
    monkeypatch.setitem(sys.modules, "toy_types", types)
    exec(compile(text, "_types.py", "exec"), types.__dict__)
    read = types.parameters
    one, two, three = read("f(Tensor a, Dict[str, List[Tensor]] b, Optional[int] c=...) -> Tensor")
    assert (one.name, one.type.name, one.optional) == ("a", "Tensor", False)
    assert (two.name, two.type) == ("b", types.parsed("Dict[str, List[Tensor]]"))
    assert two.type.inner[1].inner[0].name == "Tensor"
    assert (three.name, three.type.name, three.optional) == ("c", "Optional", True)
    assert read("f() -> None") == ()
    assert read("f(...)") is None
    assert read("f(?, ?)") is None
