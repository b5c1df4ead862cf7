"""A trace of a toy app's model, and its recorded runs."""

from __future__ import annotations

from orchestrator.trace.lock import pack_runs
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import Trace, TraceIdentity

TENSOR = {"dtype": "float32", "shape": [1], "data": "AADAPw=="}
RUN = {"method": "forward", "index": 0, "error": None, "output": {"tensor": TENSOR}}
RESULT = {"runs": [RUN], "error": None}
RUNS, DIGEST = pack_runs(RESULT)
IDENTITY = TraceIdentity("a" * 64, "b" * 64, "bundled", ("CPU", "QuantizedCPU"), "c" * 16)
TRACE = Trace(
    app="camera",
    model="classifier",
    identity=IDENTITY,
    root_operators=(Op("aten::add.Tensor"), Op("aten::len.t")),
    called_operators={Op("aten::add.Tensor"): 3, Op("aten::copy_"): 12},
    kernel_tags={"add_stub": {"Float": 3, "Long": 1}, "copy_": {"Bool": 2}},
    custom_classes=("quantized.Linear",),
    build_features=("PROTOBUF",),
    hot_tags=("add_stub",),
    outputs=DIGEST,
)
