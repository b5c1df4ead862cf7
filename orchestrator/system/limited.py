"""A program of its own, which `process` starts: limits itself, then becomes another program.

    limited.py MEMORY FILE REPORT LOCALE PROGRAM [ARGUMENT...]

A process that has threads must not run Python between fork(2) and exec(2), so nobody but a new
process can limit itself. MEMORY and FILE are bytes (`process.Limits`). REPORT is a descriptor: it
gets the number of the error with which PROGRAM could not be started, and is closed if it could.
LOCALE is `1` where the environment has LC_CTYPE: where it has not, Python itself may add it (PEP
538). Imports nothing that takes time: models run hundreds of times.
"""

from __future__ import annotations

# `signal`, without its enumerations, which take as long to import as all else
import _signal  # type: ignore[import-not-found]
import os
import resource
import sys

# Python ignores them, and what is ignored stays so: its users' programs die of them.
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFZ", "SIGXFSZ")


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (least, least))


def main() -> None:
    """See the module docstring."""
    memory, file, report = (int(argument) for argument in sys.argv[1:4])
    os.set_inheritable(report, False)
    for name in _IGNORED_BY_PYTHON:
        if hasattr(_signal, name):
            _signal.signal(getattr(_signal, name), _signal.SIG_DFL)
    environment = dict(os.environ)
    if sys.argv[4] != "1":
        environment.pop("LC_CTYPE", None)
    # the memory last: from then on, Python has no more of it
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, file)
    _limit(resource.RLIMIT_AS, memory)
    try:
        os.execvpe(sys.argv[5], sys.argv[5:], environment)
    except OSError as error:
        os.write(report, str(error.errno).encode())


if __name__ == "__main__":
    main()
