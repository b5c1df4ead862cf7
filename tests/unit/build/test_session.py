"""An invocation's own facts, without a workspace."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from orchestrator.build.session import Session


def test_a_folder_whose_name_looks_like_a_variable_is_not_filled_in_again() -> None:
    context: Any = SimpleNamespace()
    session = Session(context, lambda line: None)
    runtime: Any = SimpleNamespace(folders={"tree": "/home/$cache/tree", "cache": "/home/$tree"})
    session._found.prepared["pytorch"] = runtime
    filled = session.fill("-I$tree/aten -o $cache/x $other $trees")
    assert filled == "-I/home/$cache/tree/aten -o /home/$tree/x $other $trees"
