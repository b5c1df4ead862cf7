"""Structural comparison of a library that cannot run here with an executed one of its app.

Contract: pure, and the same for ELF and Mach-O, for 32 and 64 bits, for every C++ library's
namespace. It compares the registered operators, their kernels, the static initialisers of the units
that register, and the dtypes that every unit was compiled for. A variant that is identical in all
of this was still not executed, and is not called `ok`.

It finds them in a library's symbols and bytes (names as the Itanium C++ ABI mangles them):

    schemas       text `add.Tensor(Tensor self, ...) -> Tensor`, which registration code parses
    kernels       `wrapper_CPU_add_Tensor`, which registration code gives to the dispatcher;
                  `add_stub` of `DispatchStub<..., add_stub>::DEFAULT`. One that code calls directly
                  is none: a compiler may inline it
    initialisers  `_GLOBAL__sub_I_CPUGuardImpl.cpp`
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from orchestrator.errors import OrchestratorError
from orchestrator.values.operators import OperatorName

_SCHEMA: Final = re.compile(rb"(?:aten::)?([A-Za-z_][\w:.]*\([ -~]*\) -> [ -~]+)\0")
_WRAPPER: Final = re.compile(r"(?:_GLOBAL__N_1)?(\d+)(wrapper_\w+)")
_STUB: Final = "EE7DEFAULTE"
_INITIALISER: Final = re.compile(r"^_+GLOBAL__sub_I_(.+)$")
_SHOWN: Final = 8


class StructureDiffersError(OrchestratorError):
    """A library that cannot run here differs structurally from the executed one."""


@dataclass(frozen=True)
class Structure:
    """The structure of a variant's library.

    dtypes     unit -> digest of its projection
    collected  whether its linker has dropped what nothing refers to. A static archive's kernels are
               dropped by the app's linker; so are entry points, which have the text of a schema
               without registering it (`at::_ops::values::schema_str`)
    """

    schemas: frozenset[str]
    kernels: frozenset[str]
    initialisers: frozenset[str]
    dtypes: Mapping[str, str]
    collected: bool = True


def structure_of(
    symbols: Iterable[str],
    data: bytes,
    *,
    registering: Collection[str],
    dtypes: Mapping[str, str],
    direct: Collection[str] = frozenset(),
    collected: bool = True,
) -> Structure:
    """The structure of a library with these defined symbols and these bytes.

    registering: file names of the units whose static initialisers register something.
    direct: `wrappers_of` kernels that are not registered
    """
    names = tuple(symbols)
    return Structure(
        schemas=frozenset(match.decode() for match in _SCHEMA.findall(data)),
        kernels=frozenset(kernel for name in names for kernel in _kernels(name)).difference(direct),
        initialisers=frozenset(
            match[1] for match in map(_INITIALISER.match, names) if match
        ).intersection(registering),
        dtypes=dtypes,
        collected=collected,
    )


def wrappers_of(operator: OperatorName, key: str) -> Iterator[str]:
    """The names that torchgen may give the function for an operator's kernel under a dispatch key.

    torchgen/dest/register_dispatch_key.py: `wrapper_<overload>_<function>`, of structured kernels
    `wrapper_<unambiguous name>`; the key is put in between by the dialect's `torchgen_worker.py`.
    """
    name, overload = operator.name, operator.overload
    for function in (name, f"{name}_out", f"{name}_outf"):
        yield f"wrapper_{key}_{overload}_{function}"
    yield f"wrapper_{key}_{name}" + (f"_{overload}" if overload else "")


def _kernels(symbol: str) -> Iterator[str]:
    """The kernels that a symbol names. A mangled name has its length before it, in an anonymous
    namespace after that one's number (`_GLOBAL__N_123wrapper_CPU__as_strided`: 23, not 123)."""
    match = _WRAPPER.search(symbol)
    if match:
        digits, rest = match.groups()
        length = int(digits)
        if rest[length : length + 1] == "E":
            yield rest[:length]
    if symbol.endswith(_STUB) and "12DispatchStubI" in symbol:
        head = symbol.removesuffix(_STUB)
        names = (head[-n:] for n in range(2, len(head)) if head[:-n].endswith(str(n)))
        yield from (name for name in islice(names, 1))


def differences(ran: Structure, seen: Structure) -> tuple[str, ...]:
    """List the differences in structure, a line each: parts of the executed one that `seen` lacks,
    and parts that it has in addition.

    Units that only one of them has do not count: processors have kernels of their own.
    """
    found = []
    for name in ("schemas", "kernels", "initialisers"):
        old, new = getattr(ran, name), getattr(seen, name)
        more = new - old if seen.collected or name == "initialisers" else frozenset()
        for names, word in ((old - new, "missing"), (more, "unexpected")):
            if names:
                found.append(f"{len(names)} {word} {name}: {_listed(names)}")
    other = {
        unit for unit in ran.dtypes.keys() & seen.dtypes if ran.dtypes[unit] != seen.dtypes[unit]
    }
    if other:
        found.append(f"{len(other)} units compiled for different dtypes: {_listed(other)}")
    return tuple(found)


def _listed(names: Collection[str]) -> str:
    first = [name.partition("(")[0] for name in sorted(names)[:_SHOWN]]
    return ", ".join(first) + (", ..." if len(names) > _SHOWN else "")


def require_same(label: str, ran_label: str, ran: Structure, seen: Structure) -> None:
    """Raises StructureDiffersError where `label` differs structurally from the executed variant.

    Nothing in common is a difference too: a library without names cannot be compared.
    """
    found = differences(ran, seen)
    if not found and seen.schemas and seen.kernels and seen.initialisers:
        return
    raise StructureDiffersError(
        f"{label} differs structurally from {ran_label}, the variant that was executed",
        expected=f"the {len(ran.schemas)} operators and {len(ran.kernels)} kernels of {ran_label}",
        seen=found[0] if found else "a library without operators, kernels or initialisers",
        hint="build both again; if the error persists, it is a bug in the build for this ABI",
        details="\n".join(found) or None,
    )
