"""How a runtime index is made, and made for the first time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from core_toy import session

from orchestrator.build import make_index, prepare
from orchestrator.build.make_index import PreprocessingFailedError, _mentions, index_spec
from orchestrator.index.model import IndexUnreadableError, UnitFacts


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


def test_a_unit_that_cannot_be_preprocessed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = ["sh", "-c", "echo \"no 'toy.h'\" >&2; exit 1"]
    monkeypatch.setattr(make_index, "_preprocessor", lambda *_: failing)
    spec: Any = SimpleNamespace()
    with pytest.raises(PreprocessingFailedError) as caught:
        list(_mentions(session(), spec, [UnitFacts("native/Toy.cpp", 1)]))
    assert caught.value.render() == (
        "error: native/Toy.cpp cannot be preprocessed\n"
        "  do:       name what it needs in the version's data, or leave it out: `without`\n"
        "  | no 'toy.h'"
    )
