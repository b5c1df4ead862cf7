"""The runtimes of a workspace, found on first use."""

from __future__ import annotations

from pathlib import Path

from toy_workspace import toy_invocation, toy_runtime


def test_a_folder_whose_name_looks_like_a_variable_is_not_filled_in_again(tmp_path: Path) -> None:
    runtime = toy_runtime(folders={"tree": "/home/$cache/tree", "cache": "/home/$tree"})
    here = toy_invocation(tmp_path, ready=[runtime])
    for filled in (here.runtimes.fill, runtime.fill):
        found = filled("-I$tree/aten -o $cache/x $other $trees")
        assert found == "-I/home/$cache/tree/aten -o /home/$tree/x $other $trees"
