#!/bin/sh
# Runs the orchestrator that is installed for this workspace: in .venv beside this file, else the
# one that PATH has. Written by `orchestrate init`; commit it.
set -eu

root=$(CDPATH='' cd -P "$(dirname "$0")" && pwd)
program=$root/.venv/bin/orchestrate
python=$root/.venv/bin/python3
if [ -f "$program" ]; then
    # The program's first line names the folder that it was installed in: it may have moved.
    if [ ! -x "$python" ]; then
        printf 'orchestrate: error: the Python of %s/.venv is not there any more\n' "$root" >&2
        printf '  do:       remove .venv, and install libtorch-orchestrator in a new one\n' >&2
        exit 1
    fi
    exec "$python" "$program" "$@"
fi
program=$(command -v orchestrate) || {
    printf 'orchestrate: error: the orchestrator is not installed\n' >&2
    printf '  do:       install libtorch-orchestrator in %s/.venv\n' "$root" >&2
    exit 1
}
exec "$program" "$@"
