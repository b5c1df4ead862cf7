"""Headers of ours that a single unit of PyTorch's reads first."""

from __future__ import annotations

from pathlib import Path

from orchestrator.build.native import NATIVE, header_texts
from orchestrator.build.prepare import own_headers_of
from orchestrator.libraries.features import headers_of_units
from orchestrator.pytorch.dialects import load_version

VERSION = load_version("1.13.1")


def test_a_headers_texts_are_its_own_and_those_that_it_includes_in_quotes(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#include <vector>\n#include "b.h"\n#include "c.h"\n')
    (tmp_path / "b.h").write_text('#pragma once\n#include "c.h"\n')
    (tmp_path / "c.h").write_text('int c;\n// #include "no.h"\n')
    texts = header_texts(tmp_path / "a.h")
    assert texts[0].startswith("#include <vector>")
    assert sorted(texts[1:]) == ['#pragma once\n#include "c.h"\n', 'int c;\n// #include "no.h"\n']


def test_what_all_checks_share_is_in_each_digest() -> None:
    shared = (NATIVE / "capi/model_checks.h").read_text()
    checked = {rule.header for rule in VERSION.include if "checked_" in rule.header}
    assert checked == {f"capi/{path.name}" for path in (NATIVE / "capi").glob("checked_*.h")}
    for header in checked - {"capi/checked_sizes.h"}:  # it checks no model
        assert shared in header_texts(NATIVE / header), header
    digests = {header.digest for header in own_headers_of(VERSION).values()}
    wanted = {rule.header for rule in VERSION.include} | {*headers_of_units().values()}
    assert len(digests) == len(wanted)
