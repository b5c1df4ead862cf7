"""Converts one model for one runtime, in a process of the peers' Python.

    python -m benchmarks.peers.convert RUNTIME MODEL FOLDER

A failure is one line, the last, of what it prints.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.runtimes import NotMeasuredError, runtime_module


def main(arguments: Sequence[str]) -> int:
    """Convert; exit code 1 where it did not succeed, whatever the converter raised."""
    runtime, model, folder = arguments
    code = 0
    try:
        runtime_module(runtime).convert(model, Path(folder))
    except NotMeasuredError as error:
        print(error)
        code = 1
    except Exception as error:
        first = (str(error).strip() or repr(error)).splitlines()[0]
        print(f"{type(error).__name__}: {first}")
        code = 1
    sys.stdout.flush()
    # some converters' libraries do not survive the interpreter's end
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
