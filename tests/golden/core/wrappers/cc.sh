#!/bin/sh
# cc for x86_64-linux-gnu.2.28; written by the orchestrator, not to be edited.
# zig understands a target's version only from the command line, so that the wrapper is the compiler.
# one cache for all, in which zig builds its libraries once
: "${ZIG_GLOBAL_CACHE_DIR:=${0%/*}/../../zig}" "${ZIG_LOCAL_CACHE_DIR:=$ZIG_GLOBAL_CACHE_DIR}"
export ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR
again=
sent=
for argument in "$@"; do
  case "$argument" in
    # distcc and icecream send preprocessed text (.i, .ii); without a language zig would take the
    # target's version for a file name.
    *.ii) set -- -x c++ "$@" && sent=$argument ;;
    *.i) set -- -x c "$@" && sent=$argument ;;
    # zig takes -Oz for -Os
    -Oz) set -- -Xclang -Oz -mllvm -inline-threshold=35 "$@" ;;
    # and each of this kind for -fstack-protector-strong
    -fstack-protector)
      set -- -Xclang -stack-protector -Xclang 1 "$@"
      set -- -Xclang -stack-protector-buffer-size -Xclang 8 "$@"
      ;;
    # zig refuses what its linker can: fold equal functions, pack relocations, optimise together
    -Wl,--icf=* | -Wl,--pack-dyn-relocs=* | -Wl,--use-android-relr-tags | -Wl,--fat-lto-objects | -Wl,--mllvm=* | -Wl,--no-warnings)
      again="$again ${argument#-Wl,}"
      ;;
  esac
done
# An object holds its source's name. A text that was sent has one by chance; its first line tells the
# true one, under which it is compiled.
name=
[ -z "$sent" ] || name=$(sed -n '1s,^# 1 "\(.*/\)*\([^/"]*\)"$,\2,p' "$sent" 2>/dev/null)
if [ -n "$name" ] && mkdir "$sent.named"; then
  trap 'rm -rf "$sent.named"' EXIT
  cp "$sent" "$sent.named/$name"
  count=$#
  while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    [ "$argument" = "$sent" ] && argument=$sent.named/$name
    set -- "$@" "$argument"
    count=$((count - 1))
  done
  # zig's linker rewrites an object that is made without a depfile
  set -- -MD -MF "$sent.named/d" "$@"
  <zig> cc -target x86_64-linux-gnu.2.28 -g0 -fno-sanitize=all -Wno-invalid-specialization -Xclang -funwind-tables=0 -Xclang -mframe-pointer=non-leaf "$@"
  exit
fi
if [ -n "$again" ]; then
  count=$#
  while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    case "$argument" in
      -Wl,--icf=* | -Wl,--pack-dyn-relocs=* | -Wl,--use-android-relr-tags | -Wl,--fat-lto-objects | -Wl,--mllvm=* | -Wl,--no-warnings) ;;
      *) set -- "$@" "$argument" ;;
    esac
    count=$((count - 1))
  done
  # Linked as zig does; then again by its linker, with the same arguments and these.
  exec <relink> $again -- <zig> cc -target x86_64-linux-gnu.2.28 -g0 -fno-sanitize=all -Wno-invalid-specialization -Xclang -funwind-tables=0 -Xclang -mframe-pointer=non-leaf "$@"
fi
exec <zig> cc -target x86_64-linux-gnu.2.28 -g0 -fno-sanitize=all -Wno-invalid-specialization -Xclang -funwind-tables=0 -Xclang -mframe-pointer=non-leaf "$@"
