"""requirements/: what is installed is what pyproject.toml asks for, file by file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RENEW = "run requirements/renew"


@dataclass(frozen=True)
class Locked:
    """A package of a lock: the one version, where it is wanted, and the digests of its files."""

    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def version(self) -> str:
        (one,) = self.requirement.specifier
        assert one.operator == "=="
        return one.version


def lock(use: str) -> dict[str, Locked]:
    text = (ROOT / f"requirements/{use}.txt").read_text(encoding="utf-8")
    joined = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "")
    found: dict[str, Locked] = {}
    for line in joined.splitlines():
        requirement, *options = re.split(r"\s+--hash=", line.strip())
        locked = Locked(Requirement(requirement), tuple(options))
        found[canonicalize_name(locked.requirement.name)] = locked
    return found


def asked(use: str) -> Sequence[Requirement]:
    """What pyproject.toml names for a use of .venv, its own build backend too."""
    project = PYPROJECT["project"]
    named = [*PYPROJECT["build-system"]["requires"], *project["dependencies"]]
    if use == "dev":
        named += project["optional-dependencies"]["dev"]
    return [Requirement(text) for text in named]


@pytest.mark.parametrize("use", ["run", "dev"])
def test_a_lock_holds_what_pyproject_asks_for(use: str) -> None:
    locked = lock(use)
    for requirement in asked(use):
        name = canonicalize_name(requirement.name)
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), f"{requirement}: pin it"
        assert name in locked, f"{requirement} is not in requirements/{use}.txt: {RENEW}"
        assert str(requirement.specifier) == f"=={locked[name].version}", f"{requirement}: {RENEW}"


@pytest.mark.parametrize("use", ["run", "dev", "grid"])
def test_every_file_of_a_lock_has_its_digest(use: str) -> None:
    for name, locked in lock(use).items():
        assert locked.hashes, name
        for text in locked.hashes:
            assert re.fullmatch(r"sha256:[0-9a-f]{64}", text), name


def test_both_uses_have_the_same_versions() -> None:
    run, dev = lock("run"), lock("dev")
    assert run.items() <= dev.items(), RENEW


@pytest.mark.parametrize("use", ["run", "dev", "grid"])
def test_a_lock_names_no_place_to_get_packages_from(use: str) -> None:
    text = (ROOT / f"requirements/{use}.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"^\s*-", text.replace("    --hash=", ""), re.MULTILINE)
