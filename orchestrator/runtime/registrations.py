"""Finds, in one object, the sections that register operators, and cuts them into registrations.

Two shapes exist in PyTorch 1.13, both visible in the order of the relocations:

* `TORCH_LIBRARY_IMPL(aten, CPU, m) { m.impl("add.Tensor", TORCH_FN(f)); ... }` becomes a function
  that, for each operator, loads the kernel's address, then the name's string, then calls
  `torch::Library::_impl` (or `_def`, torch/library.h).  Everything since the previous call belongs
  to this operator.
* `OperatorGenerator({OperatorGeneratorArgs(TORCH_SELECTIVE_SCHEMA("aten::len.t(..."), f), ...})`
  (torch/csrc/jit/runtime/register_prim_ops.cpp) becomes a constant array: a string, then a
  function, again and again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.runtime.objects import ObjectFacts, Reference, Section

# An Itanium-mangled identifier: its length, then that many characters.
_MANGLED_INIT = re.compile(r"(\d+)(TORCH_LIBRARY_\w+)")
_LIBRARY_INIT = re.compile(
    r"TORCH_LIBRARY_(?P<kind>FRAGMENT_|IMPL_)?init_(?P<namespace>[A-Za-z0-9]+|_)(?:_(?P<rest>\w+))?$"
)
# `torch::Library::_impl`, `_def` (two overloads) and `_fallback`, by the start of their symbols.
_COMMIT = {
    "_ZNR5torch7Library5_implE": "impl",
    "_ZNR5torch7Library4_defE": "def",
    # the templates `def` and `impl` around them, where the compiler did not inline these
    "_ZNR5torch7Library3defI": "def",
    "_ZNR5torch7Library4implI": "impl",
    "_ZNR5torch7Library9_fallbackE": "fallback",
}
_NAME = re.compile(r"^(?:[A-Za-z_][\w]*::)?[A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)?$")
_SCHEMA = re.compile(r"^((?:[A-Za-z_]\w*::)?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)\(")
_QUALIFIED_SCHEMA = re.compile(r"^([a-z_]\w*::\w+(?:\.\w+)?)\(")


@dataclass(frozen=True)
class Cut:
    """One operator's share of a registering section."""

    operator: str
    key: str
    references: tuple[Reference, ...]


@dataclass(frozen=True)
class CutSection:
    """A registering section: what remains of its references, and what was cut out of it."""

    remainder: tuple[Reference, ...]
    cuts: tuple[Cut, ...]


def cut_registrations(facts: ObjectFacts, section: Section) -> CutSection | None:
    """The section's registrations; None where it registers nothing."""
    if section.name.startswith(".data.rel.ro"):
        cuts = tuple(_operator_array(facts, section))
        return CutSection((), cuts) if cuts else None
    library = _library_of(section.name)
    if library is not None and any(_commit_kind(r.symbol) for r in section.references):
        return _library_function(facts, section, *library)
    return None


def _library_of(section_name: str) -> tuple[str, str | None] | None:
    """(namespace, dispatch key or None) of the `TORCH_LIBRARY*` block that a section compiles."""
    mangled = _MANGLED_INIT.search(section_name)
    if mangled is None:
        return None
    match = _LIBRARY_INIT.match(mangled[2][: int(mangled[1])])
    if match is None or "static_init" in mangled[2]:
        return None
    key = match["rest"].rsplit("_", 1)[0] if match["kind"] == "IMPL_" and match["rest"] else None
    return match["namespace"], key


def _commit_kind(symbol: str) -> str | None:
    return next((kind for start, kind in _COMMIT.items() if symbol.startswith(start)), None)


def _operator_array(facts: ObjectFacts, section: Section) -> Iterator[Cut]:
    operator: str | None = None
    for reference in section.references:
        text = facts.string_at(reference.section, reference.addend)
        if text is not None:
            match = _QUALIFIED_SCHEMA.match(text)
            operator = match[1] if match else None
        elif operator is not None:
            yield Cut(operator, "jit", (reference,))
            operator = None


def _library_function(
    facts: ObjectFacts, section: Section, namespace: str, key: str | None
) -> CutSection:
    cuts: list[Cut] = []
    pending: list[Reference] = []
    operator: str | None = None
    remainder: list[Reference] = []
    for reference in sorted(section.references, key=lambda r: r.offset):
        text = facts.string_at(reference.section, reference.addend)
        kind = _commit_kind(reference.symbol)
        if text is not None:
            operator = _operator_of(text, namespace) or operator
        elif kind is not None:
            remainder.append(reference)
            if operator is not None or kind == "fallback":
                name = operator if kind != "fallback" else f"{namespace}::<fallback>"
                register_key = key or ("catchall" if _has_kernel(pending) else "schema")
                cuts.append(
                    Cut(
                        name or "",
                        f"fallback:{key}" if kind == "fallback" else register_key,
                        tuple(pending),
                    )
                )
                pending = []
            operator = None
        elif _is_glue(reference.symbol):
            remainder.append(reference)
        else:
            pending.append(reference)
    return CutSection((*remainder, *pending), tuple(cuts))


def _has_kernel(pending: list[Reference]) -> bool:
    return any(reference.section for reference in pending)


def _is_glue(symbol: str) -> bool:
    """Functions of the registering machinery itself, which every registration calls."""
    return symbol.startswith(("_Znw", "_Zdl", "_ZN5torch11CppFunction", "_Unwind", "_ZSt"))


def _operator_of(text: str, namespace: str) -> str | None:
    match = _SCHEMA.match(text)
    name = match[1] if match else (text if _NAME.match(text) else None)
    if name is None:
        return None
    return name if "::" in name else f"{namespace}::{name}"
