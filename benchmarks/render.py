"""From results.json to RESULTS.md: a pure function, so that nothing in the text is typed by hand.

.venv/bin/python -m benchmarks.render [FOLDER]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.third_party import FAMILIES

Values = Mapping[str, Any]

NOT_MEASURED: Final = "not measured"
LEAST_SAMPLE: Final = 60
FIRST_SECONDS: Final = 260
OTHER_RUNTIME_SECONDS: Final = 300
OTHER_RUNTIME_BYTES_RATIO: Final = 1.15
# No slower, and noise: a library against itself gave 0.98 to 1.03 on a machine that did other work.
OTHER_RUNTIME_LATENCY_RATIO: Final = 1.02
INDEX_MINUTES: Final = 60
INDEX_BYTES: Final = 1_500_000
FURTHER_SHARE: Final = 25
OPERATOR_SECONDS: Final = 12
TRACER_SECONDS: Final = 500
NOTHING_SECONDS: Final = 0.1
FORECAST_FACTOR: Final = 1.5
SIZE_BYTES: Final = 1_000_000
SIZE_SAVED: Final = 92
DEFAULT_BYTES: Final = 1_300_000
LATENCY_RATIO: Final = 1.05
PEAK_BYTES: Final = 300_000_000
EVERYWHERE_SHARE: Final = 25
EVERYWHERE_NOTHING_SECONDS: Final = 1.0
CHECKOUT_SECONDS: Final = 60
CHECKING_SHARE: Final = 3
HARDENING_SHARE: Final = 1.5
RUN_SECONDS: Final = 120
RUN_AGAIN_MS: Final = 50
RUN_OPERATOR_SECONDS: Final = 5
RUN_LATENCY_RATIO: Final = 1.1
EXTENSIBLE_SHARE: Final = 6
ADDON_BYTES: Final = 40_000


@dataclass(frozen=True)
class Row:
    """One measure: its target and what was measured, in words; `met` is None where it is open."""

    measure: str
    target: str
    measured: str
    met: bool | None


class _Missing(Exception):
    """A step that a row needs has no result; the text says why."""


def _step(results: Values, name: str) -> Values:
    step: Values = results["steps"].get(name, {})
    if "failed" in step:
        raise _Missing("failed: " + str(step["failed"]).splitlines()[0])
    if "measured" not in step:
        raise _Missing(NOT_MEASURED)
    measured: Values = step["measured"]
    return measured


def rows(results: Values) -> list[Row]:
    """Every measure of the issue, in its order."""
    first = results["first"]
    return [
        _row(f"first variant of the first app (`{first}`), from an empty object cache",
             f"at most {FIRST_SECONDS} CPU s", _first, results),
        *_further(results),
        *_other_runtimes(results),
        _row("one operator added to an app, and it works",
             f"at most {OPERATOR_SECONDS} CPU s", _operator, results),
        _row(f"tracer for `{first}`, from an empty object cache",
             f"at most {TRACER_SECONDS} CPU s", _tracer, results),
        _row("the time that the first build forecasts when it begins",
             f"within a factor of {FORECAST_FACTOR}", _forecast, results),
        _row("nothing changed", f"at most {NOTHING_SECONDS} s wall", _nothing, results),
        _row(f"`{first}`, `optimize: size`, stripped shared library",
             f"at most {SIZE_BYTES:,} bytes", _size, results),
        _row("the same against the library of all operators",
             f"at least {SIZE_SAVED} % smaller", _saved, results),
        _row(f"`{first}`, default, stripped shared library",
             f"at most {DEFAULT_BYTES:,} bytes", _default, results),
        _row(f"latency of `{first}`, default, against upstream's optimisation",
             f"at most {LATENCY_RATIO} times", _latency, results),
        _row(f"`{first}`: what stack protectors and checked calls cost",
             f"at most {HARDENING_SHARE} % of its bytes", _hardening, results),
        *_moved(results),
        *_development(results),
        *_everywhere(results),
        _row("peak memory of the orchestrator process",
             f"at most {PEAK_BYTES // 10**6} MB", _peak, results),
    ]  # fmt: skip


def _row(
    measure: str, target: str, log: Callable[[Values], tuple[str, bool | None]], results: Values
) -> Row:
    try:
        return Row(measure, target, *log(results))
    except _Missing as reason:
        return Row(measure, target, str(reason), None)


def _against(results: Values, seconds: float, share: int) -> tuple[str, bool | None]:
    try:
        upstream = _step(results, "upstream")["seconds"]
    except _Missing as reason:
        return f"{_seconds(seconds)}; upstream's: {reason}", None
    told = f"{_seconds(seconds)}: 1/{upstream / seconds:.1f} of {_seconds(upstream)}"
    return told, seconds * share <= upstream


def _beside_upstream(results: Values, seconds: float) -> str:
    """A cost, and which part of upstream's it is."""
    told, known = _against(results, seconds, 1)
    return told if known is None else f"{told} of upstream's"


