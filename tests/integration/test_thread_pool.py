"""Libraries with threads: the same results, threads that come and go as they should."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from driving import call, numbers, tensor, traced_alone, verified_layers
from real import CONSUMERS, EACH_RUNTIME, ROOT, orchestrator, workspace_copy
from zig_tool import zig

pytestmark = pytest.mark.real

LAYERS = Path(__file__).parent / "apps" / "layers"


def built(root: Path, app: str, threads: str) -> Path:
    """The library of an app with so many threads; a copy, since the next build takes its place."""
    declared = root / "apps" / app / "app.yaml"
    before = declared.read_text()
    declared.write_text(before + f"threads: {threads}\n")
    ran = orchestrator("build", f"//apps/{app}:linux-x86_64", "--quiet", cwd=root)
    declared.write_text(before)
    assert ran.code == 0, ran.err
    copy = root / f"{app}-{threads}.so"
    copy.write_bytes((root / f"dist/{app}/linux-x86_64/lib/lib{app}_torch.so").read_bytes())
    return copy


def test_threads_come_and_go(tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    without, library = built(root, "camera", "1"), built(root, "camera", "2")
    other = root / "other.so"
    other.write_bytes(library.read_bytes())
    assert 0 < library.stat().st_size - without.stat().st_size < 16_000
    program = root / "threads"
    flags = ("-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror")
    source = CONSUMERS / "threads/main.c"
    include = f"-I{ROOT / 'orchestrator/native/capi'}"
    zig("cc", *flags, include, source, "-lpthread", "-ldl", "-o", program)
    model = root / "apps/camera/models/classifier.ptl"
    done = subprocess.run(
        [str(program), str(library), str(other), str(without), str(model)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


@pytest.mark.ci_only
@pytest.mark.parametrize("runtime", EACH_RUNTIME)
def test_every_layer_gives_the_same_with_several_threads(runtime: str, tmp_path: Path) -> None:
    root, _ = traced_alone(LAYERS, tmp_path, runtime)
    declared = root / "apps/layers/app.yaml"
    x = tensor(*(i % 17 / 17 for i in range(33 * 40)), shape=[33, 4, 10])
    outputs = []
    for threads in ("1", "2"):
        built(root, "layers", threads)
        (item,) = (
            item
            for key, item in call(root, "layers", "features", x, model="layers")["output"]["dict"]
            if key == {"string": "out"}
        )
        outputs.append(numbers(item))
    assert outputs[1] == pytest.approx(outputs[0], rel=1e-5, abs=1e-6)
    declared.write_text(declared.read_text() + "threads: 2\n")
    ran = orchestrator("verify", "//apps/layers", "--quiet", cwd=root)
    verified = verified_layers("also at CPU level baseline, with 1 and 2 threads")
    assert (ran.code, ran.err, ran.out) == (0, "", verified)
