"""What Python calls an app's packages: held against `packaging`, which pip uses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from orchestrator.values.config.forms import PACKAGE, VERSION
from orchestrator.values.packages import python_name, python_version

LETTERS = st.sampled_from(
    ["a", "b", "c", "rc", "alpha", "beta", "pre", "preview", "post", "rev", "r", "dev", "x", "RC"]
)
PARTS = st.lists(st.one_of(LETTERS, st.sampled_from([".", "", "0", "01", "12"])), max_size=6)


def as_packaging(text: str) -> str | None:
    try:
        return str(Version(text))
    except InvalidVersion:
        return None


@given(st.from_regex(VERSION, fullmatch=True))
def test_every_version_that_an_app_may_have(text: str) -> None:
    assert python_version(text) == as_packaging(text)


@given(st.sampled_from(["1", "1.02", "0.1.0"]), st.sampled_from(["", "-", "+", "~"]), PARTS)
def test_versions_of_parts(release: str, sign: str, parts: list[str]) -> None:
    text = release + sign + "".join(parts)
    assert python_version(text) == as_packaging(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.2.0", "1.2.0"),
        ("01.2", "1.2"),
        ("1.2.0-rc1", "1.2.0rc1"),
        ("1.2.0-alpha", "1.2.0a0"),
        ("1.2.0-1", "1.2.0.post1"),
        ("1.2.0-rc1.dev2", "1.2.0rc1.dev2"),
        ("1.2.0+Ubuntu.01", "1.2.0+ubuntu.1"),
        ("1.2.0~rc1", None),
        ("1.2.0-final", None),
    ],
)
def test_versions(text: str, expected: str | None) -> None:
    assert python_version(text) == expected


@given(st.from_regex(PACKAGE, fullmatch=True).filter(lambda text: python_name(text) is not None))
def test_a_name_is_that_of_the_package_index(text: str) -> None:
    name = python_name(text)
    assert name == canonicalize_name(text, validate=True).replace("-", "_")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("camera-libtorch", "camera_libtorch"),
        ("the.camera--app", "the_camera_app"),
        ("g++", None),
        ("camera-", None),
        ("2d-libtorch", None),
        ("calendar", None),
        ("numpy", None),
        ("class", None),
    ],
)
def test_names(text: str, expected: str | None) -> None:
    assert python_name(text) == expected
