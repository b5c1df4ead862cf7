"""The licences of a variant: of PyTorch's parts by its units, of the toolchain's by symbols."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import package_toy as toy
import pytest
from core_toy import session
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression

from orchestrator.errors import Place
from orchestrator.pipeline.licences import held_parts, licences, of_linked
from orchestrator.runtime.units import runtime_units
from orchestrator.runtime.versions import LicenceRule, load_version
from orchestrator.toolchain.driver import LinkedPart
from orchestrator.toolchain.zig import find_zig
from orchestrator.values.config import ZigCompiler

RULES = load_version("1.13.1").licences
GNU = "x86_64-linux-gnu.2.28"
MUSL = "aarch64-linux-musl"


def parts(target: str) -> dict[str, LinkedPart]:
    driver = find_zig(ZigCompiler(target=target), Place("here"))
    return {part.name: part for part in driver.linked}


def names(rules: object) -> list[str]:
    return [rule.component for rule in rules]  # type: ignore[attr-defined]


def test_the_parts_are_those_of_the_units() -> None:
    everywhere = ["PyTorch"]
    assert names(held_parts(RULES, ["c10/core/Device.cpp"])) == everywhere
    assert names(held_parts(RULES, ["third_party/miniz-2.1.0/miniz.c"])) == ["PyTorch", "miniz"]
    assert names(held_parts(RULES, ["c10/util/signal_handler.cpp"])) == ["PyTorch", "fmt"]
    kernels = names(held_parts(RULES, ["aten/src/ATen/native/cpu/SoftMaxKernel.cpp"]))
    assert kernels == [
        *("PyTorch", "mt19937ar-cok", "antelope_contrib-erfinv", "faddeeva", "musl-nextafter")
    ]


@pytest.mark.parametrize(
    ("component", "begins", "ends"),
    [
        ("PyTorch", "From PyTorch:", "POSSIBILITY OF SUCH DAMAGE."),
        ("miniz", "Copyright 2013-2014 RAD Game Tools", "THE SOFTWARE."),
        ("fmt", "Copyright (c) 2012 - present, Victor Zverovich", "permission notices."),
        ("mt19937ar-cok", " * Copyright notice:", "(remove space)"),
        ("antelope_contrib-erfinv", "/* The next function is taken from", "*/"),
        ("faddeeva", "/* The next function is taken from http://ab-initio", " */"),
        ("musl-nextafter", "/*\n  The following function is inspired", " */"),
    ],
)
def test_each_text_is_a_licence(component: str, begins: str, ends: str) -> None:
    (found,) = (
        licence
        for licence in licences(
            session(), "linux-x86_64", [unit for rule in RULES for unit in a_unit(rule)], None
        )
        if licence.component == component
    )
    text = next(iter(found.texts[name] for name in sorted(found.texts)))
    assert isinstance(text, bytes)
    assert text.decode().startswith(begins)
    assert text.decode().rstrip().endswith(ends.rstrip())


def a_unit(rule: LicenceRule) -> list[str]:
    return [glob.replace("**", "aten/x.cpp").replace("*", "x") for glob in rule.units]


def test_fmt_is_in_the_units_that_include_it() -> None:
    """Other units read c10/util/strong_type.h, which includes fmt where a macro asks for it."""
    tree = session().runtime.fetched.tree
    includes = re.compile(r"^#include <fmt/", re.MULTILINE)
    units = [u.path for u in runtime_units(tree, load_version("1.13.1"))]
    including = {
        unit
        for unit in units
        if (tree / unit).is_file() and includes.search((tree / unit).read_text(errors="replace"))
    }
    (rule,) = (rule for rule in RULES if rule.component == "fmt")
    assert including == {unit for unit in units if names(held_parts([rule], [unit]))}


@pytest.mark.parametrize("target", [GNU, MUSL, "aarch64-ios.15.0"])
def test_zig_tells_what_it_may_link(target: str) -> None:
    found = parts(target)
    libc = {GNU: ["glibc-nonshared"], MUSL: ["musl"]}.get(target, [])
    assert sorted(found) == sorted(["libcxx", "libcxxabi", "libunwind", "zig-compiler-rt", *libc])
    assert {found[name].version for name in ("libcxx", "libcxxabi", "libunwind")} == {"22.1.8"}
    for part in found.values():
        assert all(text.read_text(encoding="utf-8") for text in part.texts.values())
    if target == MUSL:
        assert found["musl"].version == "1.2.5"


def test_every_licence_is_an_spdx_expression() -> None:
    given = {rule.licence for rule in RULES} | {
        part.licence for target in (GNU, MUSL) for part in parts(target).values()
    }
    for text in given:
        licence = LicenseFactory().make_from_string(text)
        assert isinstance(licence, LicenseExpression) or (
            isinstance(licence, DisjunctiveLicense) and licence.id == text
        )


def test_a_cxx_library_holds_the_parts_that_it_uses(tmp_path: Path) -> None:
    library = toy.variant(tmp_path).shared_library
    assert library is not None
    found = {licence.component: licence for licence in of_linked(parts(GNU).values(), library)}
    assert found.keys() >= {"libcxx", "libcxxabi", "libunwind"}
    assert "zig-compiler-rt" not in found
    assert found["libcxx"].version == "22.1.8"


def test_a_library_of_the_systems_parts_alone_holds_none(tmp_path: Path) -> None:
    library = toy.plain_library(tmp_path / "plain.so")
    assert list(of_linked(parts(GNU).values(), library)) == []


def test_a_part_is_found_by_a_symbol_that_is_defined(tmp_path: Path) -> None:
    library = toy.plain_library(tmp_path / "plain.so")
    part = replace(parts(GNU)["libcxx"], witnesses=("lta_",))
    assert [licence.component for licence in of_linked([part], library)] == ["libcxx"]
