"""The headers that CMake configures from `.in` files: here a pure function of text and values.

Semantics are those of CMake's `configure_file` without `@ONLY` or `ESCAPE_QUOTES`
(https://cmake.org/cmake/help/latest/command/configure_file.html):

- `@NAME@` and `${NAME}` become the value, or nothing where the variable is not set;
- a line with `#cmakedefine NAME` has it become `#define NAME` where the value is true, else the
  whole line becomes `/* #undef NAME */`;
- a line with `#cmakedefine01 NAME` has it become `#define NAME`, and ends in ` 1` or ` 0`;
- blanks between `#` and `cmakedefine` are kept.

False is: not set, empty, `0`, `OFF`, `NO`, `FALSE`, `N`, `IGNORE` in any case, `NOTFOUND`,
`*-NOTFOUND`. Nested names and `$ENV{NAME}` are not understood and stay as they are. The values hold
no path of this machine, so neither do the headers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError
from orchestrator.pytorch.versions import VersionData
from orchestrator.system.staging import write_if_changed
from orchestrator.values.fingerprint import fingerprint

# The characters that CMake allows in the name of a variable, inside @...@ and ${...}.
_VARIABLE: Final = re.compile(r"@([A-Za-z0-9/_.+-]+)@|\$\{([A-Za-z0-9/_.+-]+)\}")
_DEFINE: Final = re.compile(r"#([ \t]*)cmakedefine(01)?[ \t]+([A-Za-z_0-9]*)")
_FALSE: Final = frozenset(("", "0", "OFF", "NO", "FALSE", "N", "IGNORE"))


class ConfigureInputError(OrchestratorError):
    """The source tree lacks a `.in` file that a configured header is made from."""


def configure(text: str, values: Mapping[str, str]) -> str:
    """`text` of a `.in` file as CMake would write it; a variable without a value is unset."""
    lines = text.split("\n")
    return "\n".join(_line(line, values) for line in lines)


def configured_headers(tree: Path, version: VersionData) -> dict[str, str]:
    """Path, as it is included (`ATen/Config.h`) -> text, sorted. Raises `ConfigureInputError`."""
    headers = {}
    for header, source in sorted(version.configure.headers.items()):
        try:
            text = (tree / source).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ConfigureInputError(
                f"the header {header} cannot be configured",
                expected=f"its input {source} in the source tree",
                seen=f"no such file in {tree}",
                hint="fetch the runtime again: ./orchestrate fetch --verify",
            ) from None
        headers[header] = configure(text, version.configure.values)
    return headers


def configured_identity(tree_digest: str, version: VersionData) -> str:
    """Digest that names the configured headers of a tree: of the tree, and of what is configured
    with which values."""
    configure = version.configure
    return fingerprint(
        {"tree": tree_digest, "headers": configure.headers, "values": configure.values}
    )


def write_configured_headers(tree: Path, version: VersionData, into: Path) -> None:
    """Write the configured headers below the folder `into`; a file that is right is left alone."""
    for header, text in configured_headers(tree, version).items():
        write_if_changed(into / header, text)


def _line(line: str, values: Mapping[str, str]) -> str:
    define = _DEFINE.search(line)
    if define:
        _, numeric, name = define.groups()
        true = _true(values.get(name, ""))
        if not numeric and not true:
            return f"/* #undef {name} */"
        start = define.start()
        line = line[:start] + line[start:].replace("cmakedefine" + (numeric or ""), "define", 1)
        line += f" {int(true)}" if numeric else ""
    return _substitute(line, values)


def _substitute(line: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: values.get(match[1] or match[2], ""), line)


def _true(value: str) -> bool:
    return value.upper() not in _FALSE and value != "NOTFOUND" and not value.endswith("-NOTFOUND")
