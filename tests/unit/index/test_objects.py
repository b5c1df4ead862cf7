"""Reading objects: sections, what they define and refer to; compiled here, by our own zig."""

from __future__ import annotations

from pathlib import Path

import pytest
from core_toy import compile_text
from zig_tool import HOST_TARGET, zig

from orchestrator.index.objects import ObjectFacts, ObjectUnreadableError, Section, read_object

ARM = "aarch64-linux-gnu.2.28"
TEXT = """\
extern "C" int outside(const char*);
inline int shared_inline(int x) { static int calls; return outside("inline") + calls++ + x; }
static int local_table[3] = {1, 2, 3};
extern "C" int user(int x) { local_table[x & 1]++; return shared_inline(x) + local_table[x]; }
struct Init { Init(); };
static Init init;
template <class T> struct Box { static T value; T get() { return value; } };
template <class T> T Box<T>::value = 7;
extern "C" int boxed() { return Box<int>().get(); }
extern "C" const char* const names[] = {"one", "two"};
struct Guard { ~Guard() { outside("gone"); } };
extern "C" int thrower() { Guard guard; return outside("called"); }
extern "C" __attribute__((weak)) int weakling() { return 1; }
"""


@pytest.fixture(scope="module", params=[HOST_TARGET, ARM], ids=["x86_64", "arm64"])
def facts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ObjectFacts:
    folder = tmp_path_factory.mktemp("objects")
    return read_object(compile_text(folder, "sample", TEXT, request.param))


def section(facts: ObjectFacts, name: str) -> Section:
    (found,) = [one for one in facts.sections.values() if one.name == name]
    return found


def symbols(section: Section) -> set[str]:
    return {reference.symbol for reference in section.references if not reference.section}


def strings(facts: ObjectFacts, section: Section) -> set[str | None]:
    found = {facts.string_at(r.section, r.addend) for r in section.references if r.section}
    return found - {None}


def test_functions_and_what_they_refer_to(facts: ObjectFacts) -> None:
    user = section(facts, ".text.user")
    assert user.defines == ("user",)
    assert not user.comdat
    assert user.size > 0
    assert symbols(user) == {"outside"}
    assert {r.symbol for r in user.references if r.call} == {"outside"}
    assert strings(facts, user) == {"inline"}
    targets = {facts.sections[r.section].name for r in user.references if r.section}
    assert {".data._ZL11local_table", ".bss._ZZ13shared_inlineiE5calls"} <= targets


def test_what_the_linker_keeps_one_of(facts: ObjectFacts) -> None:
    comdat = {name for one in facts.sections.values() if one.comdat for name in one.defines}
    assert {"_ZN3BoxIiE5valueE", "_ZZ13shared_inlineiE5calls", "__clang_call_terminate"} <= comdat
    assert section(facts, ".data._ZN3BoxIiE5valueE").defines == ("_ZN3BoxIiE5valueE",)


def test_symbols_that_others_may_refer_to(facts: ObjectFacts) -> None:
    names = {name: facts.sections[at].name for name, at in facts.global_symbols.items()}
    assert names == {
        "boxed": ".text.boxed",
        "names": ".data.rel.ro.names",
        "thrower": ".text.thrower",
        "user": ".text.user",
    }
    assert {"_ZN3BoxIiE5valueE", "weakling"} <= facts.weak_symbols.keys()
    assert "_ZL11local_table" not in facts.global_symbols | facts.weak_symbols


def test_static_initialisers(facts: ObjectFacts) -> None:
    (init,) = [one for one in facts.sections.values() if one.init]
    (reference,) = init.references
    startup = facts.sections[reference.section]
    assert "_ZN4InitC1Ev" in symbols(startup)


def test_exception_tables_stand_beside_their_functions(facts: ObjectFacts) -> None:
    table = section(facts, ".gcc_except_table.thrower")
    assert table.size > 0
    assert "_Unwind_Resume" in symbols(section(facts, ".text.thrower"))


def test_constant_arrays_name_their_strings_in_order(facts: ObjectFacts) -> None:
    array = section(facts, ".data.rel.ro.names")
    assert [r.offset for r in array.references] == [0, 8]
    assert [facts.string_at(r.section, r.addend) for r in array.references] == ["one", "two"]


def test_marks_of_code_and_data_are_no_symbols(facts: ObjectFacts) -> None:
    assert not [n for one in facts.sections.values() for n in one.defines if n.startswith("$")]


def test_strings_are_only_where_strings_are(facts: ObjectFacts) -> None:
    text = section(facts, ".text.user").index
    (data,) = facts.strings.values()
    assert facts.string_at(text, 0) is None
    (index,) = facts.strings
    assert facts.string_at(index, -1) is None
    assert facts.string_at(index, len(data)) is None


def unreadable(path: Path) -> str | None:
    with pytest.raises(ObjectUnreadableError) as caught:
        read_object(path)
    assert caught.value.what == f"{path.name} is not an object that the index can read"
    assert caught.value.expected == "a little-endian ELF relocatable file"
    return caught.value.seen


def test_files_that_are_no_objects(tmp_path: Path) -> None:
    path = tmp_path / "x.o"
    path.write_bytes(b"")
    assert unreadable(path) == "Magic number does not match"
    path.write_text("int x;\n")
    assert unreadable(path) == "Magic number does not match"


def test_objects_for_32_bits(tmp_path: Path) -> None:
    source = tmp_path / "x.c"
    source.write_text("int y(void);\nint table = 1;\nint x(void) { return y() + table; }\n")
    out = tmp_path / "x.o"
    flags = ("-O2", "-g0", "-fPIC", "-ffunction-sections", "-fdata-sections")
    zig("cc", "-target", "arm-linux-musleabihf", *flags, "-c", source, "-o", out)
    facts = read_object(out)
    assert set(facts.global_symbols) == {"x", "table"}
    (text,) = (s for s in facts.sections.values() if s.name == ".text.x")
    assert text.defines == ("x",)
    assert {r.symbol for r in text.references if r.call} == {"y"}
    reached = {
        s.name for s in facts.sections.values() for r in text.references if r.section == s.index
    }
    assert ".data.table" in reached or any("GLOBAL" in r.symbol for r in text.references)


def test_linked_files(tmp_path: Path) -> None:
    source = tmp_path / "x.c"
    source.write_text("int x;\n")
    out = tmp_path / "x.o"
    flags = ("-target", HOST_TARGET, "-g0", "-fPIC", "-shared", "-nostdlib")
    zig("cc", *flags, source, "-o", out)
    assert unreadable(out) == "ET_DYN, 64 bits"


def test_a_truncated_object_is_never_a_bug_of_ours(tmp_path: Path) -> None:
    data = compile_text(tmp_path, "whole", TEXT).read_bytes()
    path = tmp_path / "cut.o"
    for length in range(0, len(data) - 1, 61):
        path.write_bytes(data[:length])
        assert unreadable(path)
