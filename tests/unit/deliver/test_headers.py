from __future__ import annotations

import pytest

from orchestrator.deliver.headers import (
    HeaderFile,
    MalformedDepfileError,
    ShadowedHeaderError,
    headers_from_depfile,
)

ROOTS = {"/src": "", "/src/aten/src": "", "/gen": "", "/third/fmt/include": "vendor"}


def test_headers_go_below_the_longest_root_sorted() -> None:
    text = (
        "unit.o: /work/unit.cpp \\\n"
        "  /src/torch/script.h /src/aten/src/ATen/Tensor.h \\\n"
        "  /gen/ATen/Functions.h /usr/include/stdio.h /third/fmt/include/fmt/core.h\n"
    )
    assert headers_from_depfile(text, ROOTS) == [
        HeaderFile("/gen/ATen/Functions.h", "ATen/Functions.h"),
        HeaderFile("/src/aten/src/ATen/Tensor.h", "ATen/Tensor.h"),
        HeaderFile("/src/torch/script.h", "torch/script.h"),
        HeaderFile("/third/fmt/include/fmt/core.h", "vendor/fmt/core.h"),
    ]


def test_one_header_named_in_two_ways_is_one() -> None:
    text = "unit.o: /src/a/b.h /src/a/../a/b.h /src/./a/b.h"
    assert headers_from_depfile(text, ROOTS) == [HeaderFile("/src/a/b.h", "a/b.h")]


def test_source_files_below_a_root_are_left_out() -> None:
    assert headers_from_depfile("u.o: /src/a.cpp /src/b.c /src/x.inc", ROOTS) == [
        HeaderFile("/src/x.inc", "x.inc")
    ]


def test_escapes_and_windows_line_ends() -> None:
    text = "unit.o: \\\r\n /src/a\\ b.h /src/c$$d.h /src/e\\#f.h\r\n"
    assert [header.destination for header in headers_from_depfile(text, ROOTS)] == [
        "a b.h",
        "c$d.h",
        "e#f.h",
    ]


def test_phony_rules_name_no_header_twice() -> None:
    assert headers_from_depfile("u.o: /src/a.h\n\n/src/a.h:\n", ROOTS) == [
        HeaderFile("/src/a.h", "a.h")
    ]


def test_two_sources_of_one_header_are_refused() -> None:
    with pytest.raises(ShadowedHeaderError) as caught:
        headers_from_depfile("u.o: /src/ATen/Config.h /gen/ATen/Config.h", ROOTS)
    assert caught.value.render() == (
        "error: two headers would go to include/ATen/Config.h\n"
        "  expected: one source for each header\n"
        "  seen:     /src/ATen/Config.h and /gen/ATen/Config.h"
    )


@pytest.mark.parametrize("text", ["", "no rule here"])
def test_what_is_not_a_depfile_is_refused(text: str) -> None:
    with pytest.raises(MalformedDepfileError) as caught:
        headers_from_depfile(text, ROOTS)
    assert caught.value.seen == repr(text)