def _first(results: Values) -> tuple[str, bool]:
    built = _step(results, "first")
    told = _beside_upstream(results, built["user_seconds"])
    units = f"{built['units_compiled']} units"
    return f"{told}; {units}", built["user_seconds"] <= FIRST_SECONDS


def _forecast(results: Values) -> tuple[str, bool]:
    told = _step(results, "first").get("forecast")
    if told is None:
        raise _Missing(NOT_MEASURED)
    said, took = told["said_seconds"], told["took_seconds"]
    off = max(said / took, took / said)
    return f"{said:.0f} s; it took {took:.0f} s: {off:.2f}", off <= FORECAST_FACTOR


def _further(results: Values) -> list[Row]:
    target = f"at most 1/{FURTHER_SHARE} of upstream's CPU"
    try:
        apps = _step(results, "further")["apps"]
    except _Missing as reason:
        return [Row("each further app", target, str(reason), None)]

    def log(app: Values) -> Callable[[Values], tuple[str, bool | None]]:
        def told(results: Values) -> tuple[str, bool | None]:
            words, met = _against(results, app["user_seconds"], FURTHER_SHARE)
            units = f"{app['units_compiled']} units compiled, {app['units_reused']} reused"
            return f"{words}; {units}", met

        return told

    return [_row(f"further app `{app['app']}`", target, log(app), results) for app in apps]


def _other_runtimes(results: Values) -> list[Row]:
    """Apps that are the first of another runtime than the first app's."""
    target = f"at most {OTHER_RUNTIME_SECONDS} CPU s"
    try:
        apps = _step(results, "further").get("other_runtimes", [])
    except _Missing:
        return []  # said of the further apps already

    def row(app: Values) -> Row:
        units = f"{app['units_compiled']} units compiled, {app['units_reused']} reused"
        return Row(
            f"first variant on `{app['runtime']}` (`{app['app']}`), on that cache",
            target,
            f"{_seconds(app['user_seconds'])}; {units}",
            app["user_seconds"] <= OTHER_RUNTIME_SECONDS,
        )

    return [row(app) for app in apps]


def _operator(results: Values) -> tuple[str, bool]:
    built = _step(results, "operator")
    return _operator_of(built, _beside_upstream(results, built["user_seconds"]))


def _operator_of(built: Values, told: str) -> tuple[str, bool]:
    met = built["user_seconds"] <= OPERATOR_SECONDS
    added = built["added_operators"]
    works = bool(added) and built["verified"] == "ok"
    calls = ", ".join(f"`{name}` ({calls} calls)" for name, calls in added.items())
    units = f"{built['units_compiled']} units compiled"
    proof = "outputs equal the trace's" if works else f"verified: {built['verified']}"
    return f"{told}; {units}; {calls or 'no operator'} ran, {proof}", works and met


def _tracer(results: Values) -> tuple[str, bool]:
    traced = _step(results, "tracer")
    seconds = traced["user_seconds"]
    units = f"{traced['units']} units of {traced['units_of_runtime']}"
    return f"{_seconds(seconds)}; {units}", seconds <= TRACER_SECONDS


