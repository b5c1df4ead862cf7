"""Calls a delivered library's models with values of the test, through its driver."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import struct
import subprocess
from pathlib import Path
from typing import Any

from cpu_levels import processor_levels, used_levels
from elftools.elf.elffile import ELFFile
from real import V1_13, orchestrator, workspace_copy

_CODES = {"float32": "f", "float64": "d", "int64": "q"}


def traced_alone(app: Path, folder: Path, runtime: str = V1_13) -> tuple[Path, str]:
    """A workspace in `folder` whose only app is a copy of `app`, traced; what `trace` printed."""
    root = workspace_copy(folder, runtime=runtime)
    shutil.copytree(app, root / "apps" / app.name)
    traced = orchestrator("trace", f"//apps/{app.name}", "--quiet", cwd=root)
    assert traced.code == 0, traced.err
    return root, traced.out


def build_verified(root: Path) -> None:
    """Build a workspace's only variant, in which all models give what was recorded."""
    ran = orchestrator("build", "--json", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    (variant,) = json.loads(ran.out)["variants"]
    assert variant["verified"] == "ok"


def verified(app: str, model: str, runs: int, said: str, flat: str = "") -> str:
    """What `verify` prints of a model that gives what was recorded. flat: as of `flat_line`."""
    return f"//apps/{app}:linux-x86_64 {model}: ok, {runs} runs, {said}\n{flat_line(flat)}"


def flat_line(flat: str) -> str:
    """The line about a model's outputs whose numbers are all the same, if it has any."""
    return f"  numbers that are all the same prove nothing: {flat}\n" if flat else ""


def verified_layers(said: str) -> str:
    """What `verify` prints of the app `layers`."""
    runs = {"layers": 14, "changing": 2, "rows": 7, "pairs": 4, "windows": 13, "images": 6}
    runs |= {"switched": 4, "opened": 5}
    runs |= dict.fromkeys(("copied", "valued", "turned", "exact"), 2)
    flat = {
        "rows": "forward output[1] (all 1.41269), forward output[2] (all 1.41269),"
        " forward output[3] (all 0), forward output[4] (all 1), forward output[5] (all 0),"
        " numbers output[17] (all 1)",
        "pairs": "forward output[15] (none), products output[16] (all 0),"
        " products output[17] (none)",
    }
    return "".join(
        verified("layers", model, number, said, flat.get(model, ""))
        for model, number in runs.items()
    )


def levels_told(*levels: str) -> str:
    """At which of a library's CPU levels models are verified here, and which this processor lacks:
    as `verify` says it."""
    has = processor_levels()
    here, lacking = [one for one in levels if one in has], [one for one in levels if one not in has]
    own = next((one for one in reversed(here) if one in used_levels()), None)
    others = ("baseline", *(one for one in here if one != own))
    told = f"also at CPU level {', '.join(others)}"
    return f"{told}, not run here at {', '.join(lacking)}" if lacking else told


def tensor(
    *values: float, dtype: str = "float32", shape: list[int] | None = None
) -> dict[str, Any]:
    """A tensor in the driver's JSON; one-dimensional unless its shape is given."""
    data = struct.pack(f"<{len(values)}{_CODES[dtype]}", *values)
    sizes = [len(values)] if shape is None else shape
    text = base64.b64encode(data).decode()
    return {"tensor": {"dtype": dtype, "shape": sizes, "data": text}}


def numbers(value: dict[str, Any]) -> list[float]:
    """The elements of a tensor in the driver's JSON."""
    given = value["tensor"]
    data = base64.b64decode(given["data"])
    code = _CODES[given["dtype"]]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


def call(
    workspace: Path, app: str, method: str, *args: dict[str, Any], model: str = "*"
) -> dict[str, Any]:
    """What a method of the app's model gives in its linux-x86_64 library."""
    inputs, output = workspace / "inputs.json", workspace / "output.json"
    inputs.write_text(json.dumps([{"method": method, "args": args}]))
    output.unlink(missing_ok=True)  # of a call before, where this one crashes
    (file,) = (workspace / "apps" / app / "models").glob(f"{model}.ptl")
    driver = workspace / ".orchestrator/variants" / app / "linux-x86_64/driver"
    argv = [str(driver), "--model", str(file), "--inputs", str(inputs), "--output", str(output)]
    library = workspace / "dist" / app / "linux-x86_64/lib"
    subprocess.run(argv, env={**os.environ, "LD_LIBRARY_PATH": str(library)}, check=False)
    (run,) = json.loads(output.read_text())["runs"]
    return dict(run)


def reaches(workspace: Path, app: str, model: str, function: str) -> bool:
    """Whether a run of the model on its bundled inputs calls a function of its library for
    linux-x86_64: it dies of SIGTRAP in a copy in which the function begins with a breakpoint.

    function: a part of its mangled name, such as `LinearSite7compute`; all that have it count.
    """
    built = workspace / "dist" / app / "linux-x86_64"
    (symbols,) = (built / "symbols").iterdir()
    with symbols.open("rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".symtab")
        starts = [one["st_value"] for one in table.iter_symbols() if function in one.name]
    (library,) = (built / "lib").glob("*.so")
    patched = bytearray(library.read_bytes())
    with library.open("rb") as file:
        for start in starts:
            (offset,) = ELFFile(file).address_offsets(start)
            patched[offset] = 0xCC
    assert starts
    folder = workspace / "patched"
    folder.mkdir(exist_ok=True)
    (folder / library.name).write_bytes(patched)
    driver = workspace / ".orchestrator/variants" / app / "linux-x86_64/driver"
    file_of_model = workspace / "apps" / app / "models" / f"{model}.ptl"
    argv = [str(driver), "--model", str(file_of_model), "--output", str(folder / "output.json")]
    ran = subprocess.run(argv, env={**os.environ, "LD_LIBRARY_PATH": str(folder)}, check=False)
    assert ran.returncode in (0, -signal.SIGTRAP)
    return ran.returncode != 0
