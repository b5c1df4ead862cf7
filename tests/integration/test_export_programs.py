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
SCRIPTED = {"counter", "steps", "choice", "objects", "part", "windows", "named", "packed"}
CHECKED = {
    "parts": [
        "the module takes another way unless (Mod((size 1 of x), 3)) <= 1",
        "the module takes another way unless (Mod((size 1 of x), 3)) > 0",
    ],
    "root": ["size 1 of x must be 5"],
    "sizes": [
        "the module takes another way unless Eq(Mod((size 0 of x), 2), 0) (own.py:LINE)",
    ],
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
    assert len(rows) == 39
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


MEMORY = """
import resource, sys, torch
from torch import nn
from orchestrator.export.saving import Export, export, prepare
prepare()

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

net = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(4))).eval()
x, size = torch.randn(4, 2048), sum(one.nbytes for one in net.parameters())
program = torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
torch.export.save(program, sys.argv[1])
export("small", Export(nn.Linear(2, 2), [(torch.randn(4, 2),)], sys.argv[2]), pytorch="2.6.0")
before = peak()
export("net", Export(net, [(x,)], sys.argv[2], bundled=False), pytorch="2.6.0")
print((peak() - before) / size)
"""


@pytest.mark.parametrize("via", ["export", "script"])
def test_weights_are_in_memory_twice_at_most(via: str, tmp_path: Path) -> None:
    """Besides those of the module: in what is saved, then in a model that is compared with it."""
    done = run("-c", MEMORY, str(tmp_path / "net.pt2"), via)
    assert done.returncode == 0, done.stderr[-4000:]
    assert float(done.stdout) < 2.2


ASK = """
import io, json, sys, torch
from pathlib import Path
from torch import nn
from orchestrator.export.places import is_torchs
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
        with open(sys.argv[0]):
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

class Adapts(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x):
        self.scale.add_(1)
        return x * self.scale

class Sorts(nn.Module):
    def forward(self, x):
        found = [(float(x[0]), [0])]
        if x.sum() > 0:
            found.append((0.0, [1]))
        return [one[0] for one in sorted(found)]

class Slices(nn.Module):
    def forward(self, x):
        return x[: 2**x.dim()]

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
        script = its.get("script", "").rpartition(": ")[2].partition(". ")[0]
        text = str(error).partition(". Only")[0]
        tell(kind=error.kind, text=text, code=its.get("code"), script=script)

x = [(torch.randn(2, 4),)]
lacking = ["aten::mish", "aten::layer_norm"]
made = export("x", Export(Layers(), x, compiled="export", decomposed=lacking))
model = torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(made.data))
tell(has=sorted({*lacking, "aten::tanh"} & {*torch.jit.mobile._export_operator_list(model)}))
refused(Best, x, compiled="export", decomposed=["aten::topk"])
torchs = Path(torch.__file__).parent
places = [torchs / "nn/functional.py", torchs.with_name("torchvision") / "ops/boxes.py"]
tell(torchs=[is_torchs(str(one)) for one in places])
rows = [(torch.randn(1, 5), torch.randn(1))]
refused(Way, [(torch.randn(2),)])
refused(Sorts, [(torch.randn(2),)])
refused(Slices, x, compiled="script")
refused(Open, [(torch.randn(1, 5), torch.randn(1)), (torch.randn(1, 5),)])
refused(Keeps, [(torch.randn(2),), (torch.randn(2),)])
refused(Adapts, [(torch.randn(2),)], compiled="export")
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
            "script": "",
        },
        {"torchs": [True, False]},
        {
            "kind": "export",
            "text": "Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1))."
            "  (Size-like symbols: none)",
            "code": "if x.sum() > 0:",
            "script": "Python builtin <built-in function open> is currently not supported in"
            " Torchscript",
        },
        {
            "kind": "differs",
            "text": "it fails: Contained elements in (float, int[]) are not sortable",
            "code": None,
            "script": "",
        },
        {
            "kind": "script",
            "text": "Expected a value of type 'Optional[int]' for argument 'end' but instead found"
            " type 'float'.",
            "code": "return x[: 2**x.dim()]",
            "script": "",
        },
        {
            "kind": "example inputs",
            "text": "call 1 of forward has other arguments than the first one",
            "code": None,
            "script": "",
        },
        {
            "kind": "program",
            "text": "forward keeps a tensor in past, which is no buffer: register it as one",
            "code": "self.past = past + x",
            "script": "",
        },
        {
            "kind": "program",
            "text": "scale is a parameter that a call changes: register it as a buffer",
            "code": None,
            "script": "",
        },
        *(
            {"kind": "sizes", "text": text, "code": None, "script": ""}
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


# Rewritten, or left to torch: what is written there is not fresh, is looked at, or has another
# dtype; the operator writes to statistics, or computes otherwise in place; sizes are not known.
# A later use of what is written is one of the result: torch.export follows Python's name.
REWRITTEN = """
import io, json, torch
from torch import nn
from torch.nn import functional as F
from orchestrator.export.program.capture import functional
from orchestrator.export.program.rewritten import functional_by_rewriting
from orchestrator.export.saving import Export, export, prepare

prepare()

class Net(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.way = forward

    def forward(self, input):
        return self.way(self, input)

def residual(its, x):
    y = its.norm(its.conv(x)).relu_()
    y = F.dropout(y, training=False).add_(x)
    return y.transpose(2, 3).contiguous().flatten(1), y.to(torch.float32), y.to(torch.int64)

def read_before(its, x):
    y = x * 2
    z = y + 1
    return y.relu_(), z

def seen_in_a_view(its, x):
    y = x * 2
    z = y.transpose(0, 1)
    y.relu_()
    return z

def viewed(its, x):
    y = (x * 2).transpose(0, 1)
    return y.relu_()

def seen_later(its, x):
    y = x * 2
    z = y.relu_()
    return y + z

def argument(its, x):
    return x.add_(1)

def narrower(its, x):
    return (x * 2).add_(x.double())

def dtype_kept(its, x):
    return (x * 2).eq_(0)

def dtype_of_a_sum(its, x):
    return (x.to(torch.int32) * 2).cumsum_(0)

def other_arguments(its, x):
    return (x * x + 1).polygamma_(1)

def statistics(its, x):
    mean, var = its.norm.running_mean, its.norm.running_var
    return torch.native_batch_norm(x, None, None, mean, var, True, 0.1, 1e-5)[0], mean * 1

def instance_statistics(its, x):
    mean, var = its.norm.running_mean, its.norm.running_var
    return F.instance_norm(x, mean, var, use_input_stats=True)

def instance(its, x):
    return F.instance_norm(x)

def of_values(its, x):
    return x.nonzero().contiguous()

def pieces(its, x):
    a, b = x.unflatten(2, (-1, 1)).unflatten(-1, (2, -1)).chunk(2, 0)
    return a - b, x.unflatten(-3, (1, 3))

def left_over(its, x):
    return x.unflatten(2, (1, -1))

def learning(its, x):
    return F.dropout(x, training=True).sum() * 0

def copied(its, x):
    y = x.to(torch.float32, copy=True)
    return y, x

for way in (
    *(residual, read_before, seen_in_a_view, viewed, seen_later, argument, narrower, learning),
    *(copied, dtype_kept, dtype_of_a_sum, other_arguments, statistics, instance_statistics),
    *(instance, of_values, pieces, left_over),
):
    net, x = Net(way).eval(), torch.randn(2, 3, 5, 4)
    sizes = ({2: torch.export.Dim.AUTO},) if way is left_over else None
    program = torch.export.export(net, (x.clone(),), dynamic_shapes=sizes, strict=False)
    before = str(program.graph)
    core = functional_by_rewriting(program)
    same = None
    if core is not None:
        flat = [*core.state_dict.values()]
        inputs = [core.state_dict.get(s.target) if s.target else x for s in
                  core.graph_signature.input_specs]
        seen = core.graph_module(*inputs)
        expected = net(x.clone())
        expected = expected if isinstance(expected, tuple) else (expected,)
        same = all(torch.equal(a, b) for a, b in zip(seen, expected, strict=True))
        assert not any("_." in str(n.target) for n in core.graph.nodes), core.graph
        assert functional(program, net) is not program
    assert str(program.graph) == before
    print(json.dumps([way.__name__, same]))

def written(its, x):
    y = its.norm(its.conv(x))
    z = y.transpose(2, 3)
    y.relu_()
    return z

for way in (residual, written):
    made = export("x", Export(Net(way), [(torch.randn(2, 3, 5, 4),)], compiled="export"))
    model = torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(made.data))
    named = torch.jit.mobile._export_operator_list(model)
    print(json.dumps([f"norms of {way.__name__}", [n for n in sorted(named) if "norm" in n]]))
"""


def test_what_is_functional_by_rewriting(tmp_path: Path) -> None:
    script = tmp_path / "rewritten.py"
    script.write_text(REWRITTEN)
    done = run(str(script))
    assert done.returncode == 0, done.stderr[-4000:]
    assert dict(map(json.loads, done.stdout.splitlines())) == {
        "residual": True,
        "read_before": True,
        "seen_in_a_view": None,
        "viewed": None,
        "seen_later": True,
        "argument": None,
        "narrower": None,
        "learning": None,
        "copied": None,
        "dtype_kept": None,
        "dtype_of_a_sum": None,
        "other_arguments": None,
        "statistics": None,
        "instance_statistics": None,
        "instance": True,
        "of_values": None,
        "pieces": True,
        "left_over": None,
        # folded into the convolution
        "norms of residual": [],
        "norms of written": [],
    }
