#!/bin/sh
# Runs the orchestrator that is installed for this workspace: in .venv beside this file, else the
# one that PATH has. Written by `orchestrate init`; commit it.
set -eu

root=$(CDPATH='' cd -P "$(dirname "$0")" && pwd)
program=$root/.venv/bin/orchestrate
if [ ! -x "$program" ]; then
    program=$(command -v orchestrate) || {
        printf 'orchestrate: error: the orchestrator is not installed\n' >&2
        printf '  do:       install libtorch-orchestrator in %s/.venv\n' "$root" >&2
        exit 1
    }
fi
exec "$program" "$@"
