"""From peers.json to PEERS.md, and to the points of the picture. Pure.

.venv/bin/python -m benchmarks.peers.report [FOLDER]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.catalogue import MODELS, RUNTIMES, THREADS

Values = Mapping[str, Any]

# The models of the picture, in the order of its parts.
PICTURED: Final = ("mobilenet", "camera")
# The picture has one dot of ours for a model: the default.
LABELLED: Final = tuple(name for name in RUNTIMES if not name.startswith("ours-"))
_NONE: Final = "-"


@dataclass(frozen=True)
class Point:
    """A dot: what an app ships, in MB, and the least CPU time of a run, in ms."""

    model: str
    runtime: str
    megabytes: float
    milliseconds: float


def points(results: Values) -> tuple[Point, ...]:
    """The picture's dots, one thread."""
    found = []
    for model in PICTURED:
        for runtime in LABELLED:
            case = _case(results, runtime, model, 1)
            library = shipped(results, runtime, model)
            if case and library:
                megabytes = round(library["stripped"] / 10**6, 3)
                found.append(
                    Point(model, runtime, megabytes, round(case["cpu"]["least"] / 1000, 5))
                )
    return tuple(found)


def shipped(results: Values, runtime: str, model: str) -> Values | None:
    """The library that ran: ours of the model; a peer's first, or the set that is told."""
    told = results["ran_with"].get(f"{runtime}/{model}")
    for row in results["libraries"]:
        if (
            row["runtime"] == runtime
            and row["model"] in (model, None)
            and told in (None, row["what"])
        ):
            chosen: Values = row
            return chosen
    return None


def _case(results: Values, runtime: str, model: str, threads: int) -> Values | None:
    for case in results["cases"]:
        if (case["runtime"], case["model"], case["threads"]) == (runtime, model, threads):
            chosen: Values = case
            return None if "not_measured" in case else chosen
    return None


def _present(results: Values, kind: str, known: Mapping[str, object]) -> tuple[str, ...]:
    seen = {case[kind] for case in results["cases"]}
    return tuple(name for name in known if name in seen)


def render(results: Values) -> str:
    """PEERS.md."""
    parts = [_head(results)]
    parts += [
        "## Latency, one thread\n",
        "CPU time of the process, microseconds: least of all runs / least of the medians of the"
        " rounds.\n",
        _by_model(results, 1, lambda case: _both(case["cpu"])),
        "How many times our CPU time (`kernels: auto`) is this runtime's, by the least / by the"
        " medians: above 1, it is faster than we are.\n",
        _by_model(results, 1, _Ratio(results)),
        "Wall time, microseconds, likewise. It holds the time that other processes took. Where its"
        " least is above the least CPU time by more than a microsecond, the CPU clock told too"
        " little in a run: the medians are better there.\n",
        _by_model(results, 1, lambda case: _both(case["wall"])),
    ]
    for threads in THREADS[1:]:
        parts += [
            f"## Latency, {threads} threads\n",
            "Microseconds, least: wall time / CPU time of all of the process's threads.\n",
            _by_model(results, threads, _wall_and_cpu),
        ]
    parts += [
        "## From opening the model to its first result\n",
        "Milliseconds, least, one thread: CPU time / wall time. The runtime is in the process by"
        " then; the model's file is in the page cache. ExecuTorch: its program's.\n",
        _by_model(results, 1, lambda case: f"{_ms(case['first_cpu'])} / {_ms(case['first'])}"),
        "Bringing the runtime into the process before that, likewise: for ours, opening the"
        " library; for peers, importing their Python modules, which an app would not have.\n",
        _by_model(results, 1, _loading),
        _memory(results),
        _sizes(results),
        _missing(results),
        _accuracy(results),
        _machine(results),
    ]
    return "\n".join(part for part in parts if part)


def _head(results: Values) -> str:
    models = [
        f"- **{name}**: {MODELS[name].title}\n" for name in _present(results, "model", MODELS)
    ]
    low, high = results["load"]
    return "\n".join(
        [
            "# Peers\n",
            "Written by `python -m benchmarks.peers` from `peers.json`; how it is measured is told"
            " in [README.md](README.md#peers). The same weights in every runtime, float32, on"
            f" {results['machine']['processor']}; {results['rounds']} interleaved rounds, a process"
            " for each measurement. While it ran, the load average (1 minute) was"
            f" {low:.1f} to {high:.1f} on {results['machine']['cores']} cores: compare CPU times,"
            " not wall times.\n",
            "".join(models),
            "![Bytes of the library against CPU time of a run](peers.svg)\n",
        ]
    )


def _by_model(results: Values, threads: int, cell: Callable[[Values], str]) -> str:
    models = _present(results, "model", MODELS)
    rows = []
    for runtime in _present(results, "runtime", RUNTIMES):
        cases = [_case(results, runtime, model, threads) for model in models]
        if any(cases):
            cells = [cell(case) if case else _NONE for case in cases]
            rows.append((RUNTIMES[runtime].title, *cells))
    return _table(("runtime", *models), rows)


class _Ratio:
    def __init__(self, results: Values) -> None:
        self.results = results

    def __call__(self, case: Values) -> str:
        ours = _case(self.results, "ours", case["model"], case["threads"])
        if ours is None:
            return _NONE
        ratios = [ours["cpu"][kind] / case["cpu"][kind] for kind in ("least", "median")]
        return " / ".join(f"{ratio:.2f}" for ratio in ratios)


