"""From peers.json to PEERS.md. Pure.

.venv/bin/python -m benchmarks.peers.report [FOLDER]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers.catalogue import INT8_TOLERANCE, MODELS, RUNTIMES, THREADS, TOLERANCE
from benchmarks.peers.results import Values, case_of, present

_NONE: Final = "-"


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
        _int8_shares(results),
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
    models = [f"- **{name}**: {MODELS[name].title}\n" for name in present(results, "model", MODELS)]
    low, high = results["load"]
    return "\n".join(
        [
            "# Peers\n",
            "Written by `python -m benchmarks.peers` from `peers.json`; how it is measured is told"
            " in [README.md](README.md#peers). The same weights in every runtime,"
            f" {_kinds(results)}, on {results['machine']['processor']}; {results['rounds']}"
            " interleaved rounds, a process for each measurement. While it ran, the load average"
            f" (1 minute) was {low:.1f} to {high:.1f} on {results['machine']['cores']} cores:"
            " compare CPU times, not wall times.\n",
            "".join(models),
            "![Bytes of the library against CPU time of a run](peers.svg)\n",
        ]
    )


def _kinds(results: Values) -> str:
    names = " and ".join(f"`{name}`" for name in _int8(results))
    return f"float32, and for {names} int8 by the runtimes' tools" if names else "float32"


def _int8(results: Values) -> tuple[str, ...]:
    return tuple(name for name in present(results, "model", MODELS) if MODELS[name].float32)


def _by_model(results: Values, threads: int, cell: Callable[[Values], str]) -> str:
    models = present(results, "model", MODELS)
    rows = []
    for runtime in present(results, "runtime", RUNTIMES):
        cases = [case_of(results, runtime, model, threads) for model in models]
        if any(cases):
            cells = [cell(case) if case else _NONE for case in cases]
            rows.append((RUNTIMES[runtime].title, *cells))
    return _table(("runtime", *models), rows)


def _int8_shares(results: Values) -> str:
    pairs = [(name, MODELS[name].float32 or "") for name in _int8(results)]
    rows = []
    for runtime in present(results, "runtime", RUNTIMES):
        cells = []
        for pair in pairs:
            small, whole = (case_of(results, runtime, name, 1) for name in pair)
            cells.append(_share(small, whole))
        if any(cell != _NONE for cell in cells):
            rows.append((RUNTIMES[runtime].title, *cells))
    if not rows:
        return ""
    told = "Of the CPU time of the same runtime's float32 model, the int8 one takes, by the least /"
    head = ("runtime", *(f"{name} / {whole}" for name, whole in pairs))
    return f"{told} by the medians:\n\n{_table(head, rows)}"


def _share(small: Values | None, whole: Values | None) -> str:
    if small is None or whole is None:
        return _NONE
    shares = [small["cpu"][kind] / whole["cpu"][kind] for kind in ("least", "median")]
    return " / ".join(f"{share:.2f}" for share in shares)


class _Ratio:
    def __init__(self, results: Values) -> None:
        self.results = results

    def __call__(self, case: Values) -> str:
        ours = case_of(self.results, "ours", case["model"], case["threads"])
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
    told = (
        "The largest difference of an output from eager torch's. More than"
        f" {TOLERANCE:g} is not measured.\n"
    )
    if _int8(results):
        told += (
            "\nFor int8, the difference from eager torch's float32 result, in percent of that"
            " result's spread (largest less smallest output). More than"
            f" {INT8_TOLERANCE:.0%} is not measured.\n"
        )
    return "\n".join(["## Results\n", told, _by_model(results, 1, _difference)])


def _difference(case: Values) -> str:
    gap: float = case["difference"]
    return f"{gap:.1%}" if MODELS[case["model"]].float32 else f"{gap:.1e}"


def _machine(results: Values) -> str:
    facts = [f"- {name}: {fact}\n" for name, fact in results["machine"].items()]
    facts.append(f"- load average while measuring: {results['load'][0]} to {results['load'][1]}\n")
    levels = []
    for runtime in present(results, "runtime", RUNTIMES):
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
