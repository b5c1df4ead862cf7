from __future__ import annotations

import struct
import subprocess
import zlib
from pathlib import Path

import package_toy as toy
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from orchestrator.binary.elf_strip import NotStrippableError, Split, split


def sections(path: Path) -> list[str]:
    with path.open("rb") as file:
        return [section.name for section in ELFFile(file).iter_sections()]


def written(parts: Split, folder: Path) -> tuple[Path, Path]:
    stripped, debug = folder / "stripped.so", folder / "stripped.so.debug"
    stripped.write_bytes(parts.stripped)
    debug.write_bytes(parts.debug)
    return stripped, debug


def loaded(path: Path) -> list[tuple[int, bytes]]:
    """What a loader maps: address and bytes of each segment, without the ELF header's offsets."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        return [
            (s["p_vaddr"], s.data()[64:] if s["p_offset"] == 0 else s.data())
            for s in elf.iter_segments()
            if s["p_type"] == "PT_LOAD"
        ]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.plain_library(tmp_path_factory.mktemp("strip") / "lib.so", toy.PLACEHOLDER)


def test_halves_load_the_same_bytes_and_only_one_has_symbols(library: Path, tmp_path: Path) -> None:
    stripped, debug = written(split(library.read_bytes(), "lib.so.debug"), tmp_path)
    assert loaded(stripped) == loaded(debug)
    assert ".symtab" not in sections(stripped)
    assert sections(stripped)[-2:] == [".gnu_debuglink", ".shstrtab"]
    assert b"hidden_add" not in stripped.read_bytes()
    assert b"hidden_add" in debug.read_bytes()


def test_real_tools_read_both_halves(library: Path, tmp_path: Path) -> None:
    for half in written(split(library.read_bytes(), "lib.so.debug"), tmp_path):
        run = subprocess.run(["readelf", "-aW", half], capture_output=True, text=True, check=True)
        assert run.stderr == ""


def test_build_id_is_of_what_is_loaded_alone(library: Path) -> None:
    parts = split(library.read_bytes(), "lib.so.debug")
    assert parts.build_id is not None
    assert len(parts.build_id) == 40
    assert bytes.fromhex(parts.build_id) in parts.stripped
    assert bytes.fromhex(parts.build_id) in parts.debug
    # Not loaded: the last bytes of the file are the section headers.
    assert split(parts.debug, "other.debug").build_id == parts.build_id


def test_build_id_differs_with_the_code(library: Path) -> None:
    data = bytearray(library.read_bytes())
    at = data.index(b"toy 1")
    data[at : at + 5] = b"toy 2"
    one = split(library.read_bytes(), "lib.so.debug")
    assert split(bytes(data), "lib.so.debug").build_id != one.build_id


def test_debug_link_names_the_file_and_its_checksum(library: Path, tmp_path: Path) -> None:
    parts = split(library.read_bytes(), "lib.so.debug")
    stripped, _ = written(parts, tmp_path)
    with stripped.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".gnu_debuglink")
        assert section is not None
        link = section.data()
    assert link == b"lib.so.debug\0\0\0\0" + struct.pack("<I", zlib.crc32(parts.debug))


def test_library_without_a_build_id(tmp_path: Path) -> None:
    library = toy.plain_library(tmp_path / "lib.so")
    parts = split(library.read_bytes(), "lib.so.debug")
    assert parts.build_id is None
    stripped, debug = written(parts, tmp_path)
    assert loaded(stripped) == loaded(debug)


@pytest.mark.parametrize("target", ["arm-linux-musleabihf", "aarch64-linux-musl"])
def test_other_processors(target: str, tmp_path: Path) -> None:
    library = toy.plain_library(tmp_path / "lib.so", toy.PLACEHOLDER, target=target)
    stripped, debug = written(split(library.read_bytes(), "lib.so.debug"), tmp_path)
    assert [address for address, _ in loaded(stripped)]
    assert (".ARM.attributes" in sections(stripped)) == target.startswith("arm-")
    for half in (stripped, debug):
        run = subprocess.run(["readelf", "-aW", half], capture_output=True, text=True, check=True)
        assert run.stderr == ""


def test_dwarf_is_kept_when_asked_for(tmp_path: Path) -> None:
    library = toy.plain_library(
        tmp_path / "lib.so", toy.PLACEHOLDER, compile_flags=("-g", *toy.FLAGS[1:])
    )
    assert ".debug_info" in sections(library)
    data = library.read_bytes()
    _, without = written(split(data, "d"), tmp_path)
    assert ".debug_info" not in sections(without)
    _, kept = written(split(data, "d", keep_dwarf=True), tmp_path)
    assert ".debug_info" in sections(kept)


def with_unloaded_section_first(data: bytes) -> bytes:
    """The library with `.comment` called `.debug_c` and moved to the front of the section table."""
    out = bytearray(data.replace(b".comment\0", b".debug_c\0"))
    (table,) = struct.unpack_from("<Q", out, 40)
    count, names = struct.unpack_from("<HH", out, 60)
    rows = [list(struct.unpack_from("<IIQQQQIIQQ", out, table + 64 * i)) for i in range(count)]
    strings = rows[names][4]
    moved = next(i for i in range(1, count) if out[strings + rows[i][0] :].startswith(b".debug_c"))
    order = [0, moved, *(i for i in range(1, count) if i != moved)]
    new = {old: at for at, old in enumerate(order)}
    for row in rows:
        row[6] = new[row[6]]
        row[7] = new[row[7]] if row[1] == 4 else row[7]
        if row[1] == 2:
            for at in range(row[4] + 6, row[4] + row[5], 24):
                (old,) = struct.unpack_from("<H", out, at)
                struct.pack_into("<H", out, at, new.get(old, old))
    for at, old in enumerate(order):
        struct.pack_into("<IIQQQQIIQQ", out, table + 64 * at, *rows[old])
    struct.pack_into("<H", out, 62, new[names])
    return bytes(out)


def test_symbols_and_links_follow_sections_that_move(library: Path, tmp_path: Path) -> None:
    shuffled = with_unloaded_section_first(library.read_bytes())
    stripped, debug = written(split(shuffled, "d"), tmp_path)
    assert loaded(stripped) == loaded(debug)
    with debug.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        symbols = table.get_symbol_by_name("hidden_add")
        assert symbols is not None
        assert elf.get_section(symbols[0]["st_shndx"]).name == ".text"
        dynamic = elf.get_section_by_name(".dynsym")
        assert dynamic is not None
        assert elf.get_section(dynamic["sh_link"]).name == ".dynstr"
        assert ".debug_c" not in sections(debug)


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"", "a file of 0 bytes that begins with b''"),
        (b"!<arch>\n" * 10, "a file of 80 bytes that begins with b'!<arch'"),
        (
            b"\x7fELF\x02\x02" + 64 * b"\0",
            "a file of 70 bytes that begins with b'\\x7fELF\\x02\\x02'",
        ),
    ],
)
def test_what_is_not_elf_is_refused(data: bytes, seen: str) -> None:
    with pytest.raises(NotStrippableError) as caught:
        split(data, "x")
    assert caught.value.seen == seen


def test_truncated_library_is_refused(library: Path) -> None:
    with pytest.raises(NotStrippableError, match="this ELF library is damaged"):
        split(library.read_bytes()[:-100], "x")


def test_build_id_of_another_length_is_refused(tmp_path: Path) -> None:
    library = toy.plain_library(tmp_path / "lib.so", "-Wl,--build-id=0x1234")
    with pytest.raises(NotStrippableError) as caught:
        split(library.read_bytes(), "x")
    assert caught.value.seen == "2 bytes"
