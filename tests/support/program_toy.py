"""Files of torch.export.save, made without torch: `x -> relu(x @ w)` with an open batch.

The records are those that torch 2.13 writes (`torch/export/pt2_archive/constants.py`).
"""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SIZE = "Symbol('s77', positive=True, integer=True)"
SPEC = json.dumps(
    [
        1,
        {
            "type": "builtins.tuple",
            "context": "null",
            "children_spec": [{"type": None, "context": None, "children_spec": []}],
        },
    ]
)


def meta(*sizes: Any) -> dict[str, Any]:
    return {"dtype": 7, "sizes": list(sizes), "device": {"type": "cpu", "index": None}}


def node(target: str, name: str, **tensors: str) -> dict[str, Any]:
    return {
        "target": target,
        "inputs": [
            {"name": key, "arg": {"as_tensor": {"name": its}}} for key, its in tensors.items()
        ],
        "outputs": [{"as_tensor": {"name": name}}],
        "metadata": {"stack_trace": 'File "/src/net.py", line 3, in forward\n    return x'},
        "name": name,
    }


def program() -> dict[str, Any]:
    """The record models/model.json."""
    size = {"as_expr": {"expr_str": SIZE, "hint": {"as_int": 3}}}
    return {
        "torch_version": "2.13.0+cpu",
        "schema_version": {"major": 8, "minor": 20},
        "guards_code": ["(L['x'].size()[0] % 2) == 0"],
        "range_constraints": {"s77": {"min_val": 2, "max_val": 64}},
        "graph_module": {
            "graph": {
                "inputs": [{"as_tensor": {"name": "p_w"}}, {"as_tensor": {"name": "x"}}],
                "outputs": [{"as_tensor": {"name": "relu"}}],
                "nodes": [
                    node("torch.ops.aten.mm.default", "mm", input="x", mat2="p_w"),
                    node("torch.ops.aten.relu.default", "relu", self="mm"),
                ],
                "tensor_values": {"x": meta(size, {"as_int": 4}), "target": meta(size)},
                "sym_int_values": {"sym_size_int": size},
                "custom_obj_values": {},
            },
            "signature": {
                "input_specs": [
                    {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "layer.w"}},
                    {"user_input": {"arg": {"as_tensor": {"name": "x"}}}},
                ]
            },
            "module_call_graph": [
                {
                    "fqn": "",
                    "signature": {
                        "in_spec": SPEC,
                        "out_spec": SPEC,
                        "forward_arg_names": ["x"],
                    },
                }
            ],
            "metadata": {},
        },
    }


def saved(value: Any, protocol: int = 2) -> bytes:
    """What torch.save writes of plain values."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(value, protocol))
        archive.writestr("archive/version", "3\n")
    return out.getvalue()


def records() -> dict[str, bytes]:
    """All records, below the top folder."""
    config = {"config": {"layer.w": {"path_name": "weight_0", "use_pickle": False}}}
    return {
        "archive_format": b"pt2",
        "archive_version": b"0",
        "models/model.json": json.dumps(program()).encode(),
        "data/weights/weight_0": bytes(64),
        "data/weights/model_weights_config.json": json.dumps(config).encode(),
        "data/sample_inputs/model.pt": saved((([1, 2],), {})),
    }


def write(path: Path, its: Mapping[str, bytes], root: str = "net/") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in its.items():
            archive.writestr(root + name, content)
    return path
