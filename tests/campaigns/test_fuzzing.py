"""Fuzzing by coverage: libFuzzer over libraries with AddressSanitizer in every unit.

`./check --campaigns tests/campaigns/test_fuzzing.py --seconds 3600` fuzzes each target for an hour.
What a crash was made from stays in the folder that the failure names; the target takes it as its
argument. A corpus that was found before goes on where FUZZING_CORPUS names a folder.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from fuzzed_records import RECORDS, SEPARATOR
from harness import Campaign
from native_runner import compile_consumer
from real import CONSUMERS, ROOT, V1_13, V2_6, orchestrator, workspace_copy
from test_native_models import (
    SANITIZING,
    any_program,
    any_tensor,
    records_of,
    sanitized,
    sanitizer_options,
)

from tests.debian import unpacked

pytestmark = [pytest.mark.real, pytest.mark.full_only]

LAYERS = ROOT / "tests/integration/apps/layers"
# Whose models are in one app, so that one library has the operators of all.
APPS = {
    V1_13: (ROOT / "apps/camera", LAYERS),
    V2_6: (LAYERS, *(ROOT / "apps" / name for name in ("assistant", "keyboard", "translator"))),
}
COVERAGE = "-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp"
# zig's libc++ tells it what of a deque is in use; GCC's runtime of Debian 12 does not know it.
NEWER = "__sanitizer_annotate_double_ended_contiguous_container"


def fuzzer() -> Path:
    """libFuzzer's main, from Debian's packages."""
    folder = unpacked("libfuzzer", ["libclang-rt-19-dev"])
    (found,) = folder.glob("usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-x86_64.a")
    return found


@pytest.fixture(scope="module", params=[V1_13, V2_6])
def delivered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library of one app that has the models of all, and those models."""
    folder = tmp_path_factory.mktemp("fuzzed")
    root = workspace_copy(folder, runtime=request.param)
    app = root / "apps/fuzzed"
    for each in APPS[request.param]:
        shutil.copytree(each / "models", app / "models", dirs_exist_ok=True)
    models = sorted((app / "models").glob("*.ptl"))
    declared = ["models:", *(f"  - file: models/{model.name}" for model in models)]
    (app / "app.yaml").write_text("\n".join([*declared, "targets: [linux-x86_64]", ""]))
    traced = orchestrator("trace", "//apps/fuzzed", "--quiet", cwd=root)
    assert traced.code == 0, traced.err
    source, missing = folder / "missing.c", folder / "missing.o"
    source.write_text(f"void {NEWER}(void) {{}}\n")
    subprocess.run(["gcc", "-c", "-fPIC", source, "-o", missing], check=True)
    made = sanitized(root, "fuzzed", folder / "delivered", [COVERAGE], [missing])
    shutil.copytree(app / "models", made / "models")
    return made


def test_hostile_inputs(campaign: Campaign, delivered: Path, tmp_path: Path) -> None:
    """Arguments of all kinds, sizes and layouts, to each method of each model."""
    models = sorted((delivered / "models").glob("*.ptl"))
    seeds = [random.Random(number).randbytes(40) for number in range(200)]
    names = os.pathsep.join(map(str, models))
    fuzz("fuzz_inputs", delivered, tmp_path, seeds, campaign, {"MODELS": names})


def test_damaged_models(campaign: Campaign, delivered: Path, tmp_path: Path) -> None:
    """Records of models, beginning with programs and tensors that are written by hand."""
    seeds = []
    for number in range(400):
        rng = random.Random(number)
        made = tmp_path / "seed.ptl"
        made.write_bytes(rng.choice((any_program, any_tensor))({}, rng))
        records = records_of(made)
        seeds.append(SEPARATOR.join(records[name] for name in RECORDS))
    fuzz("fuzz_model", delivered, tmp_path, seeds, campaign, {})


def fuzz(
    target: str,
    delivered: Path,
    folder: Path,
    seeds: Sequence[bytes],
    campaign: Campaign,
    env: Mapping[str, str],
) -> None:
    """Run a target of `consumers/` until the campaign's time is over. Fails with the crashes: what
    AddressSanitizer said, and the files that make them."""
    program = compile_consumer(
        CONSUMERS / f"{target}.c",
        folder / target,
        "fuzzed",
        delivered,
        SANITIZING,
        fuzzer(),
        "-lstdc++",
        "-lm",
    )
    corpus = Path(os.environ.get("FUZZING_CORPUS", folder / "corpus")) / target
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = sanitizer_options(max_allocation_size_mb=2048)
    given = {**os.environ, **env, "ASAN_OPTIONS": options}
    argv = [str(program), str(corpus), "-fork=1", f"-seed={campaign.seed + 1}", "-max_len=8192"]
    # a model is a program, and may run for ever
    argv += ["-ignore_crashes=1", "-ignore_timeouts=1", "-ignore_ooms=1", "-timeout=10"]
    argv += [f"-max_total_time={campaign.seconds:.0f}", f"-artifact_prefix={folder}/"]
    argv += ["-rss_limit_mb=4096"]
    done = subprocess.run(
        argv, env=given, capture_output=True, text=True, errors="replace", check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    (*_, last) = re.findall(r"^#\d+: cov: .*", done.stderr, re.MULTILINE)
    print(target, delivered, last)
    crashes = {path: _told(program, path, given) for path in sorted(folder.glob("crash-*"))}
    assert not crashes, "\n".join(f"{path}\n{told}" for path, told in list(crashes.items())[:3])


def _told(program: Path, path: Path, env: Mapping[str, str]) -> str:
    """What AddressSanitizer says of an input that crashed."""
    done = subprocess.run(
        [program, path], env=env, capture_output=True, text=True, errors="replace", check=False
    )
    lines = done.stderr.splitlines()
    at = next((at for at, line in enumerate(lines) if "Sanitizer" in line), 0)
    return "\n".join([*lines[at : at + 30], f"exit code {done.returncode}"])
