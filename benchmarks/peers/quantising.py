"""int8 models: what every tool calibrates with, torch's own quantiser, and the file that ours runs.
Needs torch."""

from __future__ import annotations

import warnings
from typing import Any, Final

import torch
from torch.ao.quantization import (
    MinMaxObserver,
    QConfig,
    QConfigMapping,
    default_per_channel_weight_observer,
)
from torch.ao.quantization.backend_config import BackendConfig, get_qnnpack_backend_config
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

from benchmarks.peers.catalogue import SEED
from benchmarks.peers.exporting import Subject, images
from orchestrator.export.saving import Export, export, trace

_CALIBRATED_WITH: Final = 16


def calibration() -> tuple[Any, ...]:
    """Inputs [1, 3, 224, 224], none of them the one that is timed: the same for every tool."""
    return tuple(images(_CALIBRATED_WITH, SEED + 2).split(1))


def quantised(
    found: Subject, engine: str, mapping: QConfigMapping, backend: BackendConfig | None = None
) -> Any:
    """The module in int8 by torch's FX mode, packed for an engine; this process runs it on that."""
    warnings.filterwarnings("ignore", message="torch.ao.quantization is deprecated")
    # quantised tensors are resized, which torch does not call deterministic
    torch.use_deterministic_algorithms(False)
    torch.backends.quantized.engine = engine
    observed = prepare_fx(found.model, mapping, found.inputs, backend_config=backend)
    with torch.no_grad():
        for one in calibration():
            observed(one)
    return convert_fx(observed, backend_config=backend)


def as_int8_ptl(name: str, found: Subject) -> bytes:
    """The model's file for our libraries, packed for QNNPACK: activations of 8 bits, a scale for
    each output channel of a weight."""
    config = QConfig(
        activation=MinMaxObserver.with_args(dtype=torch.quint8),
        weight=default_per_channel_weight_observer,
    )
    mapping = QConfigMapping().set_global(config)
    module = quantised(found, "qnnpack", mapping, get_qnnpack_backend_config())
    compiled = torch.jit.freeze(trace(module, *found.inputs))
    model = Export(module, [found.inputs], compiled=compiled, canonical="off", sizes="fixed")
    return export(name, model).data
