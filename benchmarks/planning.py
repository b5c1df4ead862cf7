"""Measures how planning scales: a thousand generated apps for four ABIs, nothing compiled.

    .venv/bin/python -m benchmarks.planning
    .venv/bin/python -m benchmarks.planning --apps 125,250 --output trial

A generated app is a real `app.yaml`, a file in the model's place, and a trace whose operators are
drawn from those that the runtime registers: 20 to 120 root operators, most of them from one of 40
families of models, the rest at random. What is measured is `orchestrator plan //... --json` as a
user runs it, in a process of its own: reading declarations, models and traces, selections, units,
projections, fingerprints of every object, and the report. What it is not: registrations are not
generated (torchgen takes a second for each app), and the objects are not there.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.machine import compiler_name, machine_facts
from benchmarks.processes import CommandFailedError
from benchmarks.scratch import empty_cache
from benchmarks.written import write_results
from orchestrator.build.workshop.invocation import load
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.build.workshop.trace_identity import tracer_digest
from orchestrator.cli import make_context
from orchestrator.index.model import RuntimeIndex
from orchestrator.select.closure import Registry
from orchestrator.select.needs import needed
from orchestrator.system.folders import ensure_folder
from orchestrator.trace.lock import lock_path, lock_text
from orchestrator.values.trace import Trace, TraceIdentity

HERE = Path(__file__).parent
SEED: Final = 20261121
COUNTS: Final = (125, 250, 500, 1000)
FAMILIES: Final = 40
ABIS: Final = ("linux-x86_64", "linux-arm64", "android-arm64-v8a", "ios-arm64")
SECONDS: Final = 12.0
BYTES: Final = 600 * 10**6
# As in a real trace: most kernels run on floats, some on indices and masks.
_DTYPES: Final = (("Float",), ("Float", "Long"), ("Float", "Bool"), ("Long",))


@dataclass(frozen=True)
class Point:
    """One measurement: wall and CPU seconds, peak bytes of the process, and what it planned."""

    apps: int
    variants: int
    objects: int
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int


class Generator:
    """Draws apps' traces from a runtime; the same seed gives the same apps."""

    def __init__(self, index: RuntimeIndex, kernels: Registry, seed: int = SEED) -> None:
        self.index = index
        self.kernels = kernels
        self.source = random.Random(seed)
        self.operators = [
            name
            for name, found in sorted(kernels.by_operator.items())
            if name.startswith("aten::") and any(one.key != "schema" for one in found)
        ]
        self.families = [self.source.sample(self.operators, 110) for _ in range(FAMILIES)]

    def trace(self, app: str, identity: TraceIdentity) -> Trace:
        """The trace of one app's only model."""
        source = self.source
        count = source.randint(20, 120)
        family = source.choice(self.families)
        own = source.randint(1, 10)
        roots = {*family[: count - own], *source.sample(self.operators, own)}
        unrun = frozenset(source.sample(sorted(roots), source.choice((0, 0, 0, 1, 2))))
        ran = sorted(roots - unrun)
        reached = needed(self.index, self.kernels, entry=(), operators=ran, follow_calls=True)
        called = {*ran, *(o for o in sorted(reached.operators) if source.random() < 0.3)} - unrun
        units = needed(self.index, self.kernels, entry=(), operators=called, follow_calls=False)
        tags = sorted({tag for unit in units.units for tag in self.index.units[unit].tags})
        used = [tag for tag in tags if source.random() < 0.4]
        return Trace(
            app=app,
            model="model",
            identity=identity,
            root_operators=tuple(sorted(roots)),
            called_operators={name: source.randint(1, 50) for name in sorted(called)},
            kernel_tags={tag: dict.fromkeys(source.choice(_DTYPES), 1) for tag in used},
            hot_tags=tuple(used[:2]),
            outputs=hashlib.sha256(app.encode()).hexdigest(),
        )


def generated_workspace(root: Path, into: Path) -> tuple[str, ...]:
    """A workspace without apps, with the repository's toolchains for `ABIS`; returns their names.

    An ABI that the repository does not declare is stood in for by the host's compiler at another
    flag: it has other objects, as every ABI has.
    """
    (into / "toolchains").mkdir(parents=True)
    shutil.copy2(root / "WORKSPACE", into)
    host = yaml.safe_load((root / "toolchains" / f"{ABIS[0]}.yaml").read_text())
    for number, abi in enumerate(ABIS):
        file = root / "toolchains" / f"{abi}.yaml"
        value = host | {"abi": abi, "compile_flags": [f"-DABI={number}"]}
        text = file.read_text() if file.is_file() else yaml.safe_dump(value)
        (into / "toolchains" / f"{abi}.yaml").write_text(text)
    return ABIS


