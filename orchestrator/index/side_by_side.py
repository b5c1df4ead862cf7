"""Completes registrations whose references the compiler already had in a register.

`registrations` splits a registering function by its relocations.  If two adjacent registrations
load the same address, the compiler may load it once and keep it in a register over the call between
them, so only the first one has the relocation.  In the objects of PyTorch 1.13.1 this affects

* kernels that are registered twice: `quantized::conv1d` and `quantized::conv_transpose1d` are both
  `QConv1dInt8<false>::run`;
* what goes with a kernel's signature, the function that unboxes its arguments above all: two
  operators of one signature in one block of TORCH_LIBRARY_IMPL.

The traversal would only know what the second one needs if the first one is selected.  So missing
references are taken from the others of the same block and signature: all of them, since relocations
do not show which one was meant.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from orchestrator.index.model import Registration, RuntimeIndex

# c10/core/boxing/impl/make_boxed_from_unboxed_functor.h: takes a kernel's arguments off the stack.
_UNBOXES = "_ZN3c104impl31make_boxed_from_unboxed_functor"
# What is of a kernel's signature: its functor's vtable, the type of its function, and the templates
# that call it or register it (ATen/core/boxing/KernelFunction_impl.h, torch/library.h).
_OF_SIGNATURE = (
    _UNBOXES,
    "_ZN3c104impl28wrap_kernel_functor_unboxed_",
    "_ZTVN3c104impl6detail",
    "_ZTIF",
    "_ZNR5torch7Library4impl",
    "_ZNR5torch7Library3def",
)
# A template that registers whatever is given to it makes the functor itself.
_REGISTERS = ("_ZNR5torch7Library4impl", "_ZNR5torch7Library3def")
# A template's symbol that names the kernel itself: TORCH_FN's type, or a lambda.
_NAMES_KERNEL = re.compile(r"26CompileTimeFunctionPointerI|Ul")
# Registrations of these keys are cut out of arrays and tables, each with its own reference.
_WITHOUT_BLOCK = frozenset({"schema", "jit", "promoted", "fallback"})
_IDENTIFIER = re.compile(r"(\d+)")


def completed(index: RuntimeIndex) -> RuntimeIndex:
    """The index with each registration's references complete; itself where they all are."""
    blocks: dict[tuple[int, str], list[_Cut]] = {}
    for number, registration in enumerate(index.registrations):
        if registration.key not in _WITHOUT_BLOCK and registration.targets:
            block = blocks.setdefault((registration.unit, registration.key), [])
            block.append(_Cut(number, registration, index))
    found = list(index.registrations)
    for block in blocks.values():
        for number, targets in _missing(block):
            every = {*found[number].targets, *targets}
            found[number] = replace(found[number], targets=tuple(sorted(every)))
    return replace(index, registrations=tuple(sorted(found, key=_order)))


def _order(registration: Registration) -> tuple[str, str, int, tuple[int, ...]]:
    return registration.operator, registration.key, registration.unit, registration.targets


@dataclass(frozen=True)
class _Cut:
    """One registration of a block, and its number in the index."""

    number: int
    registration: Registration
    index: RuntimeIndex

    @cached_property
    def symbols(self) -> Mapping[int, str]:
        """Node -> its symbol, for all that the registration refers to."""
        names = self.index.names
        return {node: names[node].split("@", 1)[0] for node in self.registration.targets}

    @cached_property
    def of_signature(self) -> frozenset[int]:
        return frozenset(
            n for n, symbol in self.symbols.items() if symbol.startswith(_OF_SIGNATURE)
        )

    @cached_property
    def kernels(self) -> frozenset[int]:
        return frozenset(self.symbols) - self.of_signature

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Scope and parameters of its kernels, as they are mangled."""
        found = (_parameters(self.symbols[node]) for node in self.kernels)
        return frozenset(text for text in found if text is not None)

    @property
    def lacks_kernel(self) -> bool:
        return not self.kernels and not any(map(_NAMES_KERNEL.search, self.symbols.values()))

    @cached_property
    def functors(self) -> frozenset[int]:
        made = (_UNBOXES, *_REGISTERS)
        return frozenset(n for n in self.of_signature if self.symbols[n].startswith(made))

    @property
    def lacks_functor(self) -> bool:
        return not self.functors


def _missing(block: Iterable[_Cut]) -> Iterable[tuple[int, frozenset[int]]]:
    """Yield the numbers of the incomplete registrations in a block, each with the nodes that it
    lacks."""
    lacking = [cut for cut in block if cut.lacks_kernel or cut.lacks_functor]
    if not lacking:
        return
    by_node: dict[int, list[_Cut]] = {}
    by_parameters: dict[str, list[_Cut]] = {}
    for cut in block:
        for node in cut.of_signature:
            by_node.setdefault(node, []).append(cut)
        for text in cut.parameters:
            by_parameters.setdefault(text, []).append(cut)
    for cut in lacking:
        alike = {other.number: other for node in cut.of_signature for other in by_node[node]}
        if cut.lacks_kernel:
            yield cut.number, frozenset[int]().union(*(o.kernels for o in alike.values()))
        if cut.lacks_functor:
            given = [other for other in alike.values() if not other.lacks_functor] or [
                other for text in cut.parameters for other in by_parameters[text]
            ]
            # a neighbour's references may have come before the call that ends its own
            alone = [other for other in given if len(other.functors) == 1] or given
            yield cut.number, frozenset[int]().union(*(o.of_signature for o in alone))


def _parameters(symbol: str) -> str | None:
    """Scope and parameters of a plain function: `_ZN<scope><name>E<parameters>` without its name.

    In equal scopes, equal parameters are mangled alike (Itanium C++ ABI, 5.1.10: substitutions
    count from the symbol's start, and a function's name is none).
    """
    at, parts = len("_ZN"), list[str]()
    while symbol.startswith("_ZN") and (length := _IDENTIFIER.match(symbol, at)):
        end = length.end() + int(length[1])
        parts.append(symbol[at:end])
        at = end
    if not parts or not symbol.startswith("E", at):
        return None
    return "".join(parts[:-1]) + symbol[at:]