def _nothing(results: Values) -> tuple[str, bool]:
    done = _step(results, "nothing")
    walls, actions = done["wall_seconds"], done["actions_run"]
    best = min(walls)
    told = f"{best:.2f} s (least of {len(walls)}); {actions} actions run"
    return told, best <= NOTHING_SECONDS and actions == 0


def _size(results: Values) -> tuple[str, bool]:
    size = _step(results, "size")["stripped_bytes"]
    return f"{size:,} bytes", size <= SIZE_BYTES


def _saved(results: Values) -> tuple[str, bool]:
    size = _step(results, "size")["stripped_bytes"]
    everything = all_operators_bytes(results)
    if everything is None:
        raise _Missing(NOT_MEASURED)
    saved = 100 * (1 - size / everything)
    return f"{saved:.1f} % of {everything:,} bytes", saved >= SIZE_SAVED


def all_operators_bytes(results: Values) -> int | None:
    """The size of the library of all operators: this run's, else the runtime data's."""
    measured = results["steps"].get("all-operators", {}).get("measured")
    size: int | None = measured["stripped_bytes"] if measured else results["all_operators_bytes"]
    return size


def _default(results: Values) -> tuple[str, bool]:
    size = _step(results, "first")["stripped_bytes"]
    return f"{size:,} bytes", size <= DEFAULT_BYTES


def _latency(results: Values) -> tuple[str, bool]:
    return _ratios(_step(results, "latency"), "upstream", LATENCY_RATIO)


def _moved(results: Values) -> list[Row]:
    """The first app on the workspace's other runtime."""
    on = f"`{results['first']}` on the other runtime"
    return [
        _row(f"{on}: first variant, from an empty object cache",
             f"at most {OTHER_RUNTIME_SECONDS} CPU s", _moved_first, results),
        _row(f"{on}: one operator added, and it works",
             f"at most {OPERATOR_SECONDS} CPU s", _moved_operator, results),
        _row(f"{on}: stripped shared library, against its own runtime's",
             f"at most {OTHER_RUNTIME_BYTES_RATIO} times", _moved_bytes, results),
        _row(f"{on}: latency, against its own runtime's",
             f"at most {OTHER_RUNTIME_LATENCY_RATIO} times (2 % for noise)",
             _moved_latency, results),
        _row("the index of the other runtime, from an empty object cache",
             f"at most {INDEX_MINUTES} CPU minutes, {INDEX_BYTES:,} bytes", _index, results),
    ]  # fmt: skip


def _moved_first(results: Values) -> tuple[str, bool]:
    built = _step(results, "other-runtime")
    seconds = built["user_seconds"]
    told = f"`{built['runtime']}`: {_seconds(seconds)}; {built['units_compiled']} units"
    return told, seconds <= OTHER_RUNTIME_SECONDS


def _moved_operator(results: Values) -> tuple[str, bool]:
    built = _step(results, "other-runtime")["operator"]
    return _operator_of(built, _seconds(built["user_seconds"]))


def _moved_bytes(results: Values) -> tuple[str, bool]:
    size = _step(results, "other-runtime")["stripped_bytes"]
    own = _step(results, "first")["stripped_bytes"]
    told = f"{size / own:.3f}: {size:,} bytes against {own:,}"
    return told, size <= own * OTHER_RUNTIME_BYTES_RATIO


def _moved_latency(results: Values) -> tuple[str, bool]:
    return _ratios(
        _step(results, "other-runtime")["latency"], "own_runtime", OTHER_RUNTIME_LATENCY_RATIO
    )


def _index(results: Values) -> tuple[str, bool]:
    done = _step(results, "index")
    minutes, size = done["all_user_seconds"] / 60, done["bytes"]
    told = f"`{done['runtime']}`: {minutes:.1f} CPU minutes, scaled from {done['sample']} of"
    met = minutes <= INDEX_MINUTES and size <= INDEX_BYTES
    return f"{told} {done['units']} units; {size:,} bytes", met


