"""No module but its own asks for a platform, or a kind of compiler, by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from orchestrator.platforms.platform import CLibrary
from orchestrator.values.config.toolchain import CompilerKind, System

PACKAGE = Path(__file__).parents[3] / "orchestrator"
NAMES = {*get_args(System), *get_args(CLibrary)}
# Where these words are declared, and where they are known by right.
OWNERS = ("platforms/", "compilers/", "values/config/")
# The words in other modules, and what they are there.
OTHERS = {
    # the format of a package names its platform itself
    "build/planning/variants.py": {"ios": "libc++'s src/ios.cpp"},
    "packagers/aar.py": {"bionic": "the C library of every AAR"},
    "packagers/xcframework.py": {"ios": "SupportedPlatform of its Info.plist"},
    "plan/flags.py": {"linux": "a default"},
    "plan/variant.py": {"linux": "a default"},
    "system/process.py": {"linux": "sys.platform of the machine: it has pidfd_open"},
    "system/staging.py": {"linux": "sys.platform of the machine: it has syncfs"},
}


def names(text: str) -> Iterator[str]:
    """The platforms and C libraries that a module's text names in a string of its own, and the
    kinds of compilers that it asks a declaration for."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and node.value in NAMES:
            yield str(node.value)
        elif isinstance(node, ast.Attribute) and node.attr in get_args(CompilerKind):
            inside = node.value
            if "compiler" in (getattr(inside, "attr", ""), getattr(inside, "id", "")):
                yield f"compiler.{node.attr}"


def test_platforms_are_named_by_their_owners_alone() -> None:
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE).as_posix()
        named = {*names(file.read_text(encoding="utf-8"))}
        if named and not path.startswith(OWNERS):
            found[path] = named
    assert found == {path: {*named} for path, named in OTHERS.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('if config.system == "android": pass', ["android"]),
        ('TABLE = {"linux": 1, "ios-simulator": 2}', ["linux", "ios-simulator"]),
        ('if c_library != "musl": pass', ["musl"]),
        ("if config.compiler.zig is None: pass", ["compiler.zig"]),
        ("kind = config.compiler.kind, driver.zig", []),
        ('"""Of ios alone."""\nhint = "an app for android"', []),
    ],
)
def test_the_rule_itself(text: str, expected: list[str]) -> None:
    assert [*names(text)] == expected
