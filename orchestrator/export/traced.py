"""The traced conversion: as the static one, but of a trace of each method.

For models whose way does not depend on a value, nor on sizes that they take otherwise, and that
keep nothing from call to call. Everything else is refused, with the place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.export.calls import Call, Invoke, further, run
from orchestrator.export.emitting import emit
from orchestrator.export.graphs import Graph
from orchestrator.export.probing import EXCLUDED, OTHER_KINDS, largest_taken, other_kinds, probes
from orchestrator.export.refusal import Refused
from orchestrator.export.static import Applied
from orchestrator.export.tracing import tensors_in, trace

_SIZES = ("larger batch", "longer", "more rows")


def specialised(error: Refused) -> Refused:
    """Return the error for a trace that differs on inputs of another kind than the traced ones; any
    other error unchanged."""
    kind = str(error.facts.get("call", "")).partition(", ")[2]
    if error.kind != "differs" or kind not in (EXCLUDED, *OTHER_KINDS):
        return error
    given = ", ".join(error.facts["inputs"])
    return Refused("specialised", f"the model takes {given} too ({kind}), and there {error}")


@dataclass
class Tracing:
    """Tracing of a model's methods.

    own       the calls that it comes with
    original  calls the model itself
    probes    calls that tracing found worth comparing
    """

    own: Sequence[Call]
    original: Invoke
    probes: list[Call] = field(default_factory=list)

    def replace(self, method: str, graph: Graph, without: frozenset[str], applied: Applied) -> None:
        """Replace the graph of a method by its trace. Raises Refused."""
        calls = [call for call in self.own if call.method == method]
        if not calls:
            # it stays as the static conversion has it
            return
        for call in calls:
            tensors_in(call.args)
        more = list(further(calls))
        taken = [call for call in (*calls, *more) if not run(self.original, call).error]
        larger = [call for call in more if call.index == calls[0].index and call.kind in _SIZES]
        base = largest_taken(calls[0], larger, self.original)
        made = trace(graph, base.args)
        self.probes += probes(made, base, taken, self.original)
        self.probes += other_kinds(calls[0])
        emit(graph, made, without, applied.note)