def _ratios(timed: Values, other: str, target: float) -> tuple[str, bool]:
    """Both ratios of a latency, with the microseconds of both sides."""
    medians, least = timed["ratio_of_medians"], timed["ratio_of_least"]
    told = (
        f"medians {medians:.3f} ({timed['median']['default']:,.0f} us against"
        f" {timed['median'][other]:,.0f} us), least times {least:.3f}"
        f" ({timed['least']['default']:,.0f} us against {timed['least'][other]:,.0f} us)"
    )
    return told, max(medians, least) <= target


def _development(results: Values) -> list[Row]:
    first = results["first"]
    return [
        _row(f"first `run` of `{first}`, from an empty object cache",
             f"at most {RUN_SECONDS} CPU s, less than half of the tracer's units", _run, results),
        _row("`run` again: the model's process, against one with the delivered library",
             f"at most {RUN_AGAIN_MS} ms more", _run_again, results),
        _row("`run` with one operator added to the model",
             f"at most {RUN_OPERATOR_SECONDS} s wall", _run_operator, results),
        _row(f"`run --repeat`: latency of `{first}`, against the delivered library",
             f"at most {RUN_LATENCY_RATIO} times", _run_latency, results),
        _row(f"`extensible: true`, `{first}`'s stripped shared library",
             f"at most {EXTENSIBLE_SHARE} % larger", _extensible, results),
        _row("an add-on for one elementwise operator",
             f"at most {ADDON_BYTES:,} bytes", _addon, results),
    ]  # fmt: skip


def _run(results: Values) -> tuple[str, bool | None]:
    done = _step(results, "development")
    units, seconds = done["base_units"] + done["shard_units"], done["user_seconds"]
    told = f"{_seconds(seconds)}; {done['base_units']} units of the base, {done['shard_units']} of"
    tracer = _step(results, "tracer")["units"]
    met = seconds <= RUN_SECONDS and 2 * units < tracer
    return f"{told} the shard; the tracer has {tracer}", met


def _run_again(results: Values) -> tuple[str, bool]:
    again = _step(results, "development")["again"]
    took, alone = again["process_seconds"], again["delivered_process_seconds"]
    told = f"{1000 * took:.0f} ms against {1000 * alone:.0f} ms (least times); all of `run` takes"
    return f"{told} {_seconds(again['user_seconds'])}", 1000 * (took - alone) <= RUN_AGAIN_MS


def _run_operator(results: Values) -> tuple[str, bool]:
    seconds = _step(results, "development")["operator"]["wall_seconds"]
    return _seconds(seconds), seconds <= RUN_OPERATOR_SECONDS


def _run_latency(results: Values) -> tuple[str, bool]:
    timed = _step(results, "development")["latency"]
    medians, least = timed["ratio_of_medians"], timed["ratio_of_least"]
    told = f"medians {medians:.3f}, least times {least:.3f}"
    return told, max(medians, least) <= RUN_LATENCY_RATIO


def _extensible(results: Values) -> tuple[str, bool]:
    size = _step(results, "addon")["stripped_bytes"]
    plain = _step(results, "first")["stripped_bytes"]
    share = 100 * (size - plain) / plain
    return f"{share:.1f} %: {size:,} bytes", share <= EXTENSIBLE_SHARE


def _addon(results: Values) -> tuple[str, bool]:
    done = _step(results, "addon")
    operators = ", ".join(f"`{name}`" for name in done["operators"])
    told = f"{done['addon_bytes']:,} bytes: {operators}"
    return told, done["addon_bytes"] <= ADDON_BYTES


