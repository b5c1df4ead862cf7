"""Finds, in one object, the sections that register operators, and cuts them into registrations.

Three shapes exist (since PyTorch 1.13), all visible in the order of the relocations:

* `TORCH_LIBRARY_IMPL(aten, CPU, m) { m.impl("add.Tensor", TORCH_FN(f)); ... }` becomes a function
  that, for each operator, loads the kernel's address, then the name's string, then calls
  `torch::Library::_impl` (or `_def`, torch/library.h).  Everything since the previous call belongs
  to this operator.
* `OperatorGenerator({OperatorGeneratorArgs(TORCH_SELECTIVE_SCHEMA("aten::len.t(..."), f), ...})`
  (torch/csrc/jit/runtime/register_prim_ops.cpp) becomes a constant array: a string, then a
  function, again and again.
* `RegisterOperators({OperatorGenerator(TORCH_SELECTIVE_SCHEMA("aten::split(..."), lambda), ...})`
  (torch/csrc/jit/runtime/register_special_ops.cpp) becomes a static initialiser that, for each
  operator, loads the schema's string, then the lambda's vtable or the function's address, then
  calls `torch::jit::Operator`'s constructor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.index.objects import ObjectFacts, Reference, Section
from orchestrator.pytorch.dialect import Symbols
from orchestrator.values.operators import OperatorName

# Allocation, unwinding, and the containers in which schemas and their tags are handed over.
_GLUE = ("_Znw", "_Zdl", "_Unwind", "_ZSt", "_ZNSt3__16vectorI", "_ZNSt3__112basic_stringI")
_NAME = re.compile(r"^(?:[A-Za-z_][\w]*::)?[A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)?$")
_SCHEMA = re.compile(r"^((?:[A-Za-z_]\w*::)?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)\(")
_QUALIFIED_SCHEMA = re.compile(r"^([a-z_]\w*::\w+(?:\.\w+)?)\(")


@dataclass(frozen=True)
class Cut:
    """One operator's share of a registering section; end: the offset of the last of it."""

    operator: OperatorName
    key: str
    references: tuple[Reference, ...]
    end: int


@dataclass(frozen=True)
class CutSection:
    """A registering section: what remains of its references, and what was cut out of it."""

    remainder: tuple[Reference, ...]
    cuts: tuple[Cut, ...]


def cut_registrations(facts: ObjectFacts, section: Section, known: Symbols) -> CutSection | None:
    """The section's registrations; None where it registers nothing."""
    if section.name.startswith(".data.rel.ro"):
        cuts = tuple(_operator_array(facts, section))
        return CutSection((), cuts) if cuts else None
    library = _library_of(section.name, known)
    if library is not None and any(_commit_kind(facts, r, known) for r in section.references):
        return _library_function(facts, section, known, *library)
    if any(_symbol(facts, r).startswith(known.constructors) for r in section.references):
        return _operator_constructors(facts, section, known)
    return None


def _library_of(section_name: str, known: Symbols) -> tuple[str, str | None] | None:
    """(namespace, dispatch key or None) of the `TORCH_LIBRARY*` block that a section compiles."""
    mangled = known.library_block.search(section_name)
    if mangled is None:
        return None
    match = known.library_name.match(mangled[2][: int(mangled[1])])
    if match is None or "static_init" in mangled[2]:
        return None
    return match["impl"] or match["fragment"] or match["library"], match["key"]


def _symbol(facts: ObjectFacts, reference: Reference) -> str:
    """Symbol that a reference names. A reference to a function of this object mostly names its
    section alone: then the first symbol that the section defines; empty without one."""
    if reference.symbol or not reference.section:
        return reference.symbol
    section = facts.sections.get(reference.section)
    return section.defines[0] if section is not None and section.defines else ""


def _commit_kind(facts: ObjectFacts, reference: Reference, known: Symbols) -> str | None:
    symbol = _symbol(facts, reference)
    return next((kind for start, kind in known.commit.items() if symbol.startswith(start)), None)


def _operator_array(facts: ObjectFacts, section: Section) -> Iterator[Cut]:
    operator: OperatorName | None = None
    for reference in section.references:
        text = facts.string_at(reference.section, reference.addend)
        if text is not None:
            match = _QUALIFIED_SCHEMA.match(text)
            operator = OperatorName(match[1]) if match else None
        elif operator is not None:
            yield Cut(operator, "jit", (reference,), reference.offset)
            operator = None


def _library_function(
    facts: ObjectFacts, section: Section, known: Symbols, namespace: str, key: str | None
) -> CutSection:
    cuts: list[Cut] = []
    pending: list[Reference] = []
    operator: OperatorName | None = None
    remainder: list[Reference] = []
    for reference in sorted(section.references, key=lambda r: r.offset):
        text = facts.string_at(reference.section, reference.addend)
        kind = _commit_kind(facts, reference, known)
        if text is not None:
            operator = _operator_of(text, namespace) or operator
        elif kind is not None:
            holder = known.holds_kernel.search(_symbol(facts, reference)) is not None
            (pending if holder else remainder).append(reference)
            name, register_key = operator, key
            if kind == "fallback":
                name, register_key = OperatorName(f"{namespace}::<fallback>"), f"fallback:{key}"
            if name is not None:
                register_key = register_key or (
                    "catchall" if _has_kernel(facts, pending) else "schema"
                )
                cuts.append(Cut(name, register_key, tuple(pending), reference.offset))
                pending = []
            operator = None
        elif _is_glue(reference, known):
            remainder.append(reference)
        else:
            pending.append(reference)
    return CutSection((*remainder, *pending), tuple(cuts))


def _has_kernel(facts: ObjectFacts, pending: list[Reference]) -> bool:
    """True if one of the references is to code. A schema with tags has references too, to the
    constants."""
    sections = (facts.sections.get(reference.section) for reference in pending)
    return any(section is not None and section.name.startswith(".text") for section in sections)


def _is_glue(reference: Reference, known: Symbols) -> bool:
    """True if a reference is to the registering machinery, or to a function that is called whatever
    is registered.

    A kernel is not called here: its address is loaded, or it is a part of a template's symbol.
    """
    if reference.call or reference.symbol.startswith(known.function):
        return known.holds_kernel.search(reference.symbol) is None
    return reference.symbol.startswith(_GLUE)


def _operator_constructors(facts: ObjectFacts, section: Section, known: Symbols) -> CutSection:
    cuts: list[Cut] = []
    remainder: list[Reference] = []
    pending: list[Reference] = []
    operator: OperatorName | None = None
    for reference in sorted(section.references, key=lambda r: r.offset):
        symbol = _symbol(facts, reference)
        schema = _QUALIFIED_SCHEMA.match(facts.string_at(reference.section, reference.addend) or "")
        if schema is not None:
            remainder += pending
            operator, pending = OperatorName(schema[1]), []
        elif symbol.startswith(known.constructors):
            remainder.append(reference)
            if operator is not None:
                cuts.append(Cut(operator, "jit", tuple(pending), reference.offset))
                operator, pending = None, []
        elif operator is None or _is_glue(reference, known):
            remainder.append(reference)
        else:
            pending.append(reference)
    return CutSection((*remainder, *pending), tuple(cuts))


def _operator_of(text: str, namespace: str) -> OperatorName | None:
    match = _SCHEMA.match(text)
    name = match[1] if match else (text if _NAME.match(text) else None)
    if name is None:
        return None
    return OperatorName(name if "::" in name else f"{namespace}::{name}")
