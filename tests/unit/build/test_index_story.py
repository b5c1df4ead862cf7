"""How a runtime index is made, and made for the first time."""

from __future__ import annotations

from typing import NoReturn

import pytest
from core_toy import session

from orchestrator.build import prepare
from orchestrator.build.make_index import index_spec
from orchestrator.index.model import IndexUnreadableError


def test_a_versions_first_index_is_compiled_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with_index = index_spec(session())

    def unreadable(*_: object) -> NoReturn:
        raise IndexUnreadableError("there is no index yet")

    monkeypatch.setattr(prepare, "load_index", unreadable)
    monkeypatch.setattr(prepare, "load_entry", unreadable)
    with pytest.raises(IndexUnreadableError):
        _ = session().kernels
    assert index_spec(session()) == with_index
    assert (with_index.entry, with_index.lto, with_index.features) == (frozenset(), False, ())
