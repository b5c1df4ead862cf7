"""Fingerprints: content, canonical, over named parts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.values.fingerprint import Identity, fingerprint, fingerprint_but, text_digest

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


def test_another_identity_counts_by_its_digest() -> None:
    inner = Identity(PARTS)
    assert inner.digest == fingerprint(PARTS)
    assert Identity({"of": inner, "x": "y"}).digest == fingerprint({"of": inner.digest, "x": "y"})
    assert Identity({"members": (inner,)}).digest == fingerprint({"members": [inner.digest]})


def test_what_has_no_canonical_form_is_no_part() -> None:
    with pytest.raises(TypeError, match=r"no part of an identity: \{1\}"):
        fingerprint({"a": {1}})


values = st.dictionaries(st.sampled_from("abcxyz"), st.text() | st.tuples(st.text()), max_size=3)


@settings(deadline=None)
@given(values, st.text())
def test_one_part_more_is_hashed_the_same_way(parts: dict[str, object], value: str) -> None:
    assert fingerprint_but(parts, "n")(value) == fingerprint({**parts, "n": value})