def add_app(workspace: Path, name: str, targets: Sequence[str], trace: Trace, model: bytes) -> None:
    """Write one app: declaration, model and trace."""
    folder = workspace / "apps" / name
    (folder / "models").mkdir(parents=True)
    (folder / "traces").mkdir()
    (folder / "models" / "model.ptl").write_bytes(model)
    declared = {"models": [{"file": "models/model.ptl"}], "targets": list(targets)}
    (folder / "app.yaml").write_text(yaml.safe_dump(declared, sort_keys=False))
    lock_path(folder, "model").write_text(lock_text(trace))


def archive(number: int, version: int) -> bytes:
    """A model file without a model: plans read no more of one than its archive's version."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, text in (("version", f"{version}\n"), ("number", str(number))):
            # without the time, so that the same apps are generated each time
            file.writestr(zipfile.ZipInfo(f"model/{name}"), text)
    return made.getvalue()


def add_apps(runtime: Runtime, workspace: Path, targets: Sequence[str], count: int) -> Any:
    """Generates apps one after another; each `next` after a number of apps brings that many."""
    generator = Generator(runtime.index, runtime.kernels)
    tracer = tracer_digest()
    for number in range(count):
        name, model = f"app{number:04}", archive(number, runtime.dialect.models.archive.stop - 1)
        identity = TraceIdentity(
            model=hashlib.sha256(model).hexdigest(),
            runtime=runtime.index.tree,
            inputs="bundled",
            backends=runtime.backends,
            tracer=tracer,
        )
        add_app(workspace, name, targets, generator.trace(name, identity), model)
        yield number + 1


def measure(workspace: Path, cache: Path, apps: int) -> Point:
    """Plan everything once. Raises CommandFailedError."""
    argv = [sys.executable, "-m", "orchestrator", "--workspace", str(workspace), "--quiet"]
    argv += ["plan", "//...", "--json"]
    env = {**os.environ, "ORCHESTRATOR_CACHE": str(cache)}
    with tempfile.TemporaryFile() as out:
        started = time.monotonic()
        pid = os.posix_spawn(
            argv[0], argv, env, file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1)]
        )
        _, status, usage = os.wait4(pid, 0)
        wall = time.monotonic() - started
        if os.waitstatus_to_exitcode(status):
            raise CommandFailedError("planning failed")
        out.seek(0)
        plan = json.load(out)
    return Point(
        apps=apps,
        variants=len(plan["variants"]),
        objects=plan["objects"],
        wall_seconds=round(wall, 2),
        cpu_seconds=round(usage.ru_utime + usage.ru_stime, 2),
        peak_bytes=usage.ru_maxrss * 1024,
    )


def render(results: Mapping[str, Any]) -> str:
    """PLANNING.md from planning.json."""
    lines = ["# Planning", "", "Written by `python -m benchmarks.planning`.", ""]
    lines += ["| apps | variants | objects | wall s | CPU s | ms an app | peak MB |"]
    lines += ["|---:" * 7 + "|"]
    for point in results["points"]:
        each = 1000 * point["cpu_seconds"] / point["apps"]
        lines.append(
            f"| {point['apps']:,} | {point['variants']:,} | {point['objects']:,} |"
            f" {point['wall_seconds']:.1f} | {point['cpu_seconds']:.1f} | {each:.1f} |"
            f" {point['peak_bytes'] / 10**6:.0f} |"
        )
    last = results["points"][-1]
    good = last["wall_seconds"] <= SECONDS and last["peak_bytes"] <= BYTES
    lines += [
        "",
        f"Target for 1,000 apps: at most {SECONDS:.0f} s and {BYTES // 10**6:,} MB:"
        f" {'met' if good and last['apps'] >= 1000 else 'open'}.",
        "",
        *(f"- {name}: {value}" for name, value in results["machine"].items()),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Generate, measure, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning", description=__doc__)
    parser.add_argument("--apps", default=",".join(map(str, COUNTS)), help="numbers, with commas")
    parser.add_argument("--output", type=Path, default=HERE, help="for planning.json, PLANNING.md")
    chosen = parser.parse_args(arguments)
    counts = sorted(map(int, chosen.apps.split(",")))
    context = make_context(argparse.Namespace(workspace=str(HERE.parent)), os.environ, Path.cwd())
    ensure_folder(context.state, "state")
    here = load(context, print)
    runtime = here.runtimes.default
    with tempfile.TemporaryDirectory(dir=context.state, prefix="planning-") as name:
        workspace = Path(name) / "workspace"
        cache = empty_cache(context.cache, Path(name) / "cache")
        targets = generated_workspace(context.root, workspace)
        points = []
        for made in add_apps(runtime, workspace, targets, counts[-1]):
            if made == 1:
                measure(workspace, cache, made)  # toolchains are probed once for a machine
            if made in counts:
                point = measure(workspace, cache, made)
                print(point, file=sys.stderr, flush=True)
                points.append(point)
    results = {
        "format": 1,
        "seed": SEED,
        "abis": list(targets),
        "machine": machine_facts(compiler_name(here.toolchains.of(ABIS[0]))),
        "points": [vars(point) for point in points],
    }
    write_results(chosen.output, "planning", results, render(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
