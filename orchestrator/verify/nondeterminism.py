"""Outputs that differ from run to run: which parts of them can be compared.

Contract: pure. `deterministic_part` takes the results of a model's repeated runs and returns the
first one, with every value that differs in another run replaced by what all runs agree on, so that
`compare_results` checks only that. `uncompared` lists the positions of those values afterwards.

A model that draws random numbers returns other values in every process, since PyTorch seeds its
generator from the machine's (`at::detail::getDefaultCPUGenerator`); so does one that returns
uninitialised memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.verify.compare import UNSTEADY, key_text, run_name, same_value


def deterministic_part(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The first result, reduced to what all of them agree on."""
    first, *others = results
    runs = []
    for run in first["runs"]:
        outputs = [o["output"] for other in others for o in other["runs"] if _same_call(run, o)]
        whole = run["output"] is not None and all(output is not None for output in outputs)
        runs.append(
            {**run, "output": _deterministic_part(run["output"], outputs)} if whole else run
        )
    return {**first, "runs": runs}


def uncompared(result: Mapping[str, Any]) -> tuple[str, ...]:
    """The places whose values play no part in a comparison: `forward[0] output[1]`.

    They are those that `deterministic_part` marked, and values that the runner cannot inspect (a
    device, a complex number).
    """
    return tuple(
        f"{run_name(run)} {place}"
        for run in result["runs"]
        if run["output"] is not None
        for place in _open(run["output"], "output")
    )


def _same_call(run: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return run_name(run) == run_name(other)


def _deterministic_part(
    value: Mapping[str, Any], others: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    if all(same_value(value, other) for other in others):
        return value
    kind, content = next(iter(value.items()))
    if any(next(iter(other)) != kind for other in others):
        return {UNSTEADY: "any"}
    contents = [other[kind] for other in others]
    if kind == "tensor" and all(
        (c["dtype"], c["shape"]) == (content["dtype"], content["shape"]) for c in contents
    ):
        return {kind: {"dtype": content["dtype"], "shape": content["shape"], UNSTEADY: True}}
    if kind in ("list", "tuple") and all(len(c) == len(content) for c in contents):
        items = zip(content, *contents, strict=True)
        return {kind: [_deterministic_part(item, rest) for item, *rest in items]}
    if kind == "dict" and all(_same_keys(content, c) for c in contents):
        entries = zip(content, *contents, strict=True)
        return {
            kind: [[e[0], _deterministic_part(e[1], [r[1] for r in rest])] for e, *rest in entries]
        }
    return {UNSTEADY: kind}


def _same_keys(entries: Sequence[Sequence[Any]], others: Sequence[Sequence[Any]]) -> bool:
    return len(entries) == len(others) and all(
        same_value(entry[0], other[0]) for entry, other in zip(entries, others, strict=True)
    )


def _open(value: Mapping[str, Any], place: str) -> Iterator[str]:
    kind, content = next(iter(value.items()))
    if kind in (UNSTEADY, "other") or (kind == "tensor" and UNSTEADY in content):
        yield place
    elif kind in ("list", "tuple"):
        for index, item in enumerate(content):
            yield from _open(item, f"{place}[{index}]")
    elif kind == "dict":
        for key, item in content:
            yield from _open(item, f"{place}[{key_text(key)}]")
