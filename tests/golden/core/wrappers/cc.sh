#!/bin/sh
# cc for x86_64-linux-gnu.2.28; written by the orchestrator, not to be edited.
# zig understands a target's version only from the command line, so that the wrapper is the compiler.
# distcc and icecream send preprocessed text (.i, .ii); without a language zig would take the
# target's version for a file name.
for argument in "$@"; do
  case "$argument" in
    *.ii) exec <zig> cc -target x86_64-linux-gnu.2.28 -g0 -fno-sanitize=all -Wno-invalid-specialization -x c++ "$@" ;;
    *.i) exec <zig> cc -target x86_64-linux-gnu.2.28 -g0 -fno-sanitize=all -Wno-invalid-specialization -x c "$@" ;;
  esac
done
exec <zig> cc -target x86_64-linux-gnu.2.28 -g0 -fno-sanitize=all -Wno-invalid-specialization "$@"
