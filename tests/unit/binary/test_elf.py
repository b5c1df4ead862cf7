from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import package_toy as toy
import pytest

from orchestrator.binary.elf import (
    ElfRules,
    ForeignLibraryError,
    NotElfError,
    RunPathError,
    TextRelocationError,
    WrongExportsError,
    WrongMachineError,
    WrongSonameError,
    check,
    exported_symbols,
    soname_of,
    violations,
)
from orchestrator.binary.elf_pages import SmallAlignmentError
from orchestrator.platforms.linux import LIBRARY

RULES = ElfRules(
    soname="libtoy_torch.so",
    processor="x86_64",
    exports=frozenset(("lta_add", "lta_version")),
    system_libraries=LIBRARY.system_libraries["gnu"],
)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elf")
    script = toy.version_script(folder)
    return toy.plain_library(folder / "libtoy_torch.so", script, toy.BUILD_ID)


def test_a_good_library_passes(good: Path) -> None:
    check(good, RULES)
    assert soname_of(good.read_bytes()) == "libtoy_torch.so"


def test_extra_and_missing_exports(good: Path, tmp_path: Path) -> None:
    out = tmp_path / "libtoy_torch.so"
    leaky = toy.plain_library(out, toy.BUILD_ID, compile_flags=("-g0", "-fPIC"))
    assert exported_symbols(leaky) == {"lta_add", "lta_version", "more"}
    with pytest.raises(WrongExportsError) as caught:
        check(leaky, replace(RULES, exports=frozenset(("lta_add", "lta_version", "lta_run"))))
    assert caught.value.render() == (
        f"{leaky}: error: the library does not export exactly the C API\n"
        "  expected: the 3 functions of the C API\n"
        "  seen:     1 missing: lta_run; 1 too many: more\n"
        "  do:       check the version script and -fvisibility=hidden"
    )


def test_another_processor(good: Path) -> None:
    with pytest.raises(WrongMachineError) as caught:
        check(good, replace(RULES, processor="arm64"))
    assert caught.value.expected == "EM_AARCH64, 64 bits (arm64)"
    assert caught.value.seen == "EM_X86_64, 64 bits"


def test_a_real_other_processor(tmp_path: Path) -> None:
    library = toy.plain_library(
        tmp_path / "x.so",
        toy.version_script(tmp_path),
        toy.BUILD_ID,
        target="aarch64-linux-musl",
    )
    check(library, replace(RULES, processor="arm64"))


def test_another_soname(good: Path) -> None:
    with pytest.raises(WrongSonameError) as caught:
        check(good, replace(RULES, soname="libother_torch.so"))
    assert caught.value.seen == "libtoy_torch.so"


def test_small_pages_for_android(good: Path) -> None:
    with pytest.raises(SmallAlignmentError) as caught:
        check(good, replace(RULES, page_size=0x4000))
    assert (caught.value.expected, caught.value.seen) == ("at least 0x4000", "0x1000")


def test_large_pages_pass(tmp_path: Path) -> None:
    flags = (toy.version_script(tmp_path), toy.BUILD_ID, "-Wl,-z,max-page-size=16384")
    library = toy.plain_library(tmp_path / "libtoy_torch.so", *flags)
    check(library, replace(RULES, page_size=0x4000))


def test_foreign_library_and_run_path(tmp_path: Path) -> None:
    other = toy.plain_library(tmp_path / "libother.so", soname="libother.so")
    library = toy.plain_library(
        tmp_path / "libtoy_torch.so",
        toy.version_script(tmp_path),
        toy.BUILD_ID,
        "-Wl,--no-as-needed",
        str(other),
        "-Wl,-rpath,/home/me/lib",
    )
    found = violations(library, RULES)
    assert [type(error) for error in found] == [ForeignLibraryError, RunPathError]
    assert [error.seen for error in found] == ["libother.so", "/home/me/lib"]
    with pytest.raises(ForeignLibraryError) as caught:
        check(library, RULES)
    assert caught.value.details == "also:\nthe library carries a search path: /home/me/lib"


def test_text_relocations(good: Path, tmp_path: Path) -> None:
    """zig links none: the tag of DT_HASH is made into DT_TEXTREL's."""
    data = good.read_bytes()
    changed = tmp_path / "libtoy_torch.so"
    entry = (4).to_bytes(8, "little")
    start = data.index(entry + (section_address(good, ".hash")).to_bytes(8, "little"))
    changed.write_bytes(data[:start] + (22).to_bytes(8, "little") + data[start + 8 :])
    with pytest.raises(TextRelocationError) as caught:
        check(changed, RULES)
    assert caught.value.hint == "compile every unit with -fPIC"


def section_address(path: Path, name: str) -> int:
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(name)
        assert section is not None
        return int(section["sh_addr"])


@pytest.mark.parametrize("data", [b"", b"!<arch>\n", b"\x7fELF"])
def test_what_is_not_elf(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(data)
    with pytest.raises(NotElfError) as caught:
        check(path, RULES)
    assert str(caught.value.place) == str(path)


def test_an_object_file_is_not_a_library(tmp_path: Path) -> None:
    toy.plain_library(tmp_path / "x.so")
    with pytest.raises(NotElfError) as caught:
        check(tmp_path / "x.o", RULES)
    assert caught.value.seen == "an ELF file of type ET_REL"
