"""Compares estimates of `plan` with the libraries that were built of the same declarations.

    ./orchestrate build //... && ./orchestrate size //... --quiet
    .venv/bin/python -m benchmarks.estimates . --tuned '*'
    .venv/bin/python -m benchmarks.estimates FOLDER --tuned albert    # adds rows

The rows of `estimates.json` are those of all workspaces that were compared, and say of which apps
the weights in `orchestrator/size/estimate.py` were fitted to: only the others tell what an estimate
is worth for an app of somebody else's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from orchestrator.build.explaining.kept_sizes import sizes_in
from orchestrator.values.labels import VariantLabel

HERE: Final = Path(__file__).parent
_RECORD: Final = HERE / "estimates.json"
_PAGE: Final = HERE / "ESTIMATES.md"


def main(argv: Sequence[str] | None = None) -> int:
    """Compare a workspace's libraries, and write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--tuned", default="", help="apps that weights were fitted to, or `*`")
    arguments = parser.parse_args(argv)
    tuned = arguments.tuned.split(",")
    known = json.loads(_RECORD.read_text(encoding="utf-8"))["rows"] if _RECORD.exists() else []
    new = compared(arguments.workspace, tuned)
    kept = [row for row in known if _key(row) not in set(map(_key, new))]
    rows = sorted(kept + new, key=_key)
    _RECORD.write_text(json.dumps({"format": 1, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    _PAGE.write_text(page(rows), encoding="utf-8")
    return 0


def compared(workspace: Path, tuned: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each library that is there."""
    sizes = sizes_in(workspace / "dist")
    labels = sorted(str(VariantLabel(*one)) for one in sizes)
    words = ["plan", *labels, "--json", "--quiet", "--workspace", str(workspace)]
    begun = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "orchestrator", *words], capture_output=True, check=True
    )
    seconds = round(time.monotonic() - begun, 1)
    plan = json.loads(ran.stdout)["variants"]
    return [
        {
            "app": one["app"],
            "abi": one["abi"],
            "runtime": sizes[one["app"], one["abi"]].made["runtime"],
            "models": len(_manifest(workspace, one)["models"]),
            "bytes": sizes[one["app"], one["abi"]].size,
            "estimated": one["estimated_bytes"],
            "tuned": "*" in tuned or one["app"] in tuned,
            "plan_seconds": seconds,
        }
        for one in plan
        if (one["app"], one["abi"]) in sizes and one["estimated_bytes"] is not None
    ]


def _manifest(workspace: Path, one: Mapping[str, Any]) -> dict[str, Any]:
    path = workspace / "dist" / one["app"] / one["abi"] / "manifest.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["app"], row["abi"]


def off(row: Mapping[str, Any]) -> float:
    """Per cent that an estimate is above the library."""
    return 100 * (float(row["estimated"]) / float(row["bytes"]) - 1)


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """ESTIMATES.md."""
    others = [row for row in rows if not row["tuned"]]
    lines = [
        "# Estimates of library sizes\n",
        "What `plan` estimates before a build, and the libraries as delivered. Rewritten by"
        " `benchmarks/estimates.py`.\n",
        f"- libraries whose apps the weights were fitted to: {_worst(rows, others)}",
        f"- libraries of other apps: {_worst(others, ())}",
        *(f"  - {kind}: {_worst(of, ())}" for kind, of in _kinds(others).items()),
        "",
        "| app | models | runtime | ABI | library | estimated | off | fitted to |",
        "|---|---:|---|---|---:|---:|---:|---|",
    ]
    lines += [
        f"| {row['app']} | {row['models']} | {row['runtime']} | {row['abi']} | {row['bytes']:,} |"
        f" {row['estimated']:,} | {off(row):+.1f} % | {'yes' if row['tuned'] else 'no'} |"
        for row in sorted(rows, key=lambda row: -abs(off(row)))
    ]
    return "".join(f"{line}\n" for line in lines)


def _kinds(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The rows of each runtime and ABI."""
    found = dict[str, list[Mapping[str, Any]]]()
    for row in sorted(rows, key=lambda row: (row["runtime"], row["abi"])):
        found.setdefault(f"{row['runtime']} for {row['abi']}", []).append(row)
    return found


def _worst(rows: Iterable[Mapping[str, Any]], without: Sequence[Mapping[str, Any]]) -> str:
    chosen = [row for row in rows if row not in without]
    if not chosen:
        return "none"
    worst = max(chosen, key=lambda row: abs(off(row)))
    label = f"{worst['app']}:{worst['abi']}"
    models = sum({row["app"]: row["models"] for row in chosen}.values())
    return f"{len(chosen)}, of {models} models, at most {abs(off(worst)):.1f} % off ({label})"


if __name__ == "__main__":
    sys.exit(main())
