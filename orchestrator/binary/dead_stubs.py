"""Stand-ins for what a static library refers to and does not hold.

`python -m orchestrator.binary.dead_stubs <object> <source>`, as ninja runs it.

The units of a variant hold functions that nothing calls, which refer to units that were left out.
A shared library's linker collects such functions first, and then misses nothing; an app's linker
does so with `-dead_strip` only. What is missing is known once all units are joined (`ld -r`): each
such symbol gets a function that raises an error with its name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from orchestrator.binary.macho import missing_symbols, read_object
from orchestrator.errors import OrchestratorError

_HEAD = """\
// Functions that were left out of this library: only code that nothing calls refers to them.
#include <stdexcept>
#include <string>

namespace {
[[noreturn]] void left_out(const char* symbol) {
  throw std::runtime_error(
      std::string(symbol) + " was left out of this library: its models never called it");
}
} // namespace

extern "C" {
"""
_FUNCTION = """\
__attribute__((visibility("hidden"))) void lta_left_out_{n}() __asm__("{symbol}");
void lta_left_out_{n}() {{ left_out("{symbol}"); }}
"""


def stubs_text(symbols: Iterable[str]) -> str:
    """The unit that defines the symbols, in the linker's spelling (`__ZN2at3addEv`)."""
    functions = (
        _FUNCTION.format(n=number, symbol=symbol)
        for number, symbol in enumerate(sorted(symbols), start=1)
    )
    return _HEAD + "".join(functions) + "}\n"


def main(arguments: Sequence[str]) -> int:
    """Write the source for an object that joins all units of a variant."""
    joined, source = (Path(argument) for argument in arguments)
    try:
        member = read_object(joined)
    except OrchestratorError as error:
        print(error.render(), file=sys.stderr)
        return 1
    staged = source.with_name(f".{source.name}")
    staged.write_text(stubs_text(missing_symbols([member])), encoding="utf-8")
    staged.replace(source)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
