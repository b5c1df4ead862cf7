"""PyTorch 2.6.0 (decisions 0050, 0056 and 0067)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from orchestrator.pytorch.dialect import Generator
from orchestrator.pytorch.v1_13 import dialect as v1_13
from orchestrator.pytorch.v1_13.flags import FLAGS as OLDER_FLAGS

_FOLDER: Final = Path(__file__).parent
# Headers of ours that stand before PyTorch's in any unit.
_BEFORE: Final = "$overlay/include"
_MINIZ: Final = {"$tree/third_party/miniz-2.1.0": "$tree/third_party/miniz-3.0.2"}

FLAGS: Final = replace(
    OLDER_FLAGS,
    include=(
        _BEFORE,
        *(_MINIZ.get(folder, folder) for folder in OLDER_FLAGS.include),
    ),
    unexported=frozenset((_BEFORE, *_MINIZ.values())),
    # the overlay's headers include those of native/ that they change
    quoted=("$native",),
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
