"""What each engine of kernels takes of a library: by the functions that a link keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from zig_tool import zig

from orchestrator.binary.elf import NotElfError
from orchestrator.binary.elf_symbols import placed_symbols
from orchestrator.build.explaining.engines import engine_bytes

FLAGS = ("-O2", "-g0", "-fPIC", "-ffunction-sections", "-fno-sanitize=all")
SOURCES = {
    # 12 bytes of data, and a function that the link drops
    "fast": "int fast_table[3] = {1, 2, 3};\nvoid fast_dropped(void) { fast_table[0] = 0; }\n",
    "other": "static int other_table[5] = {1};\nint *other(int n) { return other_table + n; }\n",
    # `both` is as an inline function is: what the linker keeps of it is nobody's
    "rest": "extern int fast_table[3];\nint *other(int);\n"
    "__attribute__((weak)) int both[7] = {1};\n"
    "int lta_one(int n) { return fast_table[n] + *other(n) + both[n]; }\n",
}


def linked(folder: Path) -> tuple[Path, dict[str, Path]]:
    objects = {name: folder / f"{name}.o" for name in SOURCES}
    for name, text in SOURCES.items():
        (folder / f"{name}.c").write_text(text)
        zig("cc", *FLAGS, "-c", folder / f"{name}.c", "-o", objects[name])
    script = folder / "names.map"
    script.write_text("{ global: lta_*; local: *; };\n")
    library = folder / "names.so"
    link = ("-shared", "-O2", "-Wl,--gc-sections", f"-Wl,--version-script={script}")
    zig("cc", *link, *objects.values(), "-o", library)
    return library, objects


def test_what_the_link_keeps_of_an_engines_objects_is_its(tmp_path: Path) -> None:
    library, objects = linked(tmp_path)
    found = engine_bytes(library, {"fast": [objects["fast"]], "none": []})
    assert found == {"fast": 12, "none": 0}
    other = engine_bytes(library, {"other": [objects["other"]]})["other"]
    assert 20 < other < 60  # the table and the function
    bytes_of = {symbol.name: symbol.bytes for symbol in placed_symbols(library)}
    assert bytes_of["both"] == 28
    rest = engine_bytes(library, {"rest": [objects["rest"]]})
    assert rest == {"rest": bytes_of["lta_one"]}
    # of what is defined twice, the first engine's
    twice = engine_bytes(library, {"a": [objects["other"]], "b": [objects["other"]]})
    assert twice == {"a": other, "b": 0}


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(NotElfError):
        engine_bytes(tmp_path / "text.so", {})
