"""A BuildGrid, as the cache that machines share: gRPC of the Remote Execution API.

It is installed once, from `requirements/grid.txt`, in a venv in the user's cache folder. Outputs
lie on disk and the results of actions in a Redis, so that a later run of the tests finds them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fanout import ANYWHERE, free_port, server
from real import ROOT

from tests.debian import REDIS, environment_with

LOCK = ROOT / "requirements/grid.txt"
CONFIG = """\
server:
  - !channel {{address: "{host}:{port}", insecure-mode: true}}
instances:
  - name: ""
    connections:
      - !redis-connection &redis {{host: {host}, port: {redis}}}
    storages:
      - !disk-storage &outputs {{path: {outputs}}}
    caches:
      - !redis-action-cache &results
        storage: *outputs
        redis: *redis
        allow-updates: true
        cache-failed-actions: false
    services:
      - !cas {{storage: *outputs}}
      - !bytestream {{storage: *outputs}}
      - !action-cache {{cache: *results}}
thread-pool-size: 20
"""


@contextmanager
def grid(folder: Path) -> Iterator[str]:
    """A server over what `folder` holds; gives its address, and ends it."""
    program = str(installed(folder))
    env = environment_with({"redis-server": REDIS})
    redis, port = free_port(), free_port()
    data = folder / "grid"
    data.mkdir(exist_ok=True)
    config = data / "config.yml"
    config.write_text(
        CONFIG.format(host=ANYWHERE, port=port, redis=redis, outputs=data / "outputs")
    )
    # it writes down each change: it is killed at the end
    store = ["redis-server", "--port", str(redis), "--bind", ANYWHERE, "--dir", str(data)]
    store += ["--save", "", "--appendonly", "yes"]
    with (
        server(store, redis, env, data / "redis.log"),
        server([program, "server", "start", str(config)], port, env, data / "grid.log"),
    ):
        yield f"grpc://{ANYWHERE}:{port}"


def installed(folder: Path) -> Path:
    """BuildGrid's program, in a venv below `folder`."""
    venv = folder / f"venv-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    done = venv / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
        install = [str(venv / "bin/pip"), "install", "--quiet", "--require-hashes", "-r", str(LOCK)]
        subprocess.run(install, check=True, env={**os.environ, "PIP_NO_INPUT": "1"})
        done.touch()
    return venv / "bin/bgd"
