"""Requests to torchgen: the registrations of one variant. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.pytorch.dialect import DispatchKeys
from orchestrator.values.operators import OperatorName


@dataclass(frozen=True)
class RegistrationRequest:
    """Registrations that torchgen writes for one variant: see the dialect's `torchgen_worker.py`.

    operators  get a schema (and a BackendSelect kernel where they have one)
    calls      get a typed entry point `at::_ops::X::call`
    kernels    dispatch key -> operators with a kernel under it, as sorted pairs
    direct     further kernels in the same form, which code calls by `at::<key>::X`: not registered
    resolved   operators that are not registered and have one kernel, with its dispatch key: their
               typed entry points call it
    """

    operators: tuple[OperatorName, ...]
    calls: tuple[OperatorName, ...]
    kernels: tuple[tuple[str, tuple[OperatorName, ...]], ...]
    direct: tuple[tuple[str, tuple[OperatorName, ...]], ...] = ()
    resolved: tuple[tuple[OperatorName, str], ...] = ()

    def shared_keys(self, known: DispatchKeys) -> tuple[str, ...]:
        """Keys whose kernels are compiled in one unit with schemas and entry points."""
        return tuple(key for key in known.shared if key in self._keys)

    def own_keys(self, known: DispatchKeys) -> tuple[str, ...]:
        """Keys whose kernels are a unit of their own."""
        return tuple(key for key in sorted(self._keys) if key not in known.shared)

    @property
    def _keys(self) -> frozenset[str]:
        return frozenset(key for key, _ in (*self.kernels, *self.direct))
