"""BuildGrid as a server that runs actions, and BuildBox's workers, each a machine of its own.

BuildGrid is `grid.py`'s. It keeps its jobs in a PostgreSQL. That, the workers, and the Bazel that
asks are of Debian's unstable packages (`tests/debian_root.py`): a worker sees nothing of this
machine but its network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fanout import ANYWHERE, free_port, server
from grid import installed

from tests.debian_root import inside

PACKAGES = ("bazel-bootstrap", "buildbox", "coreutils", "dash", "postgresql-18", "python3-minimal")
POSTGRES = "/usr/lib/postgresql/18/bin"
_NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
CONFIG = """\
server:
  - !channel {{address: "{host}:{port}", insecure-mode: true}}
connections:
  - !sql-connection &sql {{connection-string: "{database}", pool-size: 10, max-overflow: 20}}
storages:
  - !disk-storage &outputs {{path: {outputs}}}
caches:
  - !lru-action-cache &results
    storage: *outputs
    max-cached-refs: 100000
    allow-updates: true
    cache-failed-actions: false
schedulers:
  - !sql-scheduler &jobs
    sql: *sql
    storage: *outputs
    action-cache: *results
    job-assignment-interval: 0.05
    poll-interval: 0.05
instances:
  - name: ""
    services:
      - !cas {{storage: *outputs}}
      - !bytestream {{storage: *outputs}}
      - !action-cache {{cache: *results}}
      - !execution {{scheduler: *jobs}}
thread-pool-size: 600
limiter: !limiter {{concurrent-request-limit: 1000}}
"""
# The tables that BuildGrid has, in an empty database.
MIGRATE = """\
import sys
from pathlib import Path
import buildgrid.server.sql
from alembic import command
from alembic.config import Config
config = Config()
folder = Path(buildgrid.server.sql.__file__).with_name("alembic")
config.set_main_option("script_location", str(folder))
config.set_main_option("sqlalchemy.url", sys.argv[1])
command.upgrade(config, "head")
"""


@contextmanager
def farm(cache: Path, root: Path, folder: Path, workers: Sequence[str]) -> Iterator[str]:
    """A server and its workers, which end with it; gives its address.

    cache   where BuildGrid is installed
    root    Debian's system with PACKAGES
    folder  what they write; each worker's log is `<worker>.log`
    """
    port = free_port()
    program = installed(cache)
    with ExitStack() as stack:
        database = stack.enter_context(_database(root, folder / "sql"))
        subprocess.run([program.with_name("python"), "-c", MIGRATE, database], check=True)
        config = folder / "config.yml"
        config.write_text(
            CONFIG.format(host=ANYWHERE, port=port, database=database, outputs=folder / "outputs")
        )
        argv = [str(program), "server", "start", str(config)]
        stack.enter_context(server(argv, port, os.environ, folder / "grid.log"))
        for worker in workers:
            stack.enter_context(_worker(root, folder / worker, f"http://{ANYWHERE}:{port}"))
        yield f"grpc://{ANYWHERE}:{port}"


@contextmanager
def _database(root: Path, folder: Path) -> Iterator[str]:
    """A PostgreSQL that listens on a socket in `folder` alone, as nobody: it refuses to be root."""
    folder.mkdir()
    shutil.chown(folder, "nobody", "nogroup")

    def run(*words: str) -> list[str]:
        return inside(root, [*_NOBODY, *words], shared=folder)

    data = f"{folder}/data"
    make = run(f"{POSTGRES}/initdb", "-D", data, "--auth=trust", "--no-sync", "--locale=C")
    subprocess.run(make, check=True, capture_output=True)
    settings = ("-c", "listen_addresses=", "-c", "fsync=off")
    argv = run(f"{POSTGRES}/postgres", "-D", data, "-k", str(folder), *settings)
    with folder.with_name("sql.log").open("wb") as log, _ended(argv, log=log):
        _wait_for(folder / ".s.PGSQL.5432")
        subprocess.run(run(f"{POSTGRES}/createdb", "-h", str(folder), "bgd"), check=True)
        yield f"postgresql+psycopg2:///bgd?host={folder}&user=nobody"


@contextmanager
def _worker(root: Path, folder: Path, address: str) -> Iterator[None]:
    """A worker that runs one action at a time, and the store that it fetches inputs through."""
    script = f"""
mkdir -p /work
buildbox-casd --cas-remote={address} --proxy-instance= --bind=unix:/work/casd.sock /work/cas &
while [ ! -S /work/casd.sock ]; do sleep 0.1; done
exec buildbox-worker --bots-remote={address} --cas-remote=unix:/work/casd.sock \
    --concurrent-jobs=1 --buildbox-run=/usr/bin/buildbox-run-hosttools --platform OSFamily=linux \
    {folder.name}
"""
    argv = inside(root, ["sh", "-c", script], machine=folder)
    with folder.with_name(f"{folder.name}.log").open("wb") as log, _ended(argv, log=log):
        yield


@contextmanager
def _ended(argv: Sequence[str], log: object) -> Iterator[None]:
    process = subprocess.Popen(argv, stdout=log, stderr=log)  # type: ignore[call-overload]
    try:
        yield
    finally:
        # not asked to end, which `unshare` does not hear: a worker's processes end with it
        process.kill()
        process.wait()


def _wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not come"
        time.sleep(0.1)
