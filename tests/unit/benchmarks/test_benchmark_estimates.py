"""The page of estimates: the worst of those that nothing was fitted to, by runtime and ABI."""

from __future__ import annotations

from typing import Any

from benchmarks.estimates import page


def row(app: str, abi: str, runtime: str, estimated: int, tuned: bool = False) -> dict[str, Any]:
    return {
        "app": app,
        "abi": abi,
        "runtime": runtime,
        "models": 2,
        "bytes": 1_000_000,
        "estimated": estimated,
        "tuned": tuned,
    }


def test_the_worst_are_told_by_runtime_and_abi() -> None:
    rows = [
        row("a", "x", "PyTorch 2.6.0", 1_010_000),
        row("b", "x", "PyTorch 2.6.0", 950_000),
        row("b", "y", "PyTorch 1.13.1", 1_070_000),
        row("c", "x", "PyTorch 2.6.0", 1_080_000, tuned=True),
    ]
    assert page(rows) == (
        "# Estimates of library sizes\n"
        "\n"
        "What `plan` estimates before a build, and the libraries as delivered. Rewritten by"
        " `benchmarks/estimates.py`.\n"
        "\n"
        "- libraries whose apps the weights were fitted to: 1, of 2 models, at most 8.0 % off"
        " (c:x)\n"
        "- libraries of other apps: 3, of 4 models, at most 7.0 % off (b:y)\n"
        "  - PyTorch 1.13.1 for y: 1, of 2 models, at most 7.0 % off (b:y)\n"
        "  - PyTorch 2.6.0 for x: 2, of 4 models, at most 5.0 % off (b:x)\n"
        "\n"
        "| app | models | runtime | ABI | library | estimated | off | fitted to |\n"
        "|---|---:|---|---|---:|---:|---:|---|\n"
        "| c | 2 | PyTorch 2.6.0 | x | 1,000,000 | 1,080,000 | +8.0 % | yes |\n"
        "| b | 2 | PyTorch 1.13.1 | y | 1,000,000 | 1,070,000 | +7.0 % | no |\n"
        "| b | 2 | PyTorch 2.6.0 | x | 1,000,000 | 950,000 | -5.0 % | no |\n"
        "| a | 2 | PyTorch 2.6.0 | x | 1,000,000 | 1,010,000 | +1.0 % | no |\n"
    )
