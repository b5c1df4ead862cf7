"""Modules that go through torch.export, in real torch: each kind of node, and what is refused.

The modules are the zoo's own (tests/real/export/zoo/own.py); `./check --zoo` takes all of the zoo.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from real import ROOT
from torch_python import torch_python

pytestmark = pytest.mark.ci_only

ZOO = ROOT / "tests/real/export/zoo"
# What is not as the others are: how it went in, and what its checks stop.
SCRIPTED = {"counter", "steps", "choice"}
CHECKED = {
    "parts": [
        "the module takes another way unless (Mod((size 1 of x), 3)) <= 1",
        "the module takes another way unless (Mod((size 1 of x), 3)) > 0",
    ],
    "root": ["size 1 of x must be 5"],
    "sizes": [
        "the module takes another way unless Eq(Mod((size 0 of x), 2), 0) (own.py:LINE)",
    ],
    "swap": ["size 0 of x must be 2", "size 1 of x must be 2"],
}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (ROOT, ZOO)))
    env = {**os.environ, "PYTHONPATH": path}
    argv = [torch_python(), "-P", "-W", "ignore", *words]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    done = run(str(ZOO / "worker.py"), str(tmp_path_factory.mktemp("zoo")), "own")
    assert done.returncode == 0, done.stderr[-4000:]
    return {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}


def test_each_kind_of_node(rows: dict[str, dict[str, Any]]) -> None:
    assert len(rows) == 29
    assert {name: row["why"] for name, row in rows.items() if "refused" in row} == {}
    assert {name for name, row in rows.items() if row["via"] != "export"} == SCRIPTED
    # the very kernels of torch: nothing differs but the order of sums
    assert {name for name, row in rows.items() if row["largest"] > 1e-6} == set()
    assert min(row["calls"]["same"] for row in rows.values()) >= 5


def test_checks_name_argument_and_size(rows: dict[str, dict[str, Any]]) -> None:
    said = {name: row["why"] for name, row in rows.items() if row["why"]}
    number = next(
        str(n)
        for n, line in enumerate((ZOO / "own.py").read_text().splitlines(), 1)
        if "if x.shape[0] % 2 == 0" in line
    )
    expected = {
        name: [text.replace("LINE", number) for text in texts]
        for name, texts in CHECKED.items()
        if texts
    }
    assert said == expected


def test_operators_stay_whole(rows: dict[str, dict[str, Any]]) -> None:
    assert {"aten::lstm.input", "aten::gru.input"} <= {*rows["recurrent"]["operators"]}
    assert "aten::scaled_dot_product_attention" in rows["attention"]["operators"]
    assert {"aten::linear"} <= {*rows["branch"]["operators"]}


ASK = """
import io, json, sys, torch
from torch import nn
from orchestrator.export.refusal import Refused
from orchestrator.export.saving import Export, export, prepare
from orchestrator.export.calls import lite
prepare()

class Open(nn.Module):
    def forward(self, x, y):
        return x[:, :4] + y.sum()

class Way(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        with open("x"):
            return -x

class Odd(nn.Module):
    def forward(self, x):
        return x.to_sparse().to_dense()

class Keeps(nn.Module):
    past = None

    def forward(self, x):
        past = x if self.past is None else self.past
        self.past = past + x
        return past

class Layers(nn.Module):
    def forward(self, x):
        return nn.functional.mish(nn.functional.layer_norm(x, [4]))

class Best(nn.Module):
    def forward(self, x):
        return x.topk(1).values

def tell(**given):
    print(json.dumps(given), flush=True)

def refused(make, rows, **settings):
    try:
        export("x", Export(make(), rows, **{"compiled": "any", **settings}))
        tell(kind=None)
    except Refused as error:
        its = error.facts
        tell(kind=error.kind, text=str(error), code=its.get("code"), script="script" in its)

x = [(torch.randn(2, 4),)]
lacking = ["aten::mish", "aten::layer_norm"]
made = export("x", Export(Layers(), x, compiled="export", decomposed=lacking))
model = torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(made.data))
tell(has=sorted({*lacking, "aten::tanh"} & {*torch.jit.mobile._export_operator_list(model)}))
refused(Best, x, compiled="export", decomposed=["aten::topk"])
rows = [(torch.randn(1, 5), torch.randn(1))]
refused(Way, [(torch.randn(2),)])
refused(Open, [(torch.randn(1, 5), torch.randn(1)), (torch.randn(1, 5),)])
refused(Keeps, [(torch.randn(2),), (torch.randn(2),)])
refused(Open, rows, dynamic=["z:0"])
refused(Open, rows, dynamic=["x:1=2..8", "x:1=2..9"])
refused(Open, rows, dynamic=["x:1=7..9"])
refused(Open, rows, fixed=["x:2"])
for settings, calls in (
    ({}, [((3, 6), 2)]),
    ({"fixed": ["x:0"]}, [((1, 6), 2), ((2, 6), 2)]),
    ({"sizes": "fixed", "dynamic": ["x:1=4..8"]}, [((1, 8), 1), ((1, 9), 1), ((1, 5), 2)]),
):
    model = lite(export("x", Export(Open(), rows, compiled="export", **settings)).data)
    for shape, length in calls:
        try:
            model("forward", torch.randn(shape), torch.randn(length))
            tell(takes=True)
        except torch.jit.Error as error:
            tell(takes=str(error).splitlines()[0])
"""


def test_what_is_refused_and_what_stays_open(tmp_path: Path) -> None:
    script = tmp_path / "ask.py"
    script.write_text(ASK)
    done = run(str(script))
    assert done.returncode == 0, done.stderr[-4000:]
    assert list(map(json.loads, done.stdout.splitlines())) == [
        {"has": ["aten::tanh"]},
        {
            "kind": "program",
            "text": "aten::topk: the app's PyTorch lacks it, and torch writes it in no others",
            "code": "return x.topk(1).values",
            "script": False,
        },
        {
            "kind": "export",
            "text": "Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1))."
            "  (Size-like symbols: none)",
            "code": "if x.sum() > 0:",
            "script": True,
        },
        {
            "kind": "example inputs",
            "text": "call 1 of forward has other arguments than the first one",
            "code": None,
            "script": False,
        },
        {
            "kind": "program",
            "text": "forward keeps a tensor in past, which is no buffer: register it as one",
            "code": "self.past = past + x",
            "script": False,
        },
        *(
            {"kind": "sizes", "text": text, "code": None, "script": False}
            for text in (
                "there is no argument z, but x, y",
                "size 1 of x is asked for twice, and otherwise",
                "size 1 of x is 5 in the example, not 7..9",
                "x has no dimension 2",
            )
        ),
        *(
            {"takes": text}
            for text in (
                *(True, True, "size 0 of x must be 1"),
                *(True, "size 1 of x must be at most 8", "size 0 of y must be 1"),
            )
        ),
    ]
