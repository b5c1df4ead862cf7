"""Exports architectures of the zoo in a Python with torch, and says what came of each as JSON.

python worker.py FOLDER NAME...     FOLDER takes the models; without names: all of them
"""

from __future__ import annotations

import json
import sys
import time
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from architectures import TIMM, TORCHAUDIO, TORCHVISION, TRANSFORMERS, Architecture
from own import OWN

from orchestrator.export.refusal import Refused
from orchestrator.export.saving import Export, export, prepare, told

ZOO: Mapping[str, Architecture] = {**OWN, **TRANSFORMERS, **TIMM, **TORCHVISION, **TORCHAUDIO}


def exported(name: str, folder: Path, pytorch: str) -> dict[str, Any]:
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


def main(arguments: list[str]) -> int:
    """Print a line for each."""
    folder, *names = arguments
    warnings.simplefilter("ignore")
    for name, its in ZOO.items():
        if names and name not in names and its.package not in names:
            continue
        print(json.dumps(exported(name, Path(folder), "2.6.0")), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
