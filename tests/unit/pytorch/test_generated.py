"""The source tree's generated files: written once, all or nothing, by the tree's own generators."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.pytorch.dialect import Generator
from orchestrator.pytorch.generated import (
    GenerationFailedError,
    generate_sources,
    generated_identity,
)
from orchestrator.pytorch.v1_13.dialect import DIALECT

DIGEST = "a" * 64
# Stand in for torchgen and for the autograd generator: each writes where its last argument says.
TORCHGEN = """\
import os, pathlib, sys
out = pathlib.Path(sys.argv[sys.argv.index("--install_dir") + 1])
(out / "ops").mkdir()
(out / "Functions.h").write_text(" ".join(sys.argv[1:-1]))
(out / "cwd").write_text(os.getcwd())
"""
AUTOGRAD = """\
import pathlib, sys
out = pathlib.Path(sys.argv[sys.argv.index("--gen-dir") + 1])
(out / "variable_factories.h").touch()
"""


# a search path would be split at the second one's colon
@pytest.fixture(params=["plain", "a:b c"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / str(request.param) / "tree"
    (folder / "torchgen").mkdir(parents=True)
    (folder / "torchgen/__init__.py").touch()
    (folder / "torchgen/gen.py").write_text(TORCHGEN)
    (folder / "tools/setup_helpers").mkdir(parents=True)
    (folder / "tools/setup_helpers/generate_code.py").write_text(AUTOGRAD)
    return folder


def generate(tree: Path, said: list[str] | None = None) -> Path:
    said = [] if said is None else said
    return generate_sources(
        DIALECT.generated, tree, DIGEST, tree.parent / "cache", os.environ, said.append
    )


def files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_both_generators_write_into_one_folder(tree: Path) -> None:
    said: list[str] = []
    folder = generate(tree, said)
    assert folder.parent == tree.parent / "cache/generated"
    assert files(folder) == [
        "ATen/Functions.h",
        "ATen/cwd",
        "SHA256SUMS",
        "autograd/variable_factories.h",
    ]
    # relative to the tree, so that no path of this machine enters the text
    assert (folder / "ATen/cwd").read_text() == str(tree)
    assert "--source-path aten/src/ATen " in (folder / "ATen/Functions.h").read_text()
    assert said == ["generating headers and sources with torchgen"]
    assert list((tree.parent / "cache/staging").iterdir()) == []
    # the source tree itself stays as it was fetched
    assert not list(tree.rglob("__pycache__"))


def test_it_is_done_once(tree: Path) -> None:
    first = generate(tree)
    said: list[str] = []
    (tree / "torchgen/gen.py").write_text("raise SystemExit(1)\n")
    assert generate(tree, said) == first
    assert said == []


def test_what_was_interrupted_is_done_again(tree: Path) -> None:
    folder = generate(tree)
    (folder / "SHA256SUMS").unlink()
    (folder / "ATen/Functions.h").write_text("half")
    assert generate(tree) == folder
    assert (folder / "ATen/Functions.h").read_text() != "half"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("torchgen/gen.py", "torchgen.gen"),
        ("tools/setup_helpers/generate_code.py", "tools/setup_helpers/generate_code.py"),
    ],
)
def test_a_failing_generator(file: str, name: str, tree: Path) -> None:
    (tree / file).write_text("raise SystemExit('native_functions.yaml is damaged')\n")
    with pytest.raises(GenerationFailedError) as caught:
        generate(tree)
    assert caught.value.render() == (
        f"error: {name} of the pinned tree failed\n"
        "  do:       ./orchestrate fetch --verify checks the source tree\n"
        "  | native_functions.yaml is damaged"
    )
    assert files(tree.parent / "cache") == []


def test_the_identity_is_of_the_tree_and_of_the_commands() -> None:
    first = DIALECT.generated
    changed = replace(first, sources=(Generator("-m torchgen.gen --new", "ATen"),))
    found = {generated_identity(one, tree) for one in (first, changed) for tree in ("a", "b")}
    assert {len(one) for one in found} == {64}
    assert len(found) == 4
