"""PyTorch 2.6.0 (decisions 0050, 0056 and 0067)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from orchestrator.pytorch.dialect import Generator
from orchestrator.pytorch.v1_13 import dialect as v1_13
from orchestrator.pytorch.v1_13.flags import FLAGS as OLDER_FLAGS

_FOLDER: Final = Path(__file__).parent
# As seen from native/, where headers of ours are looked for.
_OVERLAY: Final = "../pytorch/v2_6/overlay"
_MINIZ: Final = {"$tree/third_party/miniz-2.1.0": "$tree/third_party/miniz-3.0.2"}

FLAGS: Final = replace(
    OLDER_FLAGS,
    # headers of ours that stand before PyTorch's come first
    include=(
        f"$native/{_OVERLAY}",
        *(_MINIZ.get(folder, folder) for folder in OLDER_FLAGS.include),
    ),
    unexported=frozenset((f"$native/{_OVERLAY}", *_MINIZ.values())),
    before=(f"{_OVERLAY}/ATen/native/TensorFactories.h", f"{_OVERLAY}/cpuinfo.h"),
)

_TORCHGEN, _AUTOGRAD = v1_13.GENERATED.sources

GENERATED: Final = replace(
    v1_13.GENERATED,
    sources=(
        # The C functions of AOTInductor are written too, by default into the tree.
        Generator(f"{_TORCHGEN.arguments} --aoti-install-dir {{output}}/aoti", _TORCHGEN.into),
        _AUTOGRAD,
    ),
    # the template of RegisterBackendSelect.cpp calls no operator of its own
    always=frozenset(),
)

DIALECT: Final = replace(
    v1_13.DIALECT,
    version="2.6.0",
    folder=_FOLDER,
    base=v1_13.DIALECT,
    flags=FLAGS,
    generated=GENERATED,
)
