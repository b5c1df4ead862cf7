"""What a library says of its selection, and what its manifest says."""

from __future__ import annotations

from pathlib import Path

from core_toy import REGISTER_CPU, make_index
from toy_workspace import toy_runtime

from orchestrator.build.planning.selected import selection_fact, selection_unit
from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.index.model import UnitFacts
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection

M = frozenset({"m"})


def test_a_library_says_the_digest_that_its_manifest_has() -> None:
    operators = (Op("aten::mul.Tensor"), Op("aten::add.Tensor"), Op("aten::called"))
    index = make_index(
        {}, [UnitFacts(REGISTER_CPU, 1.0)], [("aten::called", "CPU", REGISTER_CPU, [])]
    )
    runtime = toy_runtime(index=index, backends=("QuantizedCPU", "CPU"))
    selection = Selection(
        operators=dict.fromkeys(operators, M),
        root_operators=frozenset(operators[:2]),
        kernel_dtypes={"mul": {"Long": M, "Float": M}, "add": {"*": M}},
        custom_classes=dict.fromkeys(("b.Params", "a.Params"), M),
        build_features=dict.fromkeys(("TWO", "ONE"), M),
    )
    request = RegistrationRequest(operators[:2], (), ())
    fact = selection_fact(runtime, selection, request)
    assert fact.operators == ("aten::add.Tensor", "aten::called", "aten::mul.Tensor")
    assert fact.kernel_dtypes == {"mul": ("Float", "Long"), "add": ("*",)}
    assert fact.resolved_operators == ("aten::called",)
    assert fact.backends == ("CPU", "QuantizedCPU")
    text = selection_unit(runtime, selection, request, Path("/cache")).text
    assert text is not None
    assert f'return "{fact.digest}";' in text
