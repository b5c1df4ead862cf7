"""The workspace's toolchains on this machine: found on first use, and tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType

from orchestrator.compilers.host import host_abi, required_host, this_machine
from orchestrator.compilers.resolve import ResolvedToolchain, resolve_toolchain
from orchestrator.compilers.run_prefix import Running
from orchestrator.context import Context
from orchestrator.load.declared import Toolchain, Workspace
from orchestrator.load.workspace import shipped_toolchains
from orchestrator.values.config.toolchain import ToolchainConfig


class Toolchains:
    """The toolchains that a workspace declares, and those that we ship, by their ABI.

    log    takes a line of progress
    found  ABI -> a toolchain that is resolved already
    """

    def __init__(
        self,
        workspace: Workspace,
        context: Context,
        log: Callable[[str], None],
        found: Mapping[str, ResolvedToolchain] = MappingProxyType({}),
    ) -> None:
        self._workspace = workspace
        self._context = context
        self._log = log
        self._found = dict(found)
        self._running: dict[str, Running] = {}

    def config(self, abi: str) -> ToolchainConfig:
        """Declaration of a toolchain. Raises KeyError for an ABI that the workspace does not
        have."""
        return self._workspace.toolchains[abi].config

    def of(self, abi: str) -> ResolvedToolchain:
        """The toolchain of an ABI, resolved on first use. Raises what `resolve_toolchain` raises,
        and KeyError for an ABI that the workspace does not have."""
        if abi not in self._found:
            self._found[abi] = self._resolved(abi)
        return self._found[abi]

    def require(self, abis: Iterable[str]) -> None:
        """Raise what `resolve_toolchain` raises now, of toolchains that were found before.

        Ask it when something that they should have made failed: of a compiler that was removed or
        replaced since, a shell says only that a file is not found.
        """
        for abi in sorted(set(abis)):
            self._resolved(abi)

    @cached_property
    def analysing(self) -> ResolvedToolchain:
        """The toolchain whose objects are added to a runtime's index: this machine's, or the one
        that we ship for it where names of C++'s library are spelled otherwise than in the index
        (libstdc++). Raises what `of` raises, and NoHostToolchainError."""
        own = self.of(self.host)
        if own.driver.cxx_library == "libc++":
            return own
        shipped = shipped_toolchains()
        configs = {abi: one.config for abi, one in shipped.items()}
        return self._resolve(shipped[required_host(configs, this_machine())])

    def _resolved(self, abi: str) -> ResolvedToolchain:
        return self._resolve(self._workspace.toolchains[abi])

    def _resolve(self, declared: Toolchain) -> ResolvedToolchain:
        context = self._context
        return resolve_toolchain(
            declared.config,
            declared.place,
            context.cache,
            context.env,
            context.runner,
            context.state,
        )

    def running(self, abi: str) -> Running:
        """Find out how an ABI's binaries run on this machine: directly, with an emulator or not at
        all.

        The first call for a toolchain links a program and runs it; the answer is stored in the
        cache.
        """
        if abi not in self._running:
            self._running[abi] = self.of(abi).running(self._context.cache, self._log)
        return self._running[abi]

    @cached_property
    def own_abi(self) -> str | None:
        """The ABI of this machine, where a toolchain compiles for it: one of the workspace's own
        before one that we ship."""
        declared = self._workspace.toolchains
        own = {abi: one.config for abi, one in declared.items() if not one.built_in}
        machine = this_machine()
        return host_abi(own, machine) or host_abi(self._configs, machine)

    @property
    def host(self) -> str:
        """The ABI of this machine, on which tracers run. Raises NoHostToolchainError."""
        return self.own_abi or required_host(self._configs, this_machine())

    @property
    def _configs(self) -> Mapping[str, ToolchainConfig]:
        return {abi: one.config for abi, one in self._workspace.toolchains.items()}
