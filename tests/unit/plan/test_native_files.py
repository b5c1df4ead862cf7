"""What of our own files an object depends on."""

from __future__ import annotations

import pytest

from orchestrator.plan.native_files import NativeFiles, native_files

TEXTS = {
    "capi/api.cpp": b'#include "api.h"\n#include <vector>\nint x;\n',
    "capi/api.h": b'  #  include "../memory/pool.h"  // of its own\n',
    "driver/main.cpp": b'#include "api.h"\n',
    "driver/other.cpp": b'// #include "api.h"\nconst char *text = "#include \\"api.h\\"";\n',
    "driver/named.cpp": b"#define NAME <api.h>\n#include NAME\n",
    "memory/pool.h": b'#pragma once\n#include "../capi/api.h"\n',
    "memory/pool.cpp": b"#include <memory/pool.h>\n",
    "other/pool.h": b"int other;\n",
}


def files(**changes: str) -> NativeFiles:
    renamed = {name.replace("__", "/").replace("_h", ".h"): t for name, t in changes.items()}
    return native_files(TEXTS | {name: text.encode() for name, text in renamed.items()})


@pytest.mark.parametrize(
    ("source", "read"),
    [
        # through a folder of its own, and round a circle
        ("capi/api.cpp", ["capi/api.cpp", "capi/api.h", "memory/pool.h"]),
        # by the include path, which is not looked at
        ("driver/main.cpp", ["capi/api.h", "driver/main.cpp", "memory/pool.h"]),
        # neither a comment nor a text includes anything
        ("driver/other.cpp", ["driver/other.cpp"]),
        # a macro may give any name
        ("driver/named.cpp", sorted(TEXTS)),
        ("memory/pool.cpp", ["capi/api.h", "memory/pool.cpp", "memory/pool.h"]),
    ],
)
def test_a_source_reads_what_it_may_include(source: str, read: list[str]) -> None:
    assert list(files().read_by(source)) == read


def test_a_name_in_several_folders_means_each() -> None:
    changed = native_files({**TEXTS, "x.cpp": b'#include "pool.h"\n'})
    assert {"memory/pool.h", "other/pool.h"} < changed.read_by("x.cpp").keys()


def test_the_digest_changes_with_what_is_read_and_nothing_else() -> None:
    before, after = files(), files(memory__pool_h="int pool;\n")
    changed = {path for path in TEXTS if before.digest_of(path) != after.digest_of(path)}
    assert changed == TEXTS.keys() - {"driver/other.cpp", "other/pool.h"}
    assert before.digest != after.digest
    assert before == files() != after


def test_a_source_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        files().digest_of("capi/none.cpp")
