"""`watch` over a real model that is saved again and again."""

from __future__ import annotations

import hashlib
import os
import signal
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from real import ROOT, orchestrator, workspace_copy

from orchestrator.trace.lock import parse_lock

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

WAITING = "waiting for //apps/inker to be saved; Ctrl-C ends this\n"


class Watching:
    """A running `watch` of inker, and what it printed."""

    def __init__(self, root: Path, *options: str) -> None:
        self.root = root
        self.model = root / "apps/inker/models/strokes.ptl"
        self.printed = root / "printed"
        self.seen = 0
        with self.printed.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "orchestrator", "watch", "//apps/inker", *options],
                cwd=root,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def until_it_waits(self) -> str:
        """What it prints until it waits again."""
        end = time.monotonic() + 900
        while True:
            text = self.printed.read_text()[self.seen :]
            if WAITING in text:
                text = text[: text.index(WAITING) + len(WAITING)]
                self.seen += len(text)
                return text
            assert self.process.poll() is None, text
            assert time.monotonic() < end, text
            time.sleep(0.1)

    def save(self, data: bytes) -> None:
        part = self.root / "part"
        part.write_bytes(data)
        part.replace(self.model)


@contextmanager
def begun(root: Path, *options: str) -> Iterator[Watching]:
    one = Watching(root, *options)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Watching]:
    with begun(workspace_copy(tmp_path, "inker")) as one:
        yield one


def test_a_faulty_source_is_told_mended_and_traced(tmp_path: Path) -> None:
    """The locks of what was mended are those of the whole file, and a new export gets its own."""
    root = workspace_copy(tmp_path, "inker")
    kernel, lock = (
        root / "apps/inker/kernels/ease.elementwise",
        root / "apps/inker/traces/strokes.yaml",
    )
    good, before = kernel.read_text(), lock.read_text()
    kernel.write_text(good.replace("name: ease", "name: not a name"))
    with begun(root, "--trace") as watching:
        said = watching.until_it_waits()
        assert "apps/inker/kernels/ease.elementwise:" in said
        assert "tracing " not in said
        kernel.write_text(good)
        said = watching.until_it_waits()
        assert said.startswith("saved: apps/inker/kernels/ease.elementwise\n")
        assert said.count("  as it was traced\n") == 3
        # its locks are current again
        assert "tracing " not in said
        assert lock.read_text() == before

        changed = other_weights(watching.model, tmp_path)
        watching.save(changed)
        said = watching.until_it_waits()
        assert "tracing //apps/inker: strokes\n" in said
        assert "    changed in the lock: outputs; model\n" in said
    traced = parse_lock(lock.read_text(), "lock")
    assert traced.identity.model == hashlib.sha256(changed).hexdigest()
    out = orchestrator("run", "//apps/inker", cwd=root).out
    assert out.count("  as it was traced\n") == 3


def other_weights(model: Path, folder: Path) -> bytes:
    """The model with one number changed."""
    made = folder / "made.ptl"
    with zipfile.ZipFile(model) as old, zipfile.ZipFile(made, "w") as new:
        for record in old.namelist():
            data = old.read(record)
            if record.endswith("data/5"):
                (weight,) = struct.unpack_from("<f", data)
                data = struct.pack("<f", weight + 0.5) + data[4:]
            new.writestr(record, data)
    return made.read_bytes()


def test_a_model_is_run_whenever_it_is_saved(watching: Watching, tmp_path: Path) -> None:
    first = watching.until_it_waits()
    assert "strokes: PyTorch 2.6.0, " in first
    assert first.count("  as it was traced\n") == 3
    old = watching.model.read_bytes()

    changed = other_weights(watching.model, tmp_path)
    # slowly, in place: half of it rests for longer than a whole one would have to
    with watching.model.open("wb") as file:
        file.write(changed[: len(changed) // 2])
        file.flush()
        time.sleep(1.5)
        file.write(changed[len(changed) // 2 :])
    said = watching.until_it_waits()
    assert said.startswith("saved: apps/inker/models/strokes.ptl\n")
    assert said.count(": PyTorch 2.6.0, ") == 1
    assert "error: " not in said
    assert "  against the run before:\n" in said
    assert "    the same operators ran\n" in said

    watching.save(b"no model at all")
    assert "error: " in watching.until_it_waits()

    began = time.monotonic()
    watching.save((ROOT / "apps/inker/models/outline.ptl").read_bytes())
    said = watching.until_it_waits()
    print(f"another model: {time.monotonic() - began:.1f} s")
    assert "    other inputs: outputs are not compared\n" in said
    assert "    + ink::ease.Scalar\n" in said

    watching.save(old)
    said = watching.until_it_waits()
    assert "  as it was traced\n" in said
    assert "    - ink::ease.Scalar\n" in said

    os.kill(watching.process.pid, signal.SIGINT)
    assert watching.process.wait(20) == 0
    assert watching.printed.read_text().endswith(f"{WAITING}stopped\n")
