"""Exports architectures of the zoo in a Python with torch, and says what came of each as JSON.

python worker.py FOLDER NAME...     FOLDER takes the models; without names: all of them
--measured      also times them, and writes calls with what they give: see benchmarks/zoo.py
"""

from __future__ import annotations

import json
import sys
import time
import traceback
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from architectures import TIMM, TORCHAUDIO, TORCHVISION, TRANSFORMERS, Architecture
from own import OWN

from orchestrator.export.calls import Call, Invoke, further, least_times, lite, run
from orchestrator.export.refusal import Refused
from orchestrator.export.saving import Export, Exported, export, prepare, told
from orchestrator.export.values import copied, to_json

ZOO: Mapping[str, Architecture] = {**OWN, **TRANSFORMERS, **TIMM, **TORCHVISION, **TORCHAUDIO}


def exported(name: str, folder: Path, pytorch: str, measured: bool) -> dict[str, Any]:
    """How one went in."""
    its = ZOO[name]
    row: dict[str, Any] = {"name": name, "package": its.package}
    started = time.process_time()
    try:
        prepare()
        module = its.make()
        made = export(
            name,
            Export(module, its.inputs(), compiled="any"),
            pytorch=pytorch,
            stage=lambda _: None,
        )
    except Refused as error:
        return row | {"refused": error.kind, "why": told(error)[:500]}
    except Exception as error:
        return row | {
            "refused": "bug",
            "why": traceback.format_exc()[-3000:],
            "type": repr(error)[:200],
        }
    (folder / f"{name}.ptl").write_bytes(made.data)
    counts: dict[str, int] = {}
    for call in made.comparison:
        counts[call["result"]] = counts.get(call["result"], 0) + 1
    operators = torch.jit.mobile._export_operator_list(
        torch.jit.mobile._load_for_lite_interpreter(str(folder / f"{name}.ptl"))
    )
    if measured:
        given, expected = given_and_made(made)
        (folder / f"{name}.calls.json").write_text(json.dumps(given))
        (folder / f"{name}.expected.json").write_text(json.dumps(expected))
        row |= {"times": times(its, made)}
    return row | {
        "via": made.via,
        "operators": sorted(operators),
        "bytes": len(made.data),
        "largest": made.largest,
        "calls": counts,
        "why": sorted({call["why"] for call in made.comparison if "why" in call}),
        "notes": made.notes,
        "seconds": round(time.process_time() - started, 1),
    }


def given_and_made(made: Exported) -> tuple[list[Any], list[Any]]:
    """Calls, at the sizes of the example and at others, one after the other, as the model runner
    reads them; and what torch's lite interpreter gives, as `random` where that depends on the
    seed."""
    calls = [*made.calls, *(one for one in further(made.calls[:1]) if "random" not in one.kind)]
    taken: list[Call] = []
    for one in calls:
        # behind the others: they may keep something that one does not fit
        model = lite(made.data)
        if not [run(model, each).error for each in (*taken, one)][-1]:
            taken.append(one)
    first, second = (
        [*map(partial(_given, model), taken)] for model in (lite(made.data), _reseeded(made.data))
    )
    given = [{"method": one.method, "args": [to_json(arg) for arg in one.args]} for one in taken]
    pairs = zip(first, second, strict=True)
    return given, [one if one == other else {"random": one} for one, other in pairs]


def _reseeded(data: bytes) -> Invoke:
    """The model with other random numbers than `run` gives it."""
    model = lite(data)

    def invoke(method: str, *args: Any) -> Any:
        torch.manual_seed(11)
        return model(method, *args)

    return invoke


def _given(model: Invoke, call: Call) -> Any:
    return to_json(run(model, call).value[0])


def times(its: Architecture, made: Exported) -> list[float]:
    """Microseconds of CPU of the example: in eager PyTorch, and in the lite interpreter."""
    rows, module = its.inputs(), its.make()
    row = rows[made.calls[0].method][0] if isinstance(rows, Mapping) else rows[0]
    args, kwargs = ((), row) if isinstance(row, Mapping) else (row, {})

    def eager(method: str, *_: Any) -> Any:
        return getattr(module, method)(*copied(args), **copied(dict(kwargs)))

    try:
        return [least_times([one], made.calls[:1])[0] for one in (eager, lite(made.data))]
    except (RuntimeError, IndexError):
        # a state that is full after some calls
        return []


def main(arguments: list[str]) -> int:
    """Print a line for each."""
    measured = "--measured" in arguments
    folder, *names = (one for one in arguments if one != "--measured")
    warnings.simplefilter("ignore")
    for name, its in ZOO.items():
        if names and name not in names and its.package not in names:
            continue
        print(json.dumps(exported(name, Path(folder), "2.6.0", measured)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
