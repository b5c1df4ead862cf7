"""Every app for every ABI in one graph: the steps that measure the workspace, not one variant."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import scratch
from benchmarks.other_runtime import moved_workspace
from benchmarks.processes import CommandFailedError
from orchestrator.cache.store import ObjectStore
from orchestrator.values.labels import VariantLabel

if TYPE_CHECKING:
    from benchmarks.steps import Bench

ABIS: Final = ("linux-x86_64", "linux-arm64", "android-arm64-v8a", "ios-arm64")


def everywhere_step(bench: Bench, first: str, added: str) -> dict[str, Any]:
    """All apps for all of ABIS from an empty cache, in two builds: `first` for all of them, then
    the rest; one operator added to `first` for all of them between the two; and again nothing.
    At the end `first` on the other runtime, which is not counted, and one operator added there.

    added: the app whose model has that operator, and whose runtime is the other one
    """
    workspace = _for_all_abis(bench.new_workspace("everywhere-workspace"))
    cache = bench.new_cache("everywhere-cache")
    begun = _build(bench, workspace, cache, f"//apps/{first}")
    operator = _operator(bench, workspace, cache, first)
    ended = _build(bench, workspace, cache, "//...")
    nothing = bench.nothing(workspace, cache, "//...")
    other = bench.runtime_of(added)
    moved = _for_all_abis(moved_workspace(bench, first, other, "everywhere-moved"))
    _build(bench, moved, cache, f"//apps/{first}")
    return {
        "abis": ABIS,
        "variants": ended["variants"],
        "verified": ended["verified"],
        "actions_run": begun["actions_run"] + ended["actions_run"],
        "user_seconds": begun["user_seconds"] + ended["user_seconds"],
        "wall_seconds": begun["wall_seconds"] + ended["wall_seconds"],
        "peak_bytes": max(begun["peak_bytes"], ended["peak_bytes"]),
        "operator": operator,
        "nothing": nothing,
        "other_runtime": {
            "runtime": other,
            "operator": _operator(bench, moved, cache, first, other),
        },
    }


def checkout_step(bench: Bench) -> dict[str, Any]:
    """Every app for its own ABIs in a second workspace, on the user's cache: what it lacks, a build
    in a first workspace makes before, which is not counted."""
    cache = bench.here.context.cache
    _build(bench, bench.new_workspace("checkout-first"), cache, "//...")
    second = bench.new_workspace("checkout-second")
    return {
        **_build(bench, second, cache, "//..."),
        "checking": _checking(second / ".orchestrator", cache),
    }


def _checking(state: Path, cache: Path) -> dict[str, Any]:
    """What it costs a build to compare every object and precompiled header that it uses with its
    digest: the same call again, with all of them in the workspace already."""
    store = ObjectStore((cache,))
    files = [path for kind in ("objects", "pch") for path in (state / kind).rglob("*")]
    there = {path.relative_to(state).as_posix(): path for path in files if path.is_file()}
    kept = {name: there[name] for name in store.listed(there)}
    begun = time.process_time()
    restored = store.restore(kept)
    seconds = time.process_time() - begun
    if restored.present != frozenset(kept):
        raise CommandFailedError("objects of the workspace are damaged", seen=str(restored.damaged))
    total = sum(path.stat().st_size for path in kept.values())
    return {"objects": len(kept), "bytes": total, "cpu_seconds": seconds}


def _for_all_abis(workspace: Path) -> Path:
    """The workspace, with all of its apps for all of ABIS."""
    for declaration in sorted(workspace.glob("apps/*/app.yaml")):
        scratch.edit_app(declaration, {"targets": list(ABIS)})
    return workspace


def _build(bench: Bench, workspace: Path, cache: Path, *labels: str) -> dict[str, Any]:
    cost, told = bench.orchestrate(workspace, cache, "build", *labels, "--json")
    report = json.loads(told)
    rows = report["variants"]
    return {
        **asdict(cost),
        "actions_run": report["actions_run"],
        "variants": len(rows),
        "units_compiled": sum(row["units_compiled"] for row in rows),
        "verified": {
            str(VariantLabel(r["app"], r["abi"])): r["made_as"] or r["verified"] for r in rows
        },
    }


def _operator(
    bench: Bench, workspace: Path, cache: Path, first: str, runtime: str = ""
) -> list[dict[str, Any]]:
    """The cost of one operator more for each ABI; what these builds make is removed again.

    runtime: the one that `first` is cut from there; empty: its own
    """
    changed = bench.with_operator(workspace, f"{workspace.name}-operator", runtime)
    known = scratch.made_files(cache)
    costs = [{"abi": abi, **_build(bench, changed, cache, f"//apps/{first}:{abi}")} for abi in ABIS]
    scratch.forget(cache, known)
    return costs
