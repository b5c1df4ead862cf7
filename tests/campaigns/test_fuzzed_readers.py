"""Fuzzing by coverage, of what reads files in Python: atheris, which is libFuzzer over Python's
branches.

`./check --campaigns tests/campaigns/test_fuzzed_readers.py --seconds 3600` fuzzes each target for
an hour. A file is read, or refused by an error of ours; what else it makes is told, and stays in
the
folder that the failure names. FUZZING_CORPUS as in `test_fuzzing.py`.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import zstandard
from fuzzed_records import LOCK, RECORDS, ROOT, SEPARATOR
from harness import Campaign
from shipped_index import shipped
from test_archives import made
from test_native_models import any_program, any_tensor, records_of
from wheels import from_wheel
from zig_tool import zig
from zips import zipped

from orchestrator.pytorch.v2_6.dialect import DIALECT as V2_6

pytestmark = [pytest.mark.real, pytest.mark.full_only]

ATHERIS = (
    "atheris==3.0.0 --hash=sha256:8a5c8a781467c187da40fd29139784193e2647058831f837f675d0bb8cbd8746"
)
HERE = Path(__file__).parent
# The bounds of docs/reliability.md, with room for what atheris counts.
LIMITS = ("-timeout=10", "-rss_limit_mb=1500", "-max_len=16384")
OLD_MODELS = ROOT / "tests/integration/old_models"
MANIFEST = ROOT / "tests/golden/package/texts/folder/manifest.json"


def models(folder: Path) -> Iterator[bytes]:
    for path in sorted(OLD_MODELS.glob("*.ptl")):
        yield path.read_bytes()
    for number in range(100):
        rng = random.Random(number)
        yield rng.choice((any_program, any_tensor))({}, rng)


def records(folder: Path) -> Iterator[bytes]:
    for number, data in enumerate(models(folder)):
        path = folder / f"{number}.ptl"
        path.write_bytes(data)
        held = records_of(path)
        yield SEPARATOR.join(held.get(name, b"") for name in RECORDS)


def locks(folder: Path) -> Iterator[bytes]:
    yield LOCK.read_bytes()


def archives(folder: Path) -> Iterator[bytes]:
    for number in range(200):
        yield made(random.Random(number))


def packages(folder: Path) -> Iterator[bytes]:
    members = {"t/manifest.json": MANIFEST.read_bytes(), "t/lib/libtoy_torch.so": library(folder)}
    yield zipped(members)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as written:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            written.addfile(entry, io.BytesIO(data))
    yield zstandard.ZstdCompressor().compress(out.getvalue())
    yield (
        b"!<arch>\n"
        + b"%-16s%-12s%-6s%-6s%-8s%-10d`\n"
        % (
            *(b"data.tar", b"0", b"0", b"0", b"100644"),
            len(out.getvalue()),
        )
        + out.getvalue()
    )


def manifests(folder: Path) -> Iterator[bytes]:
    """Of a library whose index we ship, with and without kernels of ours and sources."""
    made = json.loads(MANIFEST.read_text())
    made["runtime"] = {**made["runtime"], "pytorch": V2_6.version, "tree": shipped(V2_6).tree}
    made["selection"] |= {"root_operators": ["aten::lstm.input"], "backends": ["CPU"]}
    made["selection_digest"] = None
    for added in (
        {},
        {"kernels": {"features": ["linear"], "library": "XNNPACK", "version": "1", "levels": []}},
        {"sources": {"sha256": "ab" * 32, "files": []}, "source_calls": ["_Znwm"]},
    ):
        yield json.dumps(made | added).encode()


def library(folder: Path) -> bytes:
    source, target = folder / "library.c", folder / "library.so"
    if not target.is_file():
        source.write_text("int lta_add(int left, int right) { return left + right; }\n")
        flags = ("-target", "aarch64-linux-musl", "-shared", "-nostdlib", "-g0")
        zig("cc", *flags, source, "-o", target)
    return target.read_bytes()


def libraries(folder: Path) -> Iterator[bytes]:
    yield library(folder)


def apps(folder: Path) -> Iterator[bytes]:
    path = "lib/arm64-v8a/libpytorch_jni_lite.so"
    yield zipped({"AndroidManifest.xml": b"", path: library(folder)})
    for data in models(folder):
        yield zipped({"AndroidManifest.xml": b"", "assets/model.ptl": data})


SEEDS: Mapping[str, Callable[[Path], Iterator[bytes]]] = {
    "model": records,
    "model-file": models,
    "lock": locks,
    "archive": archives,
    "package": packages,
    "verdicts": manifests,
    "app": apps,
    "app-library": libraries,
}


@pytest.mark.parametrize("target", SEEDS)
def test_what_is_read_in_python(campaign: Campaign, target: str, tmp_path: Path) -> None:
    corpus = Path(os.environ.get("FUZZING_CORPUS", tmp_path / "corpus")) / f"read-{target}"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[target](tmp_path)):
        (corpus / f"seed-{number}").write_bytes(seed)
    folders = [
        from_wheel(ATHERIS),
        ROOT,
        HERE,
        *(ROOT / f"tests/{n}" for n in ("support", "integration")),
    ]
    done = subprocess.run(
        [
            *(sys.executable, HERE / "read_fuzzed.py", target, tmp_path / "files", corpus),
            *(f"-seed={campaign.seed + 1}", f"-max_total_time={campaign.seconds:.0f}", *LIMITS),
            f"-artifact_prefix={tmp_path}/",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, f"{tmp_path}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    (*_, last) = re.findall(r"^#\d+\tDONE.*", done.stderr, re.MULTILINE)
    print(target, last)
