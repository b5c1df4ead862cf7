"""A build of small objects, as a process that can be killed: toy_build.py <root> <cache> <count>.

The compiler is a script that takes its time and writes in two halves. All else is a build's own:
the store, the ninja file, ninja.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from orchestrator.system.interrupts import ends_the_process

sys.path.insert(1, str(Path(__file__).parents[1] / "support"))
with ends_the_process():
    from core_toy import ROOT
    from toy_workspace import toy_invocation, toy_runtime

    from orchestrator.build.executing.execute import execute_actions
    from orchestrator.errors import OrchestratorError
    from orchestrator.system.folders import ensure_folder
    from orchestrator.system.workspace_lock import workspace_lock
    from orchestrator.values.action import ActionGraph, Compile, Link

ABI = "linux-x86_64"
_COMPILER = """\
#!/bin/sh
for argument in "$@"; do
  case "$previous" in -o) out="$argument" ;; -MF) : > "$argument" ;; -c) source="$argument" ;; esac
  previous="$argument"
done
printf 'first half of ' > "$out" && sleep 0.02 && cat "$source" >> "$out"
"""
_LINKER = """\
#!/bin/sh
for argument in "$@"; do
  case "$previous" in -o) out="$argument" ;; esac
  previous="$argument"
done
for argument in "$@"; do case "$argument" in *.o) cat "$argument" || exit 1 ;; esac; done > "$out"
"""


class View:
    """Shows nothing."""

    def __enter__(self) -> View:
        return self

    def __exit__(self, *raised: object) -> None: ...

    def feed(self, line: str) -> None: ...


def library(root: Path) -> Path:
    """What a build of `root` makes."""
    return root / "state/library.so"


def expected(count: int) -> str:
    """What must be in it."""
    return "".join(f"first half of source {number}\n" for number in range(count))


def build(root: Path, cache: Path, count: int) -> None:
    """Compile `count` sources and link them."""
    ensure_folder(cache, "cache")
    state = ensure_folder(root / "state", "state")
    tools, tree = root / "tools", root / "tree"
    for path, text in {
        root / "WORKSPACE": (ROOT / "WORKSPACE").read_text(),
        tools / "cxx": _COMPILER,
        tools / "link": _LINKER,
        tools / "both": f'#!/bin/sh\ncase "$1" in -shared) exec "{tools}/link" "$@" ;; esac\n'
        f'exec "{tools}/cxx" "$@"\n',
        **{tree / f"{number}.cpp": f"source {number}\n" for number in range(count)},
    }.items():
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            # whole, or not there: a full disk must not leave half of a compiler
            part = path.with_name(path.name + ".part")
            part.write_text(text)
            part.chmod(0o755)
            part.rename(path)
    folders = {"cache": str(cache), "state": str(state), "tree": str(tree), "pch": f"{state}/pch"}

    toolchain: Any = SimpleNamespace(
        **dict.fromkeys(("cxx", "cc", "ar"), tools / "both"),
        driver=SimpleNamespace(link_inputs=""),
        config=SimpleNamespace(link_flags=()),
        link_flags=(),
        version="toy",
        identity="toy",
    )
    here = toy_invocation(
        root,
        cache=cache,
        state=state,
        env=os.environ,
        log=print,
        ready=[toy_runtime(folders=folders)],
        found={ABI: toolchain},
    )
    actions = [
        Compile(f"{n}.cpp", f"$tree/{n}.cpp", "c++", ABI, (), "p", f"{n:064x}", 1.0)
        for n in range(count)
    ]
    objects = tuple(action.object for action in actions)
    link = Link("$state/library.so", "shared", ABI, objects, ())
    with workspace_lock(state, wait=True, on_wait=print):
        execution = execute_actions(
            here,
            ActionGraph({action.object: action for action in actions}, (link,)),
            {"$cache/projections/p.h": "// a projection\n"},
            name="build",
            jobs=4,
            keep_going=False,
            view=lambda costs, jobs: View(),
        )
    if execution.result.failures:
        print(execution.result.failures)
        raise SystemExit(1)


if __name__ == "__main__":
    try:
        build(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except OrchestratorError as error:
        print(error.render())
        raise SystemExit(1) from None
    except OSError as error:  # of the compiler's own files
        print(error)
        raise SystemExit(1) from None