def _everywhere(results: Values) -> list[Row]:
    return [
        _row("every app for every ABI, from an empty object cache",
             f"at most 1/{EVERYWHERE_SHARE} of upstream's CPU for as many variants",
             _workspace, results),
        _row("for each ABI, one operator added to an app",
             f"at most {OPERATOR_SECONDS} CPU s", _abi_operator, results),
        _row("for each ABI, one operator added to an app, on the other runtime",
             f"at most {OPERATOR_SECONDS} CPU s", _moved_abi_operator, results),
        _row("every app for every ABI, nothing changed",
             f"at most {EVERYWHERE_NOTHING_SECONDS} s wall", _nothing_everywhere, results),
        _row("a second checkout on the cache of a first: every app for its ABIs",
             f"at most {CHECKOUT_SECONDS} CPU s, nothing compiled", _checkout, results),
        _row("comparing the objects of that build with their digests",
             f"at most {CHECKING_SHARE} % of its CPU", _checking, results),
    ]  # fmt: skip


def _workspace(results: Values) -> tuple[str, bool | None]:
    built = _step(results, "everywhere")
    count, seconds = built["variants"], built["user_seconds"]
    try:
        upstream = count * _step(results, "upstream")["seconds"]
    except _Missing as reason:
        return f"{count} variants: {_seconds(seconds)}; upstream's: {reason}", None
    told = f"{count} variants: {_seconds(seconds)}: 1/{upstream / seconds:.1f} of"
    return f"{told} {_seconds(upstream)}", seconds * EVERYWHERE_SHARE <= upstream


def _abi_operator(results: Values) -> tuple[str, bool]:
    return _by_abi(_step(results, "everywhere")["operator"])


def _moved_abi_operator(results: Values) -> tuple[str, bool]:
    moved = _step(results, "everywhere").get("other_runtime")
    if moved is None:
        raise _Missing(NOT_MEASURED)
    told, met = _by_abi(moved["operator"])
    return f"`{moved['runtime']}`: {told}", met


def _by_abi(built: Sequence[Values]) -> tuple[str, bool]:
    costs = {one["abi"]: one["user_seconds"] for one in built}
    told = ", ".join(f"{abi} {_seconds(seconds)}" for abi, seconds in costs.items())
    return told, max(costs.values()) <= OPERATOR_SECONDS


def _nothing_everywhere(results: Values) -> tuple[str, bool]:
    done = _step(results, "everywhere")
    best = min(done["nothing"])
    told = f"{best:.2f} s (least of {len(done['nothing'])}), {done['variants']} variants"
    return told, best <= EVERYWHERE_NOTHING_SECONDS


def _checkout(results: Values) -> tuple[str, bool]:
    done = _step(results, "checkout")
    seconds, compiled = done["user_seconds"], done["units_compiled"]
    told = f"{done['variants']} variants: {_seconds(seconds)}; {compiled} units compiled"
    return told, seconds <= CHECKOUT_SECONDS and compiled == 0


def _checking(results: Values) -> tuple[str, bool]:
    done = _step(results, "checkout")
    checking = done.get("checking")
    if checking is None:
        raise _Missing(NOT_MEASURED)
    share = 100 * checking["cpu_seconds"] / done["user_seconds"]
    files = f"{checking['objects']:,} files of {checking['bytes'] / 1e6:.0f} MB"
    told = f"{share:.1f} %: {checking['cpu_seconds']:.2f} s, user and system, for {files}"
    return told, share <= CHECKING_SHARE


def _hardening(results: Values) -> tuple[str, bool]:
    without = _step(results, "hardening")
    size, bare = _step(results, "first")["stripped_bytes"], without["stripped_bytes"]
    share = 100 * (size - bare) / bare
    medians, least = without["ratio_of_medians"], without["ratio_of_least"]
    told = f"{size - bare:,} bytes ({share:.2f} %); latency: medians {medians:.3f}, least times"
    return f"{told} {least:.3f}", share <= HARDENING_SHARE


def _peak(results: Values) -> tuple[str, bool]:
    peaks = {name: value for name, value in _peaks(results).items() if value}
    if not peaks:
        raise _Missing(NOT_MEASURED)
    worst = max(sorted(peaks), key=lambda name: peaks[name])
    return f"{peaks[worst] / 1e6:.0f} MB (step `{worst}`)", peaks[worst] <= PEAK_BYTES


