"""The kernel tags that units compute: the facts against PyTorch's source."""

from __future__ import annotations

import re

import pytest
from core_toy import real_runtime
from shipped_index import VERSION

from orchestrator.pytorch.dialects import load_version

pytestmark = pytest.mark.real


def test_computed_tags_are_those_in_the_sources() -> None:
    """The constants that these units switch with."""
    tree = real_runtime().fetched.tree
    constant = re.compile(r'constexpr (?:auto|const char ?\*)\s*(?:op|fn)_name\s*=\s*"(\w+)"')
    for path, tags in load_version(VERSION).computed_tags.items():
        assert tuple(sorted({*constant.findall((tree / path).read_text())})) == tags
