"""Measures canonical models and `fits`: operators and bytes saved, and what both cost.

    .venv/bin/python -m benchmarks.functional --python ~/torch/bin/python
    .venv/bin/python -m benchmarks.functional --python PYTHON --only corpus,apps --no-times

`corpus`: the small models of tests/integration/canonical/corpus.py, converted and compared on
inputs that the conversion did not have. `apps`: the example apps' models, exported with their
TorchScript into a scratch workspace; apps with sources of their own are left out, as torch lacks
their operators. `built`: the same apps, built for this machine with their models as they are and
with `canonical: static`, and each model timed in both libraries, in turn. `fits`: one model against
100 packages, links to those in dist/ (`build //...` first). `answers`: each app's models in the
libraries of all apps in dist/, what `fits` tells of them without a run beside what a run shows
(minutes).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.latency import Timing, in_turn
from benchmarks.machine import machine_facts
from benchmarks.scratch import edit_app
from benchmarks.written import write_results
from orchestrator.canonical.process import WORKER
from orchestrator.models.info import read_model
from orchestrator.pytorch.v1_13.dialect import DIALECT

HERE = Path(__file__).parent
ROOT = HERE.parent
CORPUS: Final = ROOT / "tests/integration/canonical/corpus.py"
STEPS: Final = ("corpus", "apps", "built", "fits", "answers")
KINDS: Final = ("static", "traced")
ABI: Final = "linux-x86_64"
ROUNDS, REPEAT = 6, 60
PACKAGES: Final = 100
ENDINGS: Final = (".tar.zst", ".deb", ".aar", ".zip")
# Packages without a library.
OTHERS: Final = ("-symbols.", "-dbgsym_", "-dev_")
NOT_MEASURED: Final = "not measured"


def run(*argv: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a program of this benchmark's; the caller looks at its exit code."""
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)


def output(*argv: str) -> str:
    """What a program prints. Raises RuntimeError if it fails."""
    done = run(*argv)
    if done.returncode:
        raise RuntimeError(f"{argv}: {done.stderr[-2000:]}")
    return done.stdout


def roots(path: Path) -> list[str]:
    """A model's root operators."""
    return sorted(map(str, read_model(path, DIALECT.models).root_operators))


def corpus(python: str, kind: str, folder: Path, times: bool) -> dict[str, Any]:
    """Convert the corpus; what came out, and root operators of what was converted."""
    folder.mkdir()
    text = output(python, "-W", "ignore", str(CORPUS), str(WORKER), str(folder), kind)
    said = [json.loads(line) for line in text.splitlines()]
    right = [one for one in said if "error" not in one]
    return {
        "models": len(said),
        "converted": len(right),
        "largest_difference": max(one["largest"] for one in right),
        "cpu_seconds": round(sum(one["cpu_seconds"] for one in said), 2) if times else None,
        "operators": {
            one["name"]: [
                roots(folder / f"{one['name']}.ptl"),
                roots(folder / f"{one['name']}.canonical.ptl"),
            ]
            for one in right
        },
    }


def app_names(root: Path) -> list[str]:
    """The apps whose models torch can load."""
    files = sorted(root.glob("apps/*/app.yaml"))
    return [one.parent.name for one in files if "sources:" not in one.read_text()]


def scratch_apps(python: str, root: Path) -> list[str]:
    """A workspace with the apps and their models with TorchScript; returns the apps' names."""
    root.mkdir()
    shutil.copy2(ROOT / "WORKSPACE", root)
    shutil.copytree(ROOT / "toolchains", root / "toolchains")
    names = app_names(ROOT)
    for app in names:
        shutil.copytree(ROOT / "apps" / app, root / "apps" / app)
        models = str(root / "apps" / app / "models")
        output(python, "-W", "ignore", f"apps/{app}/export.py", "--with-code", "--out", models)
    return names


def apps(python: str, root: Path) -> dict[str, Any]:
    """By kind and app: root operators of each model before and after, estimates of the library, or
    why it was refused."""
    names = scratch_apps(python, root)
    found: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        for app in names:
            words = ["--quiet", "canonical", f"//apps/{app}", "--kind", kind, "--json"]
            argv = [sys.executable, "-P", "-m", "orchestrator", *words, "--python", python]
            done = run(*argv, cwd=root)
            if done.returncode:
                lines = [one.strip() for one in done.stderr.splitlines()]
                seen = [one.removeprefix("seen:").strip() for one in lines if one[:5] == "seen:"]
                why = (seen or lines or ["?"])[0].replace(f"{ROOT}/", "")
                found[f"{kind} {app}"] = {"refused": why}
                continue
            report = json.loads(done.stdout)
            (priced,) = report["apps"]
            found[f"{kind} {app}"] = {
                "before": _named(report, "operators_before"),
                "after": _named(report, "operators_after"),
                "library_before": priced["library_before_estimate"],
                "library_after": priced["library_after_estimate"],
            }
    return found