def _peaks(results: Values) -> dict[str, int]:
    found = {}
    for name, step in results["steps"].items():
        measured = step.get("measured", {})
        each = [measured, *measured.get("apps", []), *measured.get("other_runtimes", [])]
        found[name] = max(one.get("peak_bytes", 0) for one in each)
    return found


def render(results: Values) -> str:
    """RESULTS.md."""
    parts = [
        "# Results\n",
        "Written by `benchmarks/render.py` from `results.json`; see `README.md` for how each is"
        " measured. CPU is user seconds of all processes of a step. Everything below is of one"
        f" run{', unless said here' if results.get('note') else ''}.\n",
        f"**{results['note']}**\n" if results.get("note") else "",
        _table(("measure", "target", "measured", "met"), [_cells(row) for row in rows(results)]),
        "## Machine\n",
        "".join(f"- {name}: {fact}\n" for name, fact in results["machine"].items()),
        _upstream_part(results),
    ]
    return "\n".join(part for part in parts if part)


def _cells(row: Row) -> tuple[str, ...]:
    met = {True: "yes", False: "**no**", None: "-"}[row.met]
    return row.measure, row.target, row.measured, met


def _upstream_part(results: Values) -> str:
    try:
        upstream = _step(results, "upstream")
    except _Missing as reason:
        return f"## Upstream's cost\n\n{reason}.\n"
    measured = len(upstream["sample"])
    own = [one for one in upstream["sample"] if one["family"] not in FAMILIES]
    thin = ""
    if len(own) < LEAST_SAMPLE:
        thin = f" **Fewer than {LEAST_SAMPLE} of PyTorch's own: a trial only.**"
    families = [
        (
            family["family"],
            str(family["units"]),
            str(family["measured"]),
            f"{family['mean_seconds']:.2f}",
            f"{family['total_seconds']:,.1f}",
        )
        for family in upstream["families"]
    ]
    flags = [f"- {name}: `{text}`\n" for name, text in sorted(upstream["flags"].items())]
    return "\n".join(
        [
            "## Upstream's cost\n",
            f"Its build compiles {upstream['units']} units whatever the selection. {measured} of"
            f" them were compiled in this run, with upstream's flags and selection header and"
            f" the same compiler, and each family was scaled by its mean:"
            f" {_seconds(upstream['seconds'])} (standard error"
            f" {_seconds(upstream['standard_error'])}). Upstream's code generation"
            f" ({_seconds(upstream['generation_seconds'])}) and its links are not counted;"
            f" ours are.{thin}\n",
            _table(("family", "units", "measured", "mean CPU s", "all, CPU s"), families),
            "Flags:\n",
            "".join(flags),
            *_deviations(upstream.get("deviations", ())),
            _not_compiled(upstream["not_compiled"]),
            _sample_table(upstream["sample"]),
        ]
    )


def _deviations(told: Sequence[str]) -> list[str]:
    if not told:
        return []
    lines = [f"- {one}\n" for one in told]
    head = "Where this deviates from upstream's build, which makes upstream cheaper, or neither:\n"
    return [head, "".join(lines)]


def _not_compiled(units: Sequence[Values]) -> str:
    if not units:
        return "Every unit of the sample was compiled.\n"
    lines = [f"- `{one['unit']}`: {one['why']}\n" for one in units]
    return "Not compiled here, and counted at the mean of their family:\n\n" + "".join(lines)


def _sample_table(sample: Sequence[Values]) -> str:
    cells = [
        (one["family"], f"`{one['unit']}`", one["flag"], f"{one['seconds']:.2f}") for one in sample
    ]
    return "The sample:\n\n" + _table(("family", "unit", "", "CPU s"), cells)


def _table(head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *cells]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f} s"


def main(arguments: Sequence[str]) -> int:
    """Render `results.json` of a folder (this one) beside it."""
    folder = Path(arguments[0]) if arguments else Path(__file__).parent
    text = render(json.loads((folder / "results.json").read_text()))
    (folder / "RESULTS.md").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
