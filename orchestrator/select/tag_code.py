"""The code size of a kernel tag in a unit, from the runtime's index. Pure."""

from __future__ import annotations

from collections.abc import Collection

from orchestrator.index.model import RuntimeIndex


def size_of_tag(index: RuntimeIndex, tag: str, unit: int) -> int:
    """Bytes of the unit's functions that switch on the tag, and of its own that these can call.

    Functions that other units have too do not count: the linker keeps one copy of them anyway.
    """
    own = [n for n, tags in index.kernel_tags.items() if tag in tags and index.owners[n] == unit]
    return sum(index.sizes[node] for node in _reached_in_unit(index, own, unit))


def _reached_in_unit(index: RuntimeIndex, nodes: Collection[int], unit: int) -> set[int]:
    reached, left = set(nodes), list(nodes)
    while left:
        node = left.pop()
        for called in index.edges[index.edge_starts[node] : index.edge_starts[node + 1]]:
            if called not in reached and index.owners[called] == unit:
                reached.add(called)
                left.append(called)
    return reached
