"""What is told of modules that are refused: the cause in words of the user, the line, and advice
that works.

Part of `./check --campaigns`: torch is a download of 200 MB. The modules are in
`canonical/refusals.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from test_export_state import printed

pytestmark = pytest.mark.full_only

REFUSALS: Final = Path(__file__).parent / "canonical" / "refusals.py"
# case -> kind, cause, the line's code (a traced one is the cause)
TOLD: Final[Mapping[str, tuple[str, str, str | None]]] = {
    "fork": (
        "program",
        "a model is run by one thread, without torch.jit.fork and wait",
        "other = torch.jit.fork(torch.relu, x)",
    ),
    "class": (
        "program",
        "a model takes and gives no objects of its own classes, as Box is one",
        "return Box(x)",
    ),
    "sorted objects": (
        "program",
        "a model does no sort of objects of its own classes, as Box is one",
        "boxes.sort()",
    ),
    "enumeration": (
        "program",
        "a model has no enumerations, as Colour is one",
        "return 2 if colour == Colour.BLUE else 1",
    ),
    "float for a size": (
        "original",
        "max_pool2d(): argument 'kernel_size' (position 2) must be tuple of ints, not float",
        "return self.pool(x)",
    ),
    "float, any way": (
        "original",
        "max_pool2d(): argument 'kernel_size' (position 2) must be tuple of ints, not float",
        "return self.pool(x)",
    ),
    "try": ("script", "try blocks aren't supported", "try:"),
    "lambda": (
        "script",
        "Lambda aren't supported",
        "f = lambda y: y + 1  # noqa: E731",
    ),
    "any number": (
        "script",
        "Compiled functions can't take variable number of arguments or use keyword-only arguments"
        " with defaults",
        "def forward(self, *xs: Tensor) -> Tensor:",
    ),
    "assertion": ("original", "at least five", 'assert x.size(0) > 5, "at least five"'),
    "assertion, any way": ("original", "at least five", 'assert x.size(0) > 5, "at least five"'),
    "device": (
        "original",
        "Torch not compiled with CUDA enabled",
        'return x + torch.zeros(4, device="cuda")',
    ),
    "default": (
        "script",
        "Argument raw not provided: TorchScript knows no defaults of the module's exported methods",
        "return self.head(x)",
    ),
    "engine": ("differs", "output[", None),
    "value": ("export", "", "if x.sum() > 0:"),
    "value, traced": ("control flow", "if x.sum() > 0:", None),
}


@pytest.fixture(scope="module")
def said() -> dict[str, dict[str, Any]]:
    return {one["case"]: one for one in printed(REFUSALS)}


@pytest.mark.parametrize("case", TOLD)
def test_the_cause_and_the_line_are_told_and_the_advice_works(
    said: dict[str, dict[str, Any]], case: str
) -> None:
    kind, cause, code = TOLD[case]
    told = said[case]
    assert (told["kind"], told["code"], told["then"]) == (kind, code, None)
    assert cause in told["said"]
    assert "INTERNAL ASSERT" not in told["said"]


def test_an_engine_that_computes_otherwise_is_told(said: dict[str, dict[str, Any]]) -> None:
    assert {case for case, told in said.items() if told.get("engine")} == {"engine"}
    assert said["engine"]["engine"] == "x86"
