"""Files of torch.export.save, in real torch: converted, and kept from running what they hold."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from torch_python import torch_python

from orchestrator.canonical.convert import Converted
from orchestrator.canonical.programs import ProgramUnreadableError, convert_program
from orchestrator.canonical.python import find_python
from orchestrator.export.tolerances import TOLERANCES
from orchestrator.models.programs import read_program
from orchestrator.system.process import LOCAL
from orchestrator.verify.inputs_file import read_inputs_file

pytestmark = pytest.mark.ci_only

SAVE = """
import sys, torch
from torch import nn
from torch.export import Dim, export, save

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(1))
    def forward(self, x, *, scale):
        if x.shape[0] % 2 == 0:
            x = x * 2
        self.seen.add_(1)
        return {"out": self.layer(x) * scale, "seen": self.seen + 0}

torch.manual_seed(0)
sizes = {"x": {0: Dim.AUTO(max=64)}, "scale": None}
args = (torch.randn(6, 4),), {"scale": torch.ones(1)}
save(export(Net().eval(), *args, dynamic_shapes=sizes), sys.argv[1])
"""
CALL = """
import json, sys, torch
from torch.jit.mobile import _load_for_lite_interpreter
model, said = _load_for_lite_interpreter(sys.argv[1]), []
for rows in (6, 8, 3, 66):
    try:
        made = model.run_method("forward", torch.ones(rows, 4), torch.ones(1))
        said.append([list(made["out"].shape), float(made["seen"])])
    except torch.jit.Error as error:
        said.append(str(error).splitlines()[0])
print(json.dumps(said))
"""


def run(*words: str) -> str:
    argv = [torch_python(), "-P", "-W", "ignore", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("program") / "net.pt2"
    run("-c", SAVE, str(file))
    return file


def convert(file: Path) -> Converted:
    python = find_python(torch_python(), os.environ, LOCAL)
    asked = (file, "net.pt2", "net", None, "1.13.1", TOLERANCES)
    return convert_program(*asked, python, os.environ, LOCAL)


def test_a_program_becomes_a_model(program: Path, tmp_path: Path) -> None:
    done = convert(program)
    assert done.largest == 0.0
    assert done.notes == (
        "the result is dict(out: Tensor, seen: Tensor)",
        "size 1 of x is always 4: as it was exported",
        "size 0 of scale is always 1: as it was exported",
    )
    assert {call.why for call in done.comparison if call.result == "refused"} <= {None}
    file, inputs = tmp_path / "net.ptl", tmp_path / "net.json"
    file.write_bytes(done.made)
    inputs.write_bytes(done.inputs)
    # the inputs that it was exported with, in the order of the model's arguments
    (call,) = json.loads(read_inputs_file(inputs, "net.json", read_program(program).own_methods))
    assert [one["tensor"]["shape"] for one in call["args"]] == [[6, 4], [1]]
    # its guards and ranges are checks, its buffer is state
    assert json.loads(run("-c", CALL, str(file))) == [
        [[6, 3], 1.0],
        [[8, 3], 2.0],
        "the module takes another way unless Eq(Mod((size 0 of x), 2), 0)",
        "size 0 of x must be at most 64",
    ]


def test_torch_unpickles_tensors_alone(program: Path, tmp_path: Path) -> None:
    """Where the check of pickles had let one through, torch would still make nothing of it."""
    other = tmp_path / "net.pt2"
    script = (
        "from pathlib import Path\n"
        "import torch; from orchestrator.export.program import loaded\n"
        "from orchestrator.export.refusal import Refused\n"
        "import io, os, zipfile\n"
        "class Calls:\n"
        f"    def __reduce__(self): return os.mkdir, ({str(tmp_path / 'ran')!r},)\n"
        "out = io.BytesIO(); torch.save(((Calls(),), {}), out)\n"
        f"old, new = zipfile.ZipFile({str(program)!r}), zipfile.ZipFile({str(other)!r}, 'w')\n"
        "for entry in old.infolist():\n"
        "    its = 'sample_inputs' in entry.filename\n"
        "    new.writestr(entry.filename, out.getvalue() if its else old.read(entry))\n"
        "new.close()\n"
        f"try: loaded._programs(Path({str(other)!r}))\n"
        "except Refused as error: print(error.kind)\n"
    )
    root = Path(__file__).parents[2]
    assert run("-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{script}") == "load\n"
    assert not (tmp_path / "ran").exists()


def test_a_program_that_torch_cannot_read(program: Path, tmp_path: Path) -> None:
    from program_toy import records, write

    with pytest.raises(ProgramUnreadableError) as caught:
        convert(write(tmp_path / "toy.pt2", records()))
    assert "error: torch cannot read this program\n" in caught.value.render()
