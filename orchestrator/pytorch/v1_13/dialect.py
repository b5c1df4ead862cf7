"""PyTorch 1.13.1."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from orchestrator.pytorch.dialect import Dialect, Generated, Generator
from orchestrator.pytorch.v1_13.flags import FLAGS, LAYOUT
from orchestrator.pytorch.v1_13.keys import KEYS
from orchestrator.pytorch.v1_13.symbols import SYMBOLS
from orchestrator.values.versions import ModelVersions

_FOLDER: Final = Path(__file__).parent

GENERATED: Final = Generated(
    sources=(
        Generator(
            "-m torchgen.gen --source-path aten/src/ATen --per-operator-headers"
            " --generate headers sources --install_dir {output}",
            into="ATen",
        ),
        Generator(
            "tools/setup_helpers/generate_code.py --subset libtorch --disable-autograd"
            " --native-functions-path aten/src/ATen/native/native_functions.yaml"
            " --tags-path aten/src/ATen/native/tags.yaml --per_operator_headers --gen-dir {output}",
            into="autograd",
        ),
    ),
    selected=("generated/Register", "generated/Operators_"),
    # gen_registration_helpers in torchgen/dest/register_dispatch_key.py
    helpers=("create_out", "resize_out", "check_inplace", "maybe_create_proxy"),
    always=frozenset({"aten::is_pinned", "aten::_pin_memory"}),
    worker=_FOLDER / "torchgen_worker.py",
)

DIALECT: Final = Dialect(
    version="1.13.1",
    folder=_FOLDER,
    flags=FLAGS,
    layout=LAYOUT,
    symbols=SYMBOLS,
    keys=KEYS,
    generated=GENERATED,
    # caffe2/serialize/versions.h
    models=ModelVersions(bytecode=range(4, 10), archive=range(1, 11)),
)
