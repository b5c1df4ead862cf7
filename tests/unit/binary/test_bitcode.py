"""Bitcode is taken out of real objects, of 64 and of 32 bits, and nothing else changes in them."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from orchestrator.binary.bitcode import SECTION, NotAnObjectError, main, without_bitcode
from orchestrator.compilers.flags import LTO_FLAGS
from orchestrator.compilers.zig import zig_program
from orchestrator.errors import Place

SOURCE = """\
template <class T> struct Twice { static T of(T x) { return x + x; } };
template struct Twice<int>;
struct Base { virtual ~Base() {} virtual int number() const { return 3; } };
int call(const Base& base) { return base.number() + Twice<int>::of(4); }
alignas(64) const long table[9] = {1, 2, 3};
const long* places[] = {table, table + 4};
void may_throw();
int guarded() { try { may_throw(); } catch (int caught) { return caught; } return 0; }
"""
TARGETS = ("x86_64-linux-gnu", "arm-linux-musleabihf")


def compiled(folder: Path, target: str, *flags: str) -> Path:
    """A real object with sections of every kind that a unit has."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "unit.cpp").write_text(SOURCE)
    made = folder / "unit.o"
    fixed = ("-target", target, "-g0", "-O1", "-ffunction-sections", "-fdata-sections")
    argv = [zig_program(Place("x")), "c++", *fixed, *flags, "-fno-sanitize=all"]
    argv += ["-MD", "-MF", str(folder / "d"), "-c", str(folder / "unit.cpp"), "-o", str(made)]
    subprocess.run(argv, check=True, capture_output=True)
    return made


def content(data: bytes) -> dict[str, object]:
    """All that an object says, but bitcode and places in the file."""
    elf = ELFFile(io.BytesIO(data))
    found: dict[str, object] = {}
    for number, section in enumerate(elf.iter_sections()):
        header = {k: v for k, v in section.header.items() if k not in ("sh_offset", "sh_name")}
        if section.name == SECTION:
            continue
        found[f"{number} {section.name}"] = (header, section.data())
        assert section["sh_offset"] % max(section["sh_addralign"], 1) == 0, section.name
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_code_stays_and_bitcode_goes(target: str, tmp_path: Path) -> None:
    made = compiled(tmp_path, target, *LTO_FLAGS)
    before = made.read_bytes()
    bitcode = ELFFile(io.BytesIO(before)).get_section_by_name(SECTION)
    assert bitcode is not None
    assert bitcode.data().startswith(b"BC\xc0\xde")
    after = without_bitcode(before, made)
    assert content(after) == content(before)
    assert b"BC\xc0\xde" not in after
    assert len(before) - len(after) > bitcode["sh_size"] - 128
    left = ELFFile(io.BytesIO(after)).get_section_by_name(SECTION)
    assert left is not None
    assert (left["sh_type"], left["sh_size"]) == ("SHT_NULL", 0)
    relocations = [
        s
        for s in ELFFile(io.BytesIO(after)).iter_sections()
        if isinstance(s, RelocationSection) and s.num_relocations()
    ]
    assert relocations


@pytest.mark.parametrize("target", TARGETS)
def test_what_has_no_bitcode_stays_as_it_is(target: str, tmp_path: Path) -> None:
    made = compiled(tmp_path, target)
    assert without_bitcode(made.read_bytes(), made) == made.read_bytes()


def test_gnu_tools_link_what_is_left(tmp_path: Path) -> None:
    """A consumer's compiler is not ours: the machine's links the object and runs it."""
    made = compiled(tmp_path, "x86_64-linux-gnu", *LTO_FLAGS)
    made.write_bytes(without_bitcode(made.read_bytes(), made))
    main_source = tmp_path / "main.cpp"
    main_source.write_text(
        "int guarded(); void may_throw() { throw 5; } int main() { return guarded() - 5; }\n"
    )
    program = tmp_path / "program"
    subprocess.run(["g++", str(main_source), str(made), "-o", str(program)], check=True)
    subprocess.run([str(program)], check=True)


def test_the_step_that_ninja_runs(tmp_path: Path) -> None:
    one = compiled(tmp_path / "one", TARGETS[0], *LTO_FLAGS)
    two = compiled(tmp_path / "two", TARGETS[0]).rename(tmp_path / "plain.o")
    listed = tmp_path / "objects.rsp"
    listed.write_text(f"{one}\n{two}\n")
    folder = tmp_path / "copies"
    assert main([str(listed), str(folder)]) == 0
    assert (folder / "members").read_text() == f"{folder}/unit.o\n{folder}/plain.o\n"
    assert (folder / "unit.o").read_bytes() == without_bitcode(one.read_bytes(), one)
    assert (folder / "plain.o").read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"BC\xc0\xde" + bytes(60), "a file that begins with b'BC\\xc0\\xde\\x00\\x00'"),
        (b"\x7fELF\x02\x01" + bytes(40), "a file of 46 bytes"),
        (b"\x7fELF\x02\x02" + bytes(60), "a file that begins with b'\\x7fELF\\x02\\x02'"),
    ],
)
def test_what_is_no_object_is_told(
    data: bytes, seen: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.o"
    bad.write_bytes(data)
    with pytest.raises(NotAnObjectError) as caught:
        without_bitcode(data, bad)
    text = caught.value.render()
    assert "the bitcode of this object cannot be taken out" in text
    assert seen in text
    (tmp_path / "list").write_text(f"'{bad}'\n")
    assert main([str(tmp_path / "list"), str(tmp_path / "copies")]) == 1
    assert text.splitlines()[0] in capsys.readouterr().err
    assert not (tmp_path / "copies/members").exists()


def test_a_cut_object_is_told(tmp_path: Path) -> None:
    data = compiled(tmp_path, TARGETS[0], *LTO_FLAGS).read_bytes()
    with pytest.raises(NotAnObjectError):
        without_bitcode(data[: len(data) // 2], tmp_path / "unit.o")
