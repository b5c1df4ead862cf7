"""Known vulnerabilities of libraries that were delivered: answered from what is in a folder or a
package, as their apps' plans are."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import package_toy as toy
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from golden_files import Golden
from shipped_index import shipped
from zips import zipped

from orchestrator import cli
from orchestrator.build.explaining.advisories import Judge
from orchestrator.deliver.delivered import read_delivery
from orchestrator.deliver.manifest import KernelsFact, Manifest, SourceFact
from orchestrator.deliver.variant import DeliverInputs, deliver
from orchestrator.deliver.vex import text_of_package
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.advisories import OWN, read_advisories
from orchestrator.packagers import deb, tarball, wheel
from orchestrator.packagers.contents import bills_in
from orchestrator.report.advisories import text
from orchestrator.values.advisories import LibraryVerdicts

CASES = toy.ROOT / "tests/failing/advisories"
LSTM = "CVE-2025-3001"
HERE = Place("here")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> DeliverInputs:
    """A delivery whose library says its selection."""
    folder = tmp_path_factory.mktemp("quick")
    inputs = toy.judged_inputs(folder)
    said = folder / "said.h"
    digest = inputs.selection.digest
    said.write_text(f'__attribute__((used, retain)) static const char said[] = "{digest}";\n')
    library = toy.plain_library(
        folder / "said.so", toy.PLACEHOLDER, compile_flags=(*toy.FLAGS, "-include", str(said))
    )
    return replace(inputs, shared_library=library)


@pytest.fixture(scope="module")
def folder(quick: DeliverInputs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deliver(quick, tmp_path_factory.mktemp("dist")).folder


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(read_advisories(OWN))


@pytest.fixture(scope="module")
def manifest(folder: Path) -> Manifest:
    return read_delivery(folder).manifest


def with_operators(manifest: Manifest, *names: str, **changes: Any) -> Manifest:
    selection = manifest.selection.model_copy(update={"operators": names, "root_operators": names})
    return manifest.model_copy(update={"selection": selection, "selection_digest": None, **changes})


def words(library: LibraryVerdicts) -> dict[str, str]:
    return {one.advisory.id: one.word for one in library.verdicts}


def test_each_kind_of_package_is_judged_alike(folder: Path, judge: Judge, tmp_path: Path) -> None:
    delivery = read_delivery(folder)
    whole = judge.package(folder)
    (library,) = whole.libraries
    assert library.package == str(folder)
    # the toy has none of our headers: what loading reaches in 1.13.1 is open
    reachable = {name for name, word in words(library).items() if word != "not present"}
    assert reachable == {"CVE-2024-31580", "CVE-2024-31583"}
    assert len(whole.bills) == 1
    for packager in (tarball, deb, wheel):
        path, *_ = packager.pack([delivery], tmp_path, {})
        found = judge.package(path)
        assert found.libraries == (replace(library, package=str(path)),), path
        assert found.bills == whole.bills, path
        assert text(found.libraries).startswith(f"{path}: toy (linux-x86_64), PyTorch 1.13.1\n")


def test_a_mend_is_there_only_where_the_library_has_it(manifest: Manifest, judge: Judge) -> None:
    """Libraries that were built before a mend are in the hands of apps."""
    reaching = with_operators(manifest, "aten::lstm_cell")
    assert words(judge.library(reaching, HERE))[LSTM] == "reachable"
    (verdict,) = (v for v in judge.library(reaching, HERE).verdicts if v.advisory.id == LSTM)
    assert verdict.lines[0] == "operator aten::lstm_cell"
    (fact, *others) = manifest.licences
    pytorch = fact.model_copy(update={"component": "PyTorch", "mended": (LSTM,)})
    mended = reaching.model_copy(update={"licences": (pytorch, *others)})
    assert words(judge.library(mended, HERE))[LSTM] == "mended"


def test_what_the_sources_of_an_app_call_is_linked(manifest: Manifest, judge: Judge) -> None:
    """Their operators are all registered: whatever they refer to, a model may reach."""
    node = next(n for n in shipped().names if n.startswith("_ZN2at6native9lstm_cellE"))
    calls = (node.partition("@")[0], "_Znwm")
    sources = {"sources": SourceFact(sha256="12" * 32), "source_calls": calls}
    own = with_operators(manifest, "aten::relu", **sources)
    library = judge.library(Manifest.parse(own.text()), HERE)
    assert words(library)[LSTM] == "reachable"
    (verdict,) = (one for one in library.verdicts if one.advisory.id == LSTM)
    assert verdict.lines == ("the app's own sources -> at::native::lstm_cell",)
    without = with_operators(manifest, "aten::relu")
    assert words(judge.library(without, HERE))[LSTM] == "not present"


def test_an_archive_has_whole_units(manifest: Manifest, judge: Judge) -> None:
    archive = manifest.library.model_copy(update={"soname": None})
    static = with_operators(manifest, "aten::lstm.input", library=archive)
    assert words(judge.library(static, HERE))[LSTM] == "not reachable"


def test_a_statement_says_the_worst_of_its_libraries(manifest: Manifest, judge: Judge) -> None:
    libraries = [
        judge.library(with_operators(manifest, name), HERE)
        for name in ("aten::relu", "aten::lstm_cell", "aten::relu")
    ]
    serial = "urn:uuid:5f1f6f0c-54d0-4f3b-9b3e-3f0a6c1f7d52"
    made = text_of_package("toy-libtorch", "1.2.0", [serial], libraries)
    assert JsonStrictValidator(SchemaVersion.V1_5).validate_str(made) is None
    seen = json.loads(made)
    (one,) = (v for v in seen["vulnerabilities"] if v["id"] == LSTM)
    assert one["analysis"]["state"] == "exploitable"
    assert [each["ref"] for each in one["affects"]] == [
        "PyTorch@1.13.1",
        "urn:cdx:5f1f6f0c-54d0-4f3b-9b3e-3f0a6c1f7d52/1#PyTorch@1.13.1",
    ]
    assert seen["metadata"]["component"]["purl"] == "pkg:generic/toy-libtorch@1.2.0"
    assert made == text_of_package("toy-libtorch", "1.2.0", [serial], libraries)


def test_the_command(
    folder: Path, judge: Judge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What lies in a folder of packages besides does not hide the answers."""
    path, symbols = tarball.pack([read_delivery(folder)], tmp_path, {})
    env = {"ORCHESTRATOR_CACHE": str(tmp_path / "cache"), "PATH": ""}
    into = tmp_path / "vex"
    named = ("advisories", str(path), "--vex", str(into))
    assert cli.main(named, env=env, cwd=toy.ROOT) == 0
    out = capsys.readouterr().out
    found = judge.package(path)
    assert out == text(found.libraries)
    (file,) = into.iterdir()
    assert file.name == f"{path.name}.vex.cdx.json"
    assert file.read_text() == text_of_package(
        "toy-libtorch", "1.2.0", found.bills, found.libraries
    )
    assert cli.main((*named, str(symbols)), env=env, cwd=toy.ROOT) == 1
    both = capsys.readouterr()
    assert both.out == out
    assert both.err.startswith(f"{symbols}: error: this package holds no library\n")
    assert cli.main((*named, "--check"), env=env, cwd=toy.ROOT) == 1
    assert f"seen:     CVE-2024-31580 ({path}), CVE-2024-31583 ({path})" in capsys.readouterr().err
    # nothing is a package where a variable of a script is empty
    assert cli.main(("advisories", ""), env=env, cwd=toy.ROOT) == 1
    assert capsys.readouterr().err.startswith("error: `` is not a label\n")


