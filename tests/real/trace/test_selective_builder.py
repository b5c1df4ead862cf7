"""PyTorch's own reader of selected operators takes a trace lock."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from core_toy import real_runtime
from trace_toy import TRACE

from orchestrator.trace.lock import lock_text

pytestmark = pytest.mark.real

SELECTOR = """
import json, sys, yaml
from torchgen.selective_build.selector import SelectiveBuilder
selector = SelectiveBuilder.from_yaml_dict(yaml.safe_load(sys.stdin)["selected_operators"])
print(json.dumps({
    "roots": sorted(n for n in selector.operators if selector.is_root_operator(n)),
    "selected": [selector.is_operator_selected(n) for n in sys.argv[1:]],
    "kernels": {t: sorted(d) for t, d in selector.kernel_metadata.items()},
    "float": selector.is_kernel_dtype_selected("add_stub", "Float"),
    "half": selector.is_kernel_dtype_selected("add_stub", "Half"),
    "all": selector.include_all_operators,
}))
"""


def test_pytorchs_own_selective_builder_reads_it() -> None:
    tree = real_runtime().fetched.tree
    done = subprocess.run(
        [sys.executable, "-c", SELECTOR, "aten::add.Tensor", "aten::copy_", "aten::mul.Tensor"],
        input=lock_text(TRACE),
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {
        "roots": ["aten::add.Tensor", "aten::len.t"],
        "selected": [True, True, False],
        "kernels": {"add_stub": ["Float", "Long"], "copy_": ["Bool"]},
        "float": True,
        "half": False,
        "all": False,
    }
