"""One command's view of the workspace, and what its stages pass on.

load       declarations -> Invocation
prepare    Invocation -> Prepared: a runtime, and toolchains that were tried
plan       Prepared, traces -> Variant (`build.plan`); pure but for torchgen
execute    graph -> Execution (`build.execute`)
deliver, verify, package, report
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

from orchestrator.build.workshop.models import Models
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.build.workshop.runtimes import Runtimes
from orchestrator.build.workshop.toolchains import Toolchains
from orchestrator.cache.store import ObjectStore
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.context import Context
from orchestrator.load.declared import Workspace
from orchestrator.load.workspace import load_workspace
from orchestrator.values.config.forms import KernelChoice, KernelPart
from orchestrator.values.config.toolchain import ToolchainConfig


@dataclass(frozen=True)
class Invocation:
    """Context of a command: paths and processes, the declarations, and finders of toolchains,
    runtimes and models on this machine.

    log    takes a line of progress
    store  the user's cache; behind it a folder of the workspace, for a cache that is read-only
    """

    context: Context
    log: Callable[[str], None]
    workspace: Workspace
    toolchains: Toolchains
    runtimes: Runtimes
    models: Models
    store: ObjectStore

    def prepare(self, runtime: Runtime, abis: Iterable[str]) -> Prepared:
        """Find the ABIs' compilers, and try what they can do: with the preparing of runtimes all
        that has effects before a plan, which reads the result. Raises what finding and trying
        raise."""
        toolchains = {abi: self.toolchains.of(abi) for abi in sorted(set(abis))}
        for toolchain in toolchains.values():
            _ = toolchain.capabilities
        return Prepared(self.context, self.workspace, runtime, toolchains)


@dataclass(frozen=True)
class Prepared:
    """Inputs of planning: found, and tried, before it begins.

    toolchains  ABI -> its toolchain, whose capabilities are known
    """

    context: Context
    workspace: Workspace
    runtime: Runtime
    toolchains: Mapping[str, ResolvedToolchain]

    def toolchain(self, abi: str) -> ResolvedToolchain:
        """The toolchain of an ABI that was prepared."""
        return self.toolchains[abi]

    def config(self, abi: str) -> ToolchainConfig:
        """Declaration of an ABI's toolchain."""
        return self.workspace.toolchains[abi].config


def load(context: Context, log: Callable[[str], None]) -> Invocation:
    """Read and check the declarations. Raises what `load_workspace` raises."""
    return invocation(load_workspace(context.root, context.env), context, log)


def invocation(
    workspace: Workspace,
    context: Context,
    log: Callable[[str], None],
    *,
    ready: Iterable[Runtime] = (),
    found: Mapping[str, ResolvedToolchain] = MappingProxyType({}),
) -> Invocation:
    """An invocation with declarations that were read.

    ready: runtimes that are prepared already; found: ABI -> a toolchain that is resolved already
    """
    toolchains = Toolchains(workspace, context, log, found)
    runtimes = Runtimes(workspace, context, toolchains, log, ready)
    models = Models(workspace, runtimes)
    store = ObjectStore((context.cache, context.shared / "store"))
    return Invocation(context, log, workspace, toolchains, runtimes, models, store)


def parts_chosen(choice: KernelChoice) -> frozenset[KernelPart]:
    """The parts of models for which `kernels:` (in app.yaml or WORKSPACE's defaults) takes kernels
    of the kernel library: all for `auto`, none for `native`, else those that it lists."""
    if choice == "native":
        return frozenset()
    return frozenset(get_args(KernelPart) if choice == "auto" else choice)