def test_bills_of_others_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "others.zip"
    held = {
        f"{n}/sbom.cdx.json": data
        for n, data in enumerate(
            (b"", b"[]", b"{", b'{"serialNumber": 1}', b'{"serialNumber": "urn:uuid:\\n"}')
        )
    }
    path.write_bytes(zipped(held))
    assert bills_in(path) == ()


Change = Callable[[Manifest], Manifest]
CHANGES: dict[str, Change] = {
    "another_tree": lambda m: m.model_copy(
        update={"runtime": m.runtime.model_copy(update={"tree": "ab" * 32})}
    ),
    "another_pytorch": lambda m: m.model_copy(
        update={"runtime": m.runtime.model_copy(update={"pytorch": "2.9.9"})}
    ),
    "another_selection": lambda m: with_operators(m, "aten::relu"),
    "from_before_backends": lambda m: m.model_copy(
        update={"selection": m.selection.model_copy(update={"backends": ()})}
    ),
    "from_before_sources": lambda m: m.model_copy(update={"sources": SourceFact(sha256="12" * 32)}),
    "unknown_kernels": lambda m: m.model_copy(
        update={"kernels": KernelsFact(features=("warp",), library="xnnpack", version="1")}
    ),
}


def changed(manifest: Manifest, case: str) -> Manifest:
    """A manifest whose digest of its selection is right: nobody but the library contradicts it."""
    made = CHANGES[case](manifest)
    digest = made.selection.digest if case == "another_selection" else None
    return made.model_copy(update={"selection_digest": digest})


def bad_package(case: str, folder: Path, manifest: Manifest, tmp_path: Path) -> Path:
    library = (folder / manifest.library.file).read_bytes()
    if case in CHANGES:
        path = tmp_path / "package.whl"
        held = {"t/manifest.json": changed(manifest, case).text().encode()}
        path.write_bytes(zipped({**held, "t/libtoy_torch.so": library}))
        return path
    path, *others = tarball.pack([read_delivery(folder)], tmp_path, {})
    match case:
        case "symbols_alone":
            return others[0]
        case "truncated":
            path.write_bytes(path.read_bytes()[:-100])
        case "not_there":
            return tmp_path / "nothing.aar"
        case "another_program":
            path = tmp_path / "app.zip"
            path.write_bytes(zipped({"manifest.json": b'{"name": "an extension of a browser"}'}))
        case "a_tar_of_others":
            path = tmp_path / "package.deb"
            with tarfile.open(path, "w") as written:
                written.addfile(tarfile.TarInfo("../../etc/passwd"))
        case "paths_outside":
            path = tmp_path / "package.whl"
            name = "../../../lib/libtoy_torch.so"
            path.write_bytes(zipped({"/etc/manifest.json": manifest.text().encode(), name: b"?"}))
        case _:
            assert case == "a_folder_of_others"
            path = tmp_path / "folder"
            path.mkdir()
    return path


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_bad_input(
    case: str, folder: Path, manifest: Manifest, judge: Judge, tmp_path: Path, golden: Golden
) -> None:
    path = bad_package(case, folder, manifest, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OrchestratorError) as caught:
        judge.package(path)
    told = caught.value.render().replace(str(tmp_path), "$root")
    golden(CASES / case / "expected.txt", told + "\n")
    assert sorted(tmp_path.rglob("*")) == before
