#!/bin/sh
# ar for x86_64-linux-gnu.2.28; written by the orchestrator, not to be edited.
# zig understands a target's version only from the command line, so that the wrapper is the compiler.
exec <zig> ar "$@"
