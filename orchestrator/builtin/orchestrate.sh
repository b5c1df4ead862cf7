#!/bin/sh
# Runs the orchestrator that is installed for this workspace: in .venv beside this file, else the
# one that PATH has. Written by `orchestrate init`; commit it.
#
# Where orchestrator-requirements.txt is beside this file, pip installs what it lists into .venv, at
# the first use and whenever the list has changed: so on a CI machine, too.
set -eu

root=$(CDPATH='' cd -P "$(dirname "$0")" && pwd)
program=$root/.venv/bin/orchestrate
python=$root/.venv/bin/python3
list=$root/orchestrator-requirements.txt
# what was installed, written last
stamp=$root/.venv/orchestrator-requirements.txt

if [ -f "$list" ] && ! cmp -s "$list" "$stamp"; then
    printf 'orchestrate: setting up .venv from %s\n' "${list##*/}" >&2
    [ -x "$python" ] || python3 -m venv --clear "$root/.venv" || exit 1
    # somebody who watches sees what pip fetches and how far it is
    quiet=--quiet
    [ ! -t 2 ] || quiet=
    # paths in the list are relative to it
    (cd "$root" && "$python" -m pip install $quiet --disable-pip-version-check -r "$list") >&2 || {
        printf 'orchestrate: error: what %s lists could not be installed\n' "${list##*/}" >&2
        exit 1
    }
    cp "$list" "$stamp.new" && mv "$stamp.new" "$stamp"
fi
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
