"""What the peers' Python has: versions, and the files of each runtime, as JSON on stdout.

python -m benchmarks.peers.facts
"""

from __future__ import annotations

import json
import sys
from importlib import metadata

from benchmarks.peers.catalogue import RUNTIMES
from benchmarks.peers.runtimes import NotMeasuredError, runtime_module


def version(distribution: str) -> str | None:
    """The installed version, None without one."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def libraries(runtime: str) -> dict[str, list[str]]:
    """The files of a runtime by what they are; none where its wheel is not there."""
    try:
        found = runtime_module(runtime).libraries()
    except NotMeasuredError:
        return {}
    return {what: [str(path) for path in paths] for what, paths in found.items()}


def main() -> int:
    """Tell."""
    names = set[str]().union(*(runtime.distributions for runtime in RUNTIMES.values()))
    facts = {
        "versions": {name: version(name) for name in sorted(names)},
        "libraries": {name: libraries(name) for name in RUNTIMES},
    }
    json.dump(facts, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
