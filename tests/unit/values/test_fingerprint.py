"""Fingerprints: content, canonical, and explained by the same parts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.values.fingerprint import explain, fingerprint, text_digest

PARTS = {"unit": "a.cpp", "flags": ("-Os", "-DA"), "projection": None, "runtime": "r"}


def test_a_fingerprint_is_the_sha256_of_canonical_json() -> None:
    text = '{"flags":["-Os","-DA"],"projection":null,"runtime":"r","unit":"a.cpp"}'
    assert fingerprint(PARTS) == text_digest(text)
    assert fingerprint(PARTS) == "162601b6fe0d316d9feeb9f4d5ee9523565e7d6c72bbfe02ac1a4dd25eb084ec"


@settings(deadline=None)
@given(st.permutations(sorted(PARTS)))
def test_the_order_of_parts_does_not_matter(order: list[str]) -> None:
    assert fingerprint({name: PARTS[name] for name in order}) == fingerprint(PARTS)


@pytest.mark.parametrize(
    "changed",
    [
        {"unit": "b.cpp"},
        {"flags": ("-DA", "-Os")},
        {"flags": ("-Os -DA",)},
        {"projection": "p"},
        {"runtime": ""},
        {"more": ""},
    ],
)
def test_every_part_counts(changed: dict[str, object]) -> None:
    assert fingerprint(PARTS | changed) != fingerprint(PARTS)


def test_the_explanation_names_what_differs() -> None:
    new = {"unit": "a.cpp", "flags": ("-O2",), "projection": "p", "toolchain": "t"}
    assert explain(PARTS, new) == [
        "flags: ('-Os', '-DA') -> ('-O2',)",
        "projection: None -> p",
        "runtime: r -> None",
        "toolchain: None -> t",
    ]
    assert explain(PARTS, PARTS) == []


values = st.dictionaries(st.sampled_from("abc"), st.text() | st.tuples(st.text()), max_size=3)


@settings(deadline=None)
@given(values, values)
def test_equal_fingerprints_have_no_explanation(a: dict[str, object], b: dict[str, object]) -> None:
    assert (fingerprint(a) == fingerprint(b)) == (explain(a, b) == [])
