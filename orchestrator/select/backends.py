"""Finds the declared backends that a model can reach.

A tensor has the QuantizedCPU dispatch key only if an operator made it quantised, and only operators
with a telling name do: `quantized::conv2d`, `aten::quantize_per_tensor`, `aten::dequantize`,
`aten::_empty_affine_quantized` (native_functions.yaml and ATen/native/quantized/library.cpp of
PyTorch 1.13).  A model that names none of them, and whose kernels call none, never enters a
QuantizedCPU kernel.  The same holds of SparseCPU, for tensors in coordinates:
`aten::sparse_coo_tensor`, `aten::to_sparse`, `aten::_coalesced_`.  No operator makes a tensor of
symbolic sizes.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.pytorch.versions import VersionData
from orchestrator.values.operators import OperatorName

QUANTIZED = "QuantizedCPU"
SPARSE = "SparseCPU"


def is_quantizing(operator: OperatorName) -> bool:
    """True if an operator makes or takes quantised tensors, by its name."""
    return operator.startswith(("quantized::", "_quantized::")) or "quantize" in operator


def is_sparse(operator: OperatorName) -> bool:
    """True if an operator makes or takes sparse tensors, by its name."""
    return "sparse" in operator or "coalesce" in operator


def tensor_kinds(root_operators: Iterable[OperatorName]) -> frozenset[str]:
    """`quantized`, `sparse`: kinds of tensors that models with these root operators can make."""
    kinds = set()
    for operator in root_operators:
        if is_quantizing(operator):
            kinds.add("quantized")
        if is_sparse(operator):
            kinds.add("sparse")
    return frozenset(kinds)


def reachable_backends(
    backends: Iterable[str], operators: Iterable[OperatorName]
) -> tuple[str, ...]:
    """The backends whose kernels models with these root operators can enter, in order."""
    kinds = tensor_kinds(operators)
    wanted = {QUANTIZED: "quantized", SPARSE: "sparse"}
    return tuple(b for b in backends if b not in wanted or wanted[b] in kinds)


def cut_units(version: VersionData, root_operators: Iterable[OperatorName]) -> frozenset[str]:
    """The units that no tensor of models with these root operators can enter."""
    kinds = tensor_kinds(root_operators)
    return frozenset(rule.unit for rule in version.cuts if rule.unless not in kinds)


def upgradable(version: VersionData) -> frozenset[OperatorName]:
    """The operators by which an earlier PyTorch meant something else."""
    return frozenset(OperatorName(name) for rule in version.include for name in rule.unless)


def upgraded(
    version: VersionData, root_operators: Iterable[OperatorName], archive: int
) -> frozenset[OperatorName]:
    """Root operators whose meaning in the model's archive version is not their present one: the
    loader replaces them (torch/csrc/jit/mobile/parse_bytecode.cpp, `applyUpgrader`).

    archive: version of the model's archive
    """
    roots = frozenset(root_operators)
    last = {name: until for rule in version.include for name, until in rule.unless.items()}
    return frozenset(name for name in roots if name in last and archive <= last[name])


def upgraders(version: VersionData, upgraded: Iterable[OperatorName]) -> frozenset[OperatorName]:
    """Operators that what takes the place of `upgraded` ones names: a model is not loaded without
    them."""
    calls = {name: called for rule in version.include for name, called in rule.calls.items()}
    return frozenset(OperatorName.parse(one) for name in upgraded for one in calls.get(name, ()))


def lean_units(version: VersionData, upgraded: Iterable[OperatorName]) -> frozenset[str]:
    """The units of which models need less, by what is `upgraded` in them: see `include`."""
    old = frozenset(upgraded)
    return frozenset(
        rule.unit for rule in version.include if rule.unless and old.isdisjoint(rule.unless)
    )
