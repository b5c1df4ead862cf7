"""A development library whose shards are made of nothing; its store, files and locks are real.

`work` is what a process does that can be killed: it makes shards of some keys in a workspace, in
two halves and slowly, opens each as a model's process does, and tells whether it held what it must.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from core_toy import ROOT
from toy_workspace import toy_context, toy_runtime

from orchestrator.build.development import development, shard_files
from orchestrator.build.development.addon_link import AddonObjects
from orchestrator.build.development.development import Development
from orchestrator.build.development.shard_files import forget_old, in_use
from orchestrator.build.workshop.invocation import invocation
from orchestrator.load.workspace import load_workspace
from orchestrator.system.folders import ensure_folder
from orchestrator.system.workspace_lock import workspace_lock

KEY = 64 * "a"
CONTENT = b"\x7fELF" + bytes(range(200)) * 50
# So many keys there are.
KEYS = 24
_DECLARED = load_workspace(ROOT, {"HOME": "/"})


def key(number: int) -> str:
    return hashlib.sha256(b"key %d" % number).hexdigest()


def content(number: int) -> bytes:
    """What the shard of a key must hold."""
    return b"\x7fELF" + hashlib.sha256(b"content %d" % number).digest() * 4000


class Toy:
    """The development library of a workspace, and how often a shard was made."""

    def __init__(self, root: Path, cache: Path, content: bytes = CONTENT) -> None:
        self.said: list[str] = []
        self.made = 0
        self.content = content
        # as many processes make these at once, none of them writes declarations
        here = invocation(
            _DECLARED,
            toy_context(root, cache=cache, state=root / "state"),
            self.said.append,
            found={"linux-x86_64": cast(Any, SimpleNamespace(abi="linux-x86_64"))},
        )
        self.library = Development(here, toy_runtime(), None, cast(Any, None))
        self.library.__dict__["base"] = SimpleNamespace(extended=None)
        self.state = root / "state"
        self.path = self.place("a")

    def place(self, name: str) -> Path:
        """Where a workspace has a shard."""
        return self.state / f"development/shards/libdevelopment_{name}.so"

    def link(self, *words: Any, as_tracer: bool) -> Path:
        assert as_tracer
        self.made += 1
        out = cast(Path, words[-1]) / "made.so"
        out.write_bytes(self.content)
        return out

    def put(self, name: str = KEY, path: Path | None = None) -> int | None:
        """Have the shard; how many units were compiled, or None where it came from the store."""
        vars(development).update(
            compile_objects=lambda *_: 7 * ("a.cpp",),
            lacks_of_cxx=lambda *_: None,
            link_addon=self.link,
        )
        nothing = AddonObjects((), (), (), {}, frozenset())
        now = list[str]()
        stored = self.library._put(name, path or self.path, nothing, now)
        return None if stored else len(now)


class Slow(Toy):
    """Links slowly: it can be killed in the middle."""

    def link(self, *words: Any, as_tracer: bool) -> Path:
        out = cast(Path, words[-1]) / "made.so"
        with out.open("xb") as file:
            for half in (self.content[:70_000], self.content[70_000:]):
                file.write(half)
                file.flush()
                time.sleep(0.004)
        return out


def use(toy: Toy, number: int) -> bool:
    """Have a shard and open it, as `run` does: whether it held what it must."""
    toy.content = content(number)
    path = toy.place(key(number)[:40])
    with ExitStack() as held:
        with workspace_lock(toy.state, True, lambda _: None, "toy"):
            toy.put(key(number), path)
            os.utime(path)
            forget_old(path.parent)
            held.enter_context(in_use(path))
        time.sleep(0.002)
        return path.read_bytes() == content(number)


def work(root: Path, cache: Path, seed: str, count: int, told: Connection) -> None:
    """Make and open `count` shards; what happens is told line by line, at last `done`."""
    ensure_folder(cache, "cache")
    # so that a workspace lets shards go all the time
    vars(shard_files)["_MOST"] = 3
    toy, rng = Slow(root, cache), random.Random(seed)
    told.send("begun")
    for _ in range(count):
        number = rng.randrange(KEYS)
        told.send(f"{number} {'right' if use(toy, number) else 'wrong'}")
    for line in toy.said:
        told.send(line)
    told.send("done")
