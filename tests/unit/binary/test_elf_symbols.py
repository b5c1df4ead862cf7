"""What names that a library exports cost it: compared with a second link without them."""

from __future__ import annotations

from pathlib import Path

import package_toy as toy
import pytest
from elftools.elf.elffile import ELFFile
from zig_tool import zig

from orchestrator.binary.elf import NotElfError
from orchestrator.binary.elf_symbols import exported_bytes

NAMES = [f"l_{'x' * (number % 5)}{number}" for number in range(200)]
SECTIONS = (".dynsym", ".dynstr", ".gnu.hash", ".gnu.version")
# header of `.gnu.hash`, and a hash for each of the C API's names
OTHERS = 16 + 4 * 2


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It takes a versioned symbol of the C library, and has names that only look alike."""
    folder = tmp_path_factory.mktemp("names")
    source = folder / "names.c"
    source.write_text(
        "int puts(const char *text);\n"
        "int lta_one(void) { return puts(__func__); }\n"
        "int lta_l_two(void) { return puts(__func__); }\n"
        + "".join(f"int {name}(void) {{ return {n}; }}\n" for n, name in enumerate(NAMES))
    )
    zig("cc", "-O2", "-g0", "-fPIC", "-fno-sanitize=all", "-c", source, "-o", folder / "names.o")
    return folder / "names.o"


def linked(unit: Path, names: str) -> Path:
    """A library that exports these."""
    library, script = unit.with_name("names.so"), unit.with_name("names.map")
    script.write_text(f"{{ global: {names} local: *; }};\n")
    flags = ("-shared", "-O2", "-Wl,--hash-style=gnu", f"-Wl,--version-script={script}")
    zig("cc", *flags, unit, "-o", library)
    return library


def sizes(library: Path) -> dict[str, int]:
    with library.open("rb") as file:
        elf = ELFFile(file)
        held = {section.name: section["sh_size"] for section in elf.iter_sections()}
        return {name: held[name] for name in SECTIONS}


def test_what_is_counted_is_what_a_link_without_them_lacks(unit: Path) -> None:
    without = sizes(linked(unit, "lta_*;"))
    library = linked(unit, "lta_*; l_*;")
    count, sections = exported_bytes(library, "l_")
    assert count == len(NAMES)
    found = dict(sections)
    more = {name: size - without[name] for name, size in sizes(library).items()}
    # but for the buckets and the filter of the other names, which are few
    assert found.pop(".gnu.hash") - more.pop(".gnu.hash") == without[".gnu.hash"] - OTHERS < 100
    assert found == more
    assert exported_bytes(library, "none_") == (0, {})


def test_a_library_without_a_hash_or_one_that_is_none(unit: Path, tmp_path: Path) -> None:
    assert exported_bytes(toy.plain_library(tmp_path / "x.so", "-Wl,--hash-style=sysv"), "lta") == (
        0,
        {},
    )
    (tmp_path / "y.so").write_bytes(b"\x7fELF")
    with pytest.raises(NotElfError):
        exported_bytes(tmp_path / "y.so", "lta")