def _named(report: Mapping[str, Any], key: str) -> list[str]:
    return sorted({operator for model in report["models"] for operator in model[key]})


@dataclass(frozen=True)
class Workspace:
    """A scratch workspace with an app in one form, canonical or not."""

    root: Path
    app: str

    def orchestrate(self, *words: str) -> str:
        """What a command of ours prints. Raises RuntimeError where it fails."""
        done = run(sys.executable, "-P", "-m", "orchestrator", "--quiet", *words, cwd=self.root)
        if done.returncode:
            raise RuntimeError(f"{words}: {done.stderr[-2000:]}")
        return done.stdout

    def build(self) -> int:
        """Trace and build the app for this machine; its stripped library's bytes."""
        self.orchestrate("trace", f"//apps/{self.app}")
        report = json.loads(self.orchestrate("build", f"//apps/{self.app}:{ABI}", "--json"))
        (variant,) = report["variants"]
        return int(variant["stripped_bytes"])

    def times(self, repeat: int) -> dict[str, Timing]:
        """Model -> the time of its timed calls, in the library that the build made."""
        words = ("run", f"//apps/{self.app}", "--repeat", str(repeat), "--json")
        models = json.loads(self.orchestrate(*words))["models"]
        return {
            model["model"]: Timing(
                sum(one.get("microseconds") or 0 for one in model["runs"]),
                sum(one.get("microseconds_min") or 0 for one in model["runs"]),
            )
            for model in models
        }


@dataclass(frozen=True)
class ModelTimer:
    """One model of an app."""

    workspace: Workspace
    model: str

    def measure(self, env: Mapping[str, str], output: Path, repeat: int) -> Timing:
        """Time it once. Raises RuntimeError."""
        return self.workspace.times(repeat)[self.model]


def built(python: str, folder: Path, times: bool) -> dict[str, Any]:
    """By app: bytes of its library before and after; by model the least microseconds of both, and
    their ratio. Raises RuntimeError."""
    folder.mkdir()
    names = scratch_apps(python, folder / "before")
    shutil.copytree(folder / "before", folder / "after")
    found = {}
    for app in names:
        before, after = (Workspace(folder / side, app) for side in ("before", "after"))
        edit_app(after.root / "apps" / app / "app.yaml", {"canonical": "static"})
        after.orchestrate("canonical", f"//apps/{app}", "--write", "--python", python)
        sizes = [one.build() for one in (before, after)]
        models = {}
        for model in before.times(1) if times else ():
            sides = (ModelTimer(after, model), ModelTimer(before, model))
            timed = in_turn(*sides, {}, folder, ROUNDS, REPEAT, name="before")
            models[model] = {
                "before": timed["least"]["before"],
                "after": timed["least"]["default"],
                "ratio": round(timed["ratio_of_least"], 3),
            }
        found[app] = {"library_before": sizes[0], "library_after": sizes[1], "models": models}
    return found


def fits(dist: Path, folder: Path, times: bool) -> dict[str, Any]:
    """One model against 100 packages. Raises RuntimeError if there are none."""
    files = [
        one
        for one in sorted(dist.glob("*/packages/*"))
        if one.name.endswith(ENDINGS) and not any(part in one.name for part in OTHERS)
    ]
    if not files:
        raise RuntimeError(f"{dist} has no packages: ./orchestrate build //... makes them")
    folder.mkdir()
    names = []
    for number in range(PACKAGES):
        file = files[number % len(files)]
        names.append(folder / f"{number:03}-{file.name}")
        names[-1].symlink_to(file.resolve())
    started = time.monotonic()
    found = _told(ROOT / "apps/camera/models/classifier.ptl", names, "--no-run")
    wall = time.monotonic() - started
    return {
        "packages": len(found),
        "different": len(files),
        "wall_seconds": round(wall, 2) if times else None,
    }


def _told(model: Path, libraries: Sequence[Path], *words: str) -> list[dict[str, Any]]:
    """What `fits` says of each. Raises RuntimeError where it fails."""
    argv = [sys.executable, "-P", "-m", "orchestrator", "fits", str(model), "--json", *words]
    done = run(*argv, "--in", *map(str, libraries))
    if done.returncode not in (0, 1, 2) or not done.stdout:
        raise RuntimeError(done.stderr[-2000:])
    found: list[dict[str, Any]] = json.loads(done.stdout)["packages"]
    return found


