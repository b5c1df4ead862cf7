"""How a runtime index is made, and made for the first time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from core_toy import real_runtime, this_checkout
from toy_workspace import toy_runtime

from orchestrator.build.indexing import make_index
from orchestrator.build.indexing.make_index import PreprocessingFailedError, _mentions, index_spec
from orchestrator.build.workshop import runtime as runtime_module
from orchestrator.build.workshop import runtime_index
from orchestrator.index.model import IndexUnreadableError, UnitFacts


def test_a_versions_first_index_is_compiled_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    here = this_checkout()
    with_index = index_spec(here, real_runtime())

    def unreadable(*_: object) -> NoReturn:
        raise IndexUnreadableError("there is no index yet")

    monkeypatch.setattr(runtime_index, "load_index", unreadable)
    monkeypatch.setattr(runtime_module, "load_entry", unreadable)
    with pytest.raises(IndexUnreadableError):
        _ = real_runtime().kernels
    assert index_spec(here, real_runtime()) == with_index
    assert (with_index.entry, with_index.lto, with_index.features) == (frozenset(), False, ())


def test_a_unit_that_cannot_be_preprocessed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = ["sh", "-c", "echo \"no 'toy.h'\" >&2; exit 1"]
    monkeypatch.setattr(make_index, "_preprocessor", lambda *_: failing)
    spec: Any = SimpleNamespace()
    with pytest.raises(PreprocessingFailedError) as caught:
        list(_mentions(this_checkout(), toy_runtime(), spec, [UnitFacts("native/Toy.cpp", 1)]))
    assert caught.value.render() == (
        "error: native/Toy.cpp cannot be preprocessed\n"
        "  do:       name what it needs in the version's data, or leave it out: `without`\n"
        "  | no 'toy.h'"
    )
