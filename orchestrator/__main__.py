"""`python -m orchestrator` is the `orchestrator` command."""

import sys

from orchestrator.system.interrupts import ends_the_process

with ends_the_process():
    from orchestrator.cli import main

if __name__ == "__main__":
    sys.exit(main())