def answers(dist: Path) -> dict[str, Any]:
    """Each app's models in the libraries of dist/: by app and model, and by the library's app, what
    is told without a run and what a run shows. Raises RuntimeError where there is no library."""
    libraries = {one.parent.name: one for one in sorted(dist.glob(f"*/{ABI}"))}
    if not libraries:
        raise RuntimeError(f"{dist} has no libraries: ./orchestrate build //... makes them")
    found = {}
    for declared in sorted(ROOT.glob("apps/*/app.yaml")):
        config = yaml.safe_load(declared.read_text(encoding="utf-8"))
        for file in [declared.parent / one["file"] for one in config["models"]]:
            told, ran = (_told(file, [*libraries.values()], how) for how in ("--no-run", "--run"))
            pairs = zip(libraries, told, ran, strict=True)
            found[f"{declared.parent.name} {file.stem}"] = {
                other: [said["verdict"], shown["verdict"]] for other, said, shown in pairs
            }
    return found


def render(results: Mapping[str, Any]) -> str:
    """FUNCTIONAL.md from functional.json."""
    lines = ["# Canonical models, and `fits`", "", "Written by `python -m benchmarks.functional`."]
    lines += ["", "| what | target | measured | met |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in _rows(results)]
    if "apps" in results:
        lines += ["", "## Apps", "", *_app_table(results["apps"])]
    if "built" in results:
        lines += ["", "## Built for this machine", "", *_built_table(results["built"])]
    lines += ["", *(f"- {name}: {value}" for name, value in results["machine"].items())]
    return "\n".join(lines) + "\n"


def _row(what: str, target: str, measured: str, met: bool) -> tuple[str, ...]:
    return (what, target, measured, "yes" if met else "no")


def _open(what: str, target: str) -> tuple[str, ...]:
    return (what, target, NOT_MEASURED, "not known")


def _rows(results: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        *_corpus_rows(results.get("corpus")),
        *_app_rows(results.get("apps")),
        *_built_rows(results.get("built")),
        _fits_row(results.get("fits")),
        _answers_row(results.get("answers")),
    ]


def _corpus_rows(found: Mapping[str, Any] | None) -> list[tuple[str, ...]]:
    """Targets are those of tests/integration/test_canonical.py."""
    cost = ("`static`: 40 small models, torch loaded", "4 CPU s")
    rows = []
    for kind, target, limit in (
        ("static", "all, of at least 40", 70),
        ("traced", "at least 40", 59),
    ):
        same = (f"`{kind}`: small models that convert and compute the same", target)
        names = (f"`{kind}`: distinct root operators of these", f"at most {limit} % of before")
        if found is None:
            rows += [_open(*same), _open(*names)]
            continue
        its = found[kind]
        told = f"{its['converted']} of {its['models']}, difference at most"
        told += f" {its['largest_difference']:.1g}"
        enough = its["models"] if kind == "static" else 40
        rows.append(_row(*same, told, its["converted"] >= max(enough, 40)))
        pairs = its["operators"].values()
        before, after = (len({name for pair in pairs for name in pair[n]}) for n in (0, 1))
        share = 100 * after / before
        rows.append(_row(*names, f"{before} to {after}, {share:.0f} %", share <= limit))
    if found is None or found["static"]["cpu_seconds"] is None:
        return [*rows, _open(*cost)]
    seconds = 40 * found["static"]["cpu_seconds"] / found["static"]["models"]
    return [*rows, _row(*cost, f"{seconds:.1f} CPU s", seconds <= 4)]


def _app_rows(found: Mapping[str, Any] | None) -> list[tuple[str, ...]]:
    limits = {"static": 70, "traced": 55}
    what = {
        "static": "`static`: distinct root operators of all apps",
        "traced": "`traced`: the same, of the apps that can be traced",
    }
    size = ("`static`: sum of the libraries, estimated by the index", "at least 5 % less")
    if found is None:
        opened = [_open(what[kind], f"at most {limits[kind]} % of before") for kind in KINDS]
        return [*opened, _open(*size)]
    rows = []
    for kind in KINDS:
        good = [v for k, v in found.items() if k.startswith(f"{kind} ") and "refused" not in v]
        before, after = (len({o for v in good for o in v[n]}) for n in ("before", "after"))
        target = f"at most {limits[kind]} % of before"
        if not before:
            rows.append(_open(what[kind], target))
            continue
        share = 100 * after / before
        told = f"{before} to {after}, {share:.0f} %, {len(good)} apps"
        rows.append(_row(what[kind], target, told, share <= limits[kind]))
    good = [v for k, v in found.items() if k.startswith("static ") and "refused" not in v]
    before, after = (sum(v[n] for v in good) for n in ("library_before", "library_after"))
    if not before:
        return [*rows, _open(*size)]
    less = 100 * (before - after) / before
    told = f"{before / 1e6:.2f} MB to {after / 1e6:.2f} MB, {less:.1f} % less"
    return [*rows, _row(*size, told, less >= 5)]


def _built_rows(found: Mapping[str, Any] | None) -> list[tuple[str, ...]]:
    size = ("`static`: sum of the libraries, as built", "at least 5 % less")
    slower = ("`static`: CPU time of each model", "at most 2 % more")
    if found is None:
        return [_open(*size), _open(*slower)]
    before, after = (sum(v[f"library_{n}"] for v in found.values()) for n in ("before", "after"))
    less = 100 * (before - after) / before
    told = f"{before / 1e6:.2f} MB to {after / 1e6:.2f} MB, {less:.1f} % less"
    rows = [_row(*size, told, less >= 5)]
    ratios = {
        f"{app}'s {name}": model["ratio"]
        for app, one in found.items()
        for name, model in one["models"].items()
    }
    if not ratios:
        return [*rows, _open(*slower)]
    best, worst = (choose(ratios, key=ratios.__getitem__) for choose in (min, max))
    told = f"{ratios[best]:.2f} ({best}) to {ratios[worst]:.2f} ({worst})"
    return [*rows, _row(*slower, told, ratios[worst] <= 1.02)]


def _fits_row(found: Mapping[str, Any] | None) -> tuple[str, ...]:
    what = ("`fits`, 100 packages", "5 s")
    if found is None or found["wall_seconds"] is None:
        return _open(*what)
    told = f"{found['wall_seconds']:.1f} s, {found['packages']} packages"
    return _row(*what, told, found["packages"] >= PACKAGES and found["wall_seconds"] <= 5)


def _answers_row(found: Mapping[str, Any] | None) -> tuple[str, ...]:
    what = ("`fits` without a run, of each other's libraries", "no wrong yes, no wrong no")
    if found is None:
        return _open(*what)
    pairs = [tuple(pair) for libraries in found.values() for pair in libraries.values()]
    yes, no = (
        [shown for said, shown in pairs if said == one] for one in ("by manifest", "does not fit")
    )
    wrong = (sum(shown != "proven" for shown in yes), sum(shown == "proven" for shown in no))
    told = f"{wrong[0]} of {len(yes)} yes wrong, {wrong[1]} of {len(no)} no,"
    told += f" {len(pairs) - len(yes) - len(no)} not told"
    return _row(*what, told, bool(yes) and not any(wrong))


def _app_table(found: Mapping[str, Any]) -> list[str]:
    lines = ["| app | kind | root operators | library, estimated |", "|---|---|---:|---:|"]
    for key, one in found.items():
        kind, app = key.split(" ")
        if "refused" in one:
            lines.append(f"| {app} | {kind} | refused: {one['refused']} | |")
            continue
        sizes = [f"{one[n] / 1e6:.2f}" for n in ("library_before", "library_after")]
        counts = [len(one[n]) for n in ("before", "after")]
        lines.append(
            f"| {app} | {kind} | {counts[0]} to {counts[1]} | {sizes[0]} to {sizes[1]} MB |"
        )
    return lines


def _built_table(found: Mapping[str, Any]) -> list[str]:
    lines = ["| app | library | model | least CPU time | ratio |", "|---|---:|---|---:|---:|"]
    for app, one in found.items():
        sizes = " to ".join(f"{one[f'library_{n}'] / 1e6:.3f}" for n in ("before", "after"))
        for name, model in one["models"].items():
            times = f"{model['before']:,.1f} to {model['after']:,.1f} µs"
            lines.append(f"| {app} | {sizes} MB | {name} | {times} | {model['ratio']:.3f} |")
    return lines


def main(arguments: Sequence[str]) -> int:
    """Measure, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.functional", description=__doc__)
    parser.add_argument("--python", required=True, help="a Python that has torch")
    parser.add_argument("--only", default=",".join(STEPS), help="steps, with commas")
    parser.add_argument("--no-times", action="store_true", help="the machine is busy: count only")
    parser.add_argument(
        "--dist", type=Path, default=ROOT / "dist", help="packages for fits, libraries for answers"
    )
    parser.add_argument("--output", type=Path, default=HERE, help="for functional.json and .md")
    chosen = parser.parse_args(arguments)
    steps, times = chosen.only.split(","), not chosen.no_times
    if unknown := set(steps) - {*STEPS}:
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    facts = machine_facts(None)
    facts["torch"] = output(chosen.python, "-c", "import torch; print(torch.__version__)").strip()
    results: dict[str, Any] = {"format": 1, "machine": facts}
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="functional-") as name:
        scratch = Path(name)
        if "corpus" in steps:
            results["corpus"] = {
                kind: corpus(chosen.python, kind, scratch / kind, times) for kind in KINDS
            }
        if "apps" in steps:
            results["apps"] = apps(chosen.python, scratch / "workspace")
        if "built" in steps:
            results["built"] = built(chosen.python, scratch / "built", times)
        if "fits" in steps:
            results["fits"] = fits(chosen.dist, scratch / "packages", times)
        if "answers" in steps:
            results["answers"] = answers(chosen.dist)
    write_results(chosen.output, "functional", results, render(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
