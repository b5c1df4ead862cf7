"""Random modules of PyTorch: what a delivered library gives is what eager PyTorch gives.

Each is written by a grammar (`random_modules.py`), scripted, saved, and called in a sequence, whose
results, inputs and state are compared: eager, torch's lite interpreter, the library with its
kernels and with PyTorch's own, one thread and several, each CPU level; and what `export model`
makes of it. One library has all operators of the grammar: no module is compiled. A failure prints a
module that was made small. Where the library with PyTorch's own kernels differs from torch as the
other does, and one of both only raises, the versions differ.

Part of `./check --campaigns`: torch is a download of 200 MB.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pytest
import yaml
from cpu_levels import processor_levels
from harness import Campaign
from module_operators import OPERATORS, starting_model
from random_modules import Call, Drawn, Given, module_of, random_choices, shrunk
from real import ROOT, orchestrator, workspace_copy
from shipped_index import shipped
from torch_python import torch_python

from orchestrator.pytorch.v2_6.dialect import DIALECT

pytestmark = [pytest.mark.real, pytest.mark.full_only]

WORKER = ROOT / "tests/support/module_worker.py"
LIBRARIES = ("auto_libtorch:1", "auto_libtorch:3", "native_libtorch:1")
# of one worker: torch keeps what it compiled
MODULES = 300


def _written(*lines: str) -> Drawn:
    """A linear layer whose weight `forward` writes to; a method gives it away."""
    body = "\n".join(f"        {line}" for line in ("y = F.linear(x0, self.w)", *lines, "return y"))
    source = f"""class Random(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer('w', torch.ones(2, 2))
        self.register_buffer('u', torch.ones(2, 2))

    def forward(self, x0: Tensor, n: int = 2):
{body}

    @torch.jit.export
    def weights(self, n: int = 2):
        return self.w

    @torch.jit.export
    def double(self, x0: Tensor, n: int = 2):
        return x0.mul_(2)
"""
    new = Given((2, 2), "float32", "contiguous", 0)
    forward, weights = Call("forward", (new, 2)), Call("weights", (2,))
    double = Call("double", (dataclasses.replace(new, earlier=1), 2))
    return Drawn(source, (forward, weights, double, forward, forward), 0)


WRITTEN = (
    _written(),
    _written("t = [self.w] + [self.u]", "t[0].mul_(2)"),
    _written("t = [self.w, self.u]", "t[:1][0].mul_(2)"),
    _written("t = {'a': self.w}", "list(t.values())[0].mul_(2)"),
)

# A row whose mean has a square beyond all floats: PyTorch's layer norm adds up infinity times 0
# where a row is narrower than its vectors, and gives no number; in a wider one it gives the shift,
# as ours does in all.
BEYOND = Drawn(
    """class Random(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, x0: Tensor, n: int = 2):
        return self.norm(x0 * 1e38)
""",
    (Call("forward", (Given((2, 4), "float32", "contiguous", 0), 2)),),
    0,
)


class Worker:
    """A process of torch's Python that runs modules; another one where it dies."""

    def __init__(self, engines: Sequence[str], wheels: Path, **env: str) -> None:
        self._argv = [torch_python(), "-P", str(WORKER), str(ROOT), *engines]
        self._env = {**os.environ, "PYTHONPATH": str(wheels), **env}
        self._stage = wheels / "stage"
        self._process: subprocess.Popen[str] | None = None
        self._asked = 0

    def ask(self, drawn: Drawn) -> dict[str, Any]:
        """What the worker says; {"state": "crash"} where it died."""
        if self._asked == MODULES:
            self.end()
        process = self._process = self._process or self._started()
        self._asked += 1
        question: IO[str] | None = process.stdin
        answers: IO[str] | None = process.stdout
        assert question is not None
        assert answers is not None
        question.write(json.dumps(dataclasses.asdict(drawn)) + "\n")
        question.flush()
        answer = answers.readline()
        if answer:
            return dict(json.loads(answer))
        self.end()
        last = self._stage.read_text("utf-8", "replace").splitlines()[-3:]
        return {"state": "crash", "wrong": [["crash", f"{process.returncode}: {last}"]]}

    def end(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait()
        self._process, self._asked = None, 0

    def _started(self) -> subprocess.Popen[str]:
        with self._stage.open("w") as stage:
            return subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stage,
                env=self._env,
                text=True,
            )


def failure(answer: dict[str, Any]) -> tuple[str, str] | None:
    """The engine that is wrong, and how: the same for failures of one kind."""
    wrong = dict(answer.get("wrong", ()))
    if not wrong or (set(LIBRARIES) <= set(wrong) and all(map(_raises, wrong.values()))):
        return None
    engine, text = next(iter(wrong.items()))
    return engine, re.sub(r"[-\d.e+]+", "#", text.partition("\n")[0])[:50]


def _raises(text: str) -> bool:
    return " parts, not " in text or "Error: " in text.partition(", not")[0]


def failures(worker: Worker, campaign: Campaign, short: int, long: int) -> list[str]:
    found = dict[tuple[str, str], str]()
    ran = 0
    for number, rng in campaign.tries(short, long):
        choices = random_choices(rng)
        answer = worker.ask(module_of(choices))
        ran += answer["state"] == "ran"
        kind = failure(answer)
        if kind is not None and kind not in found:

            def fails(drawn: Drawn, kind: tuple[str, str] = kind) -> bool:
                return failure(worker.ask(drawn)) == kind

            small = shrunk(choices, fails)
            told = worker.ask(small).get("wrong")
            found[kind] = f"try {number}: {small!r}{json.dumps(told, indent=1)}"
    worker.end()
    assert ran > 0
    return list(found.values())


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages `auto_libtorch` and `native_libtorch`, of all operators of the grammar."""
    folder = tmp_path_factory.mktemp("random")
    root = workspace_copy(folder)
    interpreters = {
        str(one.operator).partition(".")[0]
        for one in shipped(DIALECT).registrations
        if one.key in ("jit", "promoted")
    }
    known = {str(one.operator).partition(".")[0] for one in shipped(DIALECT).registrations}
    named = {f"aten::{name}" for name in OPERATORS} & known
    named |= {one for one in interpreters if one.startswith(("aten::", "prim::"))}
    for kernels in ("auto", "native"):
        app = root / "apps" / kernels
        (app / "models").mkdir(parents=True)
        (app / "models/start.ptl").write_bytes(starting_model())
        declared = {
            "models": [
                {"file": "models/start.ptl", "inputs": [{"args": [{"shape": [2], "fill": "ones"}]}]}
            ],
            "targets": ["linux-x86_64"],
            "kernels": kernels,
            "threads": "cores",
            "packages": ["wheel"],
            "cpu": {"x86_64": ["avx2", "avx512"]},
            "extra": dict.fromkeys(sorted(named), "random modules"),
        }
        (app / "app.yaml").write_text(yaml.safe_dump(declared))
    for verb in ("trace", "build"):
        ran = orchestrator(verb, "//...", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
    made = folder / "wheels"
    for wheel in root.glob("dist/*/packages/*.whl"):
        with zipfile.ZipFile(wheel) as opened:
            opened.extractall(made)
    shutil.rmtree(root)
    return made


LEVELS = ("baseline", *(one for one in ("avx2", "avx512") if one in processor_levels()))


@pytest.mark.parametrize("level", LEVELS)
def test_a_library_gives_what_eager_gives(wheels: Path, campaign: Campaign, level: str) -> None:
    worker = Worker(LIBRARIES, wheels, LTA_CPU_LEVEL=level)
    assert "\n".join(failures(worker, campaign, 60, 7000)) == ""


def test_weights_that_are_written_to_by_another_name(wheels: Path) -> None:
    worker = Worker(LIBRARIES, wheels)
    answers = [worker.ask(drawn) for drawn in WRITTEN]
    worker.end()
    assert [(answer["state"], answer["wrong"]) for answer in answers] == [("ran", [])] * 4


@pytest.mark.xfail(strict=True, reason="depends on the width of PyTorch's vectors: see BEYOND")
def test_a_layer_norm_of_numbers_whose_squares_are_beyond_floats(wheels: Path) -> None:
    worker = Worker(LIBRARIES, wheels)
    answer = worker.ask(BEYOND)
    worker.end()
    assert (answer["state"], answer["wrong"]) == ("ran", [])


@pytest.mark.parametrize("way", ["script", "export"])
def test_an_exported_module_gives_what_it_gave(
    tmp_path: Path, campaign: Campaign, way: str
) -> None:
    assert "\n".join(failures(Worker([way], tmp_path), campaign, 10, 2000)) == ""
