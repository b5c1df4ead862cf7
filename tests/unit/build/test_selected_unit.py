"""What a library says of its selection, and what its manifest says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from orchestrator.build.selected import selection_fact, selection_unit
from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.index.model import Registration
from orchestrator.select.closure import Registry
from orchestrator.values.selection import Selection

M = frozenset({"m"})


def test_a_library_says_the_digest_that_its_manifest_has() -> None:
    operators = ("aten::mul.Tensor", "aten::add.Tensor", "aten::called")
    kernels = {"aten::called": (Registration("aten::called", "CPU", 0, ()),)}
    session: Any = SimpleNamespace(
        kernels_for=lambda _: Registry(kernels),
        unit_paths=("generated/RegisterCPU.cpp",),
        backends=("QuantizedCPU", "CPU"),
        context=SimpleNamespace(cache=Path("/cache")),
    )
    selection = Selection(
        operators=dict.fromkeys(operators, M),
        root_operators=frozenset(operators[:2]),
        kernel_dtypes={"mul": {"Long": M, "Float": M}, "add": {"*": M}},
        custom_classes=dict.fromkeys(("b.Params", "a.Params"), M),
        build_features=dict.fromkeys(("TWO", "ONE"), M),
    )
    request = RegistrationRequest(operators[:2], (), ())
    fact = selection_fact(session, selection, request)
    assert fact.operators == ("aten::add.Tensor", "aten::called", "aten::mul.Tensor")
    assert fact.kernel_dtypes == {"mul": ("Float", "Long"), "add": ("*",)}
    assert fact.resolved_operators == ("aten::called",)
    assert fact.backends == ("CPU", "QuantizedCPU")
    text = selection_unit(session, selection, request).text
    assert text is not None
    assert f'return "{fact.digest}";' in text
