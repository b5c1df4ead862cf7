"""Headers and linked files of a system's compiler decide about its identity: with a real gcc."""

from __future__ import annotations

from pathlib import Path

from orchestrator.compilers.brought import brought_digest, brought_files
from orchestrator.system.process import LOCAL


def test_what_gcc_brings() -> None:
    files = brought_files("g++", (), LOCAL)
    names = {path.name for path in files}
    assert {"vector", "unistd.h", "immintrin.h", "libgcc.a", "crtbeginS.o", "crti.o"} <= names
    # of functions that check their calls, of C alone, of intrinsics that units name
    assert {"stdio2.h", "pthread_stack_min.h", "x86intrin.h", "assert.h"} <= names
    assert list(files) == sorted(files)
    assert all(path.is_file() for path in files)


def test_another_header_is_another_compiler(tmp_path: Path) -> None:
    """One that shadows the system's, in a folder with a blank; its path does not matter."""

    def digest(folder: str, text: str) -> str:
        header = tmp_path / folder / "sched.h"
        header.parent.mkdir(exist_ok=True)
        header.write_text(text)
        brought_files.cache_clear()
        brought_digest.cache_clear()
        files = brought_files("g++", (f"-isystem{header.parent}",), LOCAL)
        assert header in files
        return brought_digest(files)

    one = digest("a b", "#include_next <sched.h>\n")
    assert digest("a b", "#include_next <sched.h>\n") == one
    assert digest("other", "#include_next <sched.h>\n") == one
    assert digest("a b", "#include_next <sched.h>\nextern int more;\n") != one


def test_a_compiler_that_does_not_tell() -> None:
    assert brought_files("true", (), LOCAL) == ()
