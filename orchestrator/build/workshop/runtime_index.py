"""The shipped index of a PyTorch version, checked against the tree that is pinned; and of one that
a shipped library was built from."""

from __future__ import annotations

from orchestrator.index.entry import load_entry, loader_symbols
from orchestrator.index.model import IndexUnreadableError, RuntimeIndex, load_index, with_own_units
from orchestrator.libraries.features import own_units
from orchestrator.plan.planner import entry_nodes
from orchestrator.plan.variant import OWN
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import DIALECTS
from orchestrator.select.fits import KnownRuntime
from orchestrator.values.config.workspace import DEFAULT_RUNTIME
from orchestrator.values.operators import OperatorName


def shipped_index(dialect: Dialect, tree: str, runtime: str = DEFAULT_RUNTIME) -> RuntimeIndex:
    """The index of a version, for a pinned runtime of that name.

    Raises IndexUnreadableError where it is missing, damaged or of another source tree.
    """
    option = "" if runtime == DEFAULT_RUNTIME else f" --runtime {runtime}"
    make = f"run: ./orchestrate runtime index{option}"
    try:
        index = load_index(dialect.index)
    except IndexUnreadableError as error:
        error.hint = make
        raise
    if index.tree != tree:
        raise IndexUnreadableError(
            f"the runtime index of PyTorch {dialect.version} was made from another source tree",
            expected=tree,
            seen=index.tree,
            hint=make,
        )
    return index


def whole_index(dialect: Dialect, tree: str, runtime: str = DEFAULT_RUNTIME) -> RuntimeIndex:
    """The shipped index, with units of ours that register operators; see `shipped_index`."""
    return with_ours(shipped_index(dialect, tree, runtime), dialect)


def with_ours(index: RuntimeIndex, dialect: Dialect) -> RuntimeIndex:
    """The index of a version, extended by our own units that register operators, as if they were
    PyTorch's. The shipped index does not have them."""
    return with_own_units(
        index,
        (
            (OWN + one.source, map(OperatorName, one.operators), one.symbols)
            for one in own_units(dialect)
        ),
    )


def known_runtime(pytorch: str, tree: str) -> KnownRuntime | None:
    """The runtime of a library that was shipped, where we ship the index of its very sources."""
    dialect = DIALECTS.get(pytorch)
    if dialect is None:
        return None
    try:
        index = whole_index(dialect, tree)
    except IndexUnreadableError:
        return None
    symbols = load_entry(dialect).library | loader_symbols(index, dialect.symbols)
    return KnownRuntime(dialect, index, tuple(entry_nodes(index, symbols, dialect.symbols)))
