"""Files of elementwise operators, read and refused, and the C++ that is generated of them.

A folder of tests/failing/elementwise is a file with something wrong.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from golden_files import Golden

from orchestrator.build.elementwise import all_sources
from orchestrator.errors import OrchestratorError
from orchestrator.load.declared import App
from orchestrator.load.elementwise import read_elementwise
from orchestrator.load.sources import SourceUnfitError
from orchestrator.load.workspace import load_workspace
from orchestrator.values.own_sources import OwnSources

TESTS = Path(__file__).parents[2]
CASES = TESTS / "failing/elementwise"
TWELVE = TESTS / "golden/elementwise"
APP = """\
models: [{file: small.ptl}]
targets: [linux-x86_64]
sources: {kernels: {namespace: ew, files: ["kernels/*.elementwise"]}}
"""


def app(root: Path, config: str = APP) -> App:
    (root / "apps/toy/kernels").mkdir(parents=True, exist_ok=True)
    (root / "apps/toy/app.yaml").write_text(config)
    (root / "apps/toy/small.ptl").touch()
    (root / "WORKSPACE").write_text(
        f'version: 1\nruntime:\n  pytorch: 1.13.1\n  tree: "{"0" * 64}"\n  sources: [path: here]\n'
    )
    workspace = load_workspace(root, {"HOME": str(root)})
    for faults in workspace.broken.values():
        raise faults[0]
    return workspace.apps["toy"]


def made(root: Path, name: str) -> OwnSources:
    (root / "apps/toy/kernels").mkdir(parents=True)
    shutil.copy(TWELVE / f"{name}.elementwise", root / "apps/toy/kernels")
    found = all_sources(app(root))
    assert found is not None
    return found


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_bad_files(case: str, tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "apps/toy/kernels").mkdir(parents=True)
    shutil.copy(CASES / case / "op.elementwise", tmp_path / "apps/toy/kernels")
    with pytest.raises(OrchestratorError) as caught:
        read_elementwise(app(tmp_path))
    golden(CASES / case / "expected.txt", caught.value.render() + "\n")


@pytest.mark.parametrize("name", ["lcm", "zeta", "i0"])
def test_the_text_of_an_operator(name: str, tmp_path: Path, golden: Golden) -> None:
    sources = made(tmp_path, name)
    path = f"kernels/{name}.elementwise.cpp"
    assert sources.files == (path,)
    assert sources.generated == {path: f"kernels/{name}.elementwise"}
    golden(TWELVE / "texts" / f"{name}.cpp", sources.texts[path])


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    """A compiler's `apps/toy/kernels/zeta.elementwise:8` is the eighth line there, indented as it
    is."""
    text = made(tmp_path, "zeta").texts["kernels/zeta.elementwise.cpp"]
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("#line"))
    number, _, file = lines[at].removeprefix("#line ").partition(" ")
    assert file == '"apps/toy/kernels/zeta.elementwise"'
    original = (TWELVE / "zeta.elementwise").read_text().splitlines()[int(number) - 1 :]
    assert lines[at + 1 : at + 1 + len(original)] == original


def test_all_of_them_are_read(tmp_path: Path) -> None:
    shutil.copytree(TWELVE, tmp_path / "apps/toy/kernels", ignore=shutil.ignore_patterns("texts"))
    found = read_elementwise(app(tmp_path))
    assert [one.config.name for one in found] == [
        *("digamma", "erfcx", "gcd", "i0", "i0e", "i1", "i1e"),
        *("lcm", "lgamma", "ndtri", "trigamma", "zeta"),
    ]


def test_a_file_of_a_generated_ones_name(tmp_path: Path) -> None:
    folder = tmp_path / "apps/toy/kernels"
    folder.mkdir(parents=True)
    shutil.copy(TWELVE / "gcd.elementwise", folder)
    (folder / "gcd.elementwise.cpp").write_text("int a;\n")
    config = APP.replace("sources: {", 'sources: {files: ["kernels/*.cpp"], ')
    with pytest.raises(SourceUnfitError) as caught:
        all_sources(app(tmp_path, config))
    assert str(caught.value.place) == "apps/toy/kernels/gcd.elementwise.cpp"


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ("sources: {}", "no sources are named"),
        ("sources: {kernels: {namespace: ew, files: [x.elementwise]}}", "no source has this name"),
        ("sources: {kernels: {namespace: e-w, files: [x.elementwise]}}", "`namespace`"),
        ("sources: {kernels: {namespace: ew, files: [x.cpp]}}", "`files`"),
    ],
)
def test_bad_declarations(config: str, what: str, tmp_path: Path) -> None:
    head = "\n".join(APP.splitlines()[:2])
    with pytest.raises(OrchestratorError) as caught:
        app(tmp_path, f"{head}\n{config}\n")
    assert what in caught.value.render()
