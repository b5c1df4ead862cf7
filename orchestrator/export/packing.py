"""The engine that int8 weights are packed for, in this process. A file does not depend on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def exact_engine() -> Iterator[None]:
    """Packs for QNNPACK: others saturate sums in 16 bits on some processors."""
    backend = torch.backends.quantized
    old = backend.engine
    if "qnnpack" in backend.supported_engines:
        backend.engine = "qnnpack"
    try:
        yield
    finally:
        backend.engine = old
