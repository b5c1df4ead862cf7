"""Verdicts on the example apps' libraries, against the symbols of what was delivered, and against
those on their packages alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from real import orchestrator

from orchestrator.deliver.vex import SUFFIX
from orchestrator.load.advisories import OWN, read_advisories
from orchestrator.select.advisories import mangled

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

ABI = "linux-x86_64"
# App -> what is said of it but for `not present`.
PRESENT: Mapping[str, Mapping[str, str]] = {
    "assistant": {},
    "camera": {"CVE-2024-31580": "mended", "CVE-2024-31583": "mended"},
    "inker": {},
    "keyboard": {},
    "listener": {},
    "reader": {},
    "scanner": {},
    "translator": {},
}


def functions_in(delivered: Path) -> set[str]:
    """The names of functions and data in a library, as its debug file has them."""
    (symbols,) = (delivered / "symbols").iterdir()
    with symbols.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        return {one.name for one in table.iter_symbols() if one["st_size"]}


def test_what_is_not_present_is_not_in_a_library(built: Path) -> None:
    ran = orchestrator("advisories", "//...", "--json", "--quiet")
    assert ran.code == 0, ran.err
    told = {one["label"]: one for one in json.loads(ran.out)["libraries"]}
    here = {label: one for label, one in told.items() if label.endswith(f":{ABI}")}
    assert len(here) == len(PRESENT)
    advisories = {one.id: one for one in read_advisories(OWN)}
    for label, one in here.items():
        app = label.removeprefix("//apps/").partition(":")[0]
        names = functions_in(built / app / ABI)
        verdicts = {each["id"]: each["verdict"] for each in one["advisories"]}
        assert verdicts.keys() >= {"CVE-2025-2999", "CVE-2025-3000", "CVE-2025-3001"}
        present = {name: verdict for name, verdict in verdicts.items() if verdict != "not present"}
        assert present == PRESENT[app], label
        for name in verdicts.keys() - present.keys():
            for function in advisories[name].functions:
                assert not [*filter(mangled(function).match, names)], (label, name)
        for name in present:
            for function in advisories[name].functions:
                assert [*filter(mangled(function).match, names)], (label, name)


def test_packages_are_judged_as_their_apps_are(built: Path, tmp_path: Path) -> None:
    """Of every kind and ABI, without their apps; and builds wrote the same beside them."""
    beside = sorted(built.glob(f"*/packages/*{SUFFIX}"))
    packages = [one.with_name(one.name.removesuffix(SUFFIX)) for one in beside]
    kinds = {"".join(re.findall(r"\.(?:tar\.zst|[a-z]+)$", one.name)) for one in packages}
    assert kinds >= {".tar.zst", ".deb", ".aar", ".zip", ".whl"}
    plans = orchestrator("advisories", "--json", "--quiet")
    alone = orchestrator(
        *("advisories", *map(str, packages), "--json", "--quiet", "--vex", str(tmp_path / "vex"))
    )
    assert (plans.code, alone.code) == (0, 0), plans.err + alone.err
    of_apps = {one["label"]: words_of(one) for one in json.loads(plans.out)["libraries"]}
    told = json.loads(alone.out)["libraries"]
    assert {one["package"] for one in told} == {*map(str, packages)}
    assert {one["label"] for one in told} <= of_apps.keys()
    for one in told:
        assert words_of(one) == of_apps[one["label"]], one["package"]
    for file in beside:
        assert (tmp_path / "vex" / file.name).read_bytes() == file.read_bytes(), file


def words_of(library: Mapping[str, Any]) -> dict[str, str]:
    return {one["id"]: one["verdict"] for one in library["advisories"]}