def _both(times: Values) -> str:
    return f"{_us(times['least'])} / {_us(times['median'])}"


def _wall_and_cpu(case: Values) -> str:
    return f"{_us(case['wall']['least'])} / {_us(case['cpu']['least'])}"


def _loading(case: Values) -> str:
    if case["load"] is None:
        return _NONE
    return f"{_ms(case['load_cpu'])} / {_ms(case['load'])}"


def _us(microseconds: float) -> str:
    return f"{microseconds:,.0f}" if microseconds >= 100 else f"{microseconds:.1f}"


def _ms(microseconds: float) -> str:
    return f"{microseconds / 1000:.1f}"


def _memory(results: Values) -> str:
    parts = [
        "## Memory\n",
        "Peak of resident memory less what the process (Python and numpy; for ExecuTorch its"
        " program with its libraries) had before, MB of 10^6 bytes, least of the rounds.\n",
        _by_model(results, 1, lambda case: _megabytes(case["added"])),
    ]
    if any("model_added" in case for case in results["cases"]):
        parts += [
            "The same from when the runtime is in the process: the peak from opening the model on,"
            " less what the process had just before. Compare ExecuTorch here: above, its libraries"
            " are not counted and those of the others are.\n",
            _by_model(results, 1, lambda case: _megabytes(case.get("model_added"))),
        ]
    return "\n".join(parts)


def _megabytes(count: int | None) -> str:
    return _NONE if count is None else f"{count / 10**6:.1f}"


def _sizes(results: Values) -> str:
    rows = []
    for row in results["libraries"]:
        what = f"model {row['model']}" if row["model"] else row["what"]
        bytes_ = [f"{row[kind]:,}" for kind in ("delivered", "stripped", "gzip")]
        rows.append((RUNTIMES[row["runtime"]].title, what, *bytes_))
    return "\n".join(
        [
            "## Bytes of the libraries\n",
            "As delivered, after `strip`, and that after `gzip -9`. What a peer ran with is its"
            " first row, or told below. Peers' are those of their wheels, which hold every operator"
            " and, for ncnn and MNN, a Python module: a build of theirs for one model, from source,"
            " is smaller and was not made here.\n",
            _table(("runtime", "what", "delivered", "stripped", "gzip -9"), rows),
            *_ran_with(results),
        ]
    )


def _ran_with(results: Values) -> list[str]:
    models: dict[tuple[str, str], list[str]] = {}
    for case, what in results["ran_with"].items():
        runtime, _, model = case.partition("/")
        models.setdefault((runtime, what), []).append(model)
    lines = [
        f"- {RUNTIMES[runtime].title} ran {', '.join(names)} with: {what}\n"
        for (runtime, what), names in models.items()
    ]
    return ["".join(lines)] if lines else []


def _missing(results: Values) -> str:
    reasons: dict[tuple[str, int, str], list[str]] = {}
    for case in results["cases"]:
        if "not_measured" in case:
            key = (case["runtime"], case["threads"], case["not_measured"])
            reasons.setdefault(key, []).append(case["model"])
    if not reasons:
        return ""
    lines = []
    for (runtime, threads, why), models in reasons.items():
        told = f"threads: {threads}: {', '.join(models)}"
        lines.append(f"- {RUNTIMES[runtime].title}, {told}: {_plain(why)}\n")
    return "\n".join(["## Not measured\n", "".join(lines)])


def _plain(text: str) -> str:
    """Somebody else's words as one line of Markdown that is shown as it is."""
    return "`" + " ".join(text.replace("`", "'").split()) + "`"


def _accuracy(results: Values) -> str:
    return "\n".join(
        [
            "## Results\n",
            "The largest difference of an output from eager torch's. More than 0.001 is not"
            " measured.\n",
            _by_model(results, 1, lambda case: f"{case['difference']:.1e}"),
        ]
    )


def _machine(results: Values) -> str:
    facts = [f"- {name}: {fact}\n" for name, fact in results["machine"].items()]
    facts.append(f"- load average while measuring: {results['load'][0]} to {results['load'][1]}\n")
    levels = []
    for runtime in _present(results, "runtime", RUNTIMES):
        levels.append(f"- {RUNTIMES[runtime].title}: {_level(results, runtime)}\n")
    versions = [
        f"- {name}: {version or 'not installed'}\n" for name, version in results["versions"].items()
    ]
    return "\n".join(
        [
            "## Machine\n",
            "".join(facts),
            "Levels that were used, where a runtime tells them or documents them:\n",
            "".join(levels),
            "## Versions\n",
            f"- ours: {results['commit']}\n" + "".join(versions),
        ]
    )


def _level(results: Values, runtime: str) -> str:
    told = {
        case["level"]
        for case in results["cases"]
        if case["runtime"] == runtime and case.get("level")
    }
    if told:
        return "its own words: " + "; ".join(sorted(told))
    return RUNTIMES[runtime].level or "chosen by the processor; it does not tell which"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def main(arguments: Sequence[str]) -> int:
    """Render `peers.json` of a folder (benchmarks/) beside it."""
    folder = Path(arguments[0]) if arguments else Path(__file__).parents[1]
    text = render(json.loads((folder / "peers.json").read_text()))
    (folder / "PEERS.md").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
