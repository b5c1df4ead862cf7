"""C++ of elementwise operators: a user's function, and all the code around it that a backend needs.

A backend is a template, `elementwise_<backend>.cpp.j2`. The function is inserted verbatim, with
`#line` directives for its own file. The interface is that of PyTorch's Jiterator
(`jiterator_stringify` in `ATen/jit_macros.h`). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from orchestrator.codegen.render import render
from orchestrator.system.templates import Fit
from orchestrator.values.config.app import ElementwiseConfig

Backend = Literal["cpu"]

# c10/core/ScalarType.h
SCALAR_TYPES: Final[Mapping[str, str]] = {
    "bool": "Bool",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
}


def elementwise_text(
    config: ElementwiseConfig,
    namespace: str,
    functor: str,
    path: str,
    line: int,
    backend: Backend = "cpu",
) -> str:
    """The C++ that registers one operator, and computes it.

    functor: its lines, as they are at `line` of the file that messages call `path`.
    Raises UnfitTextError.
    """
    return render(
        f"elementwise_{backend}.cpp.j2",
        namespace=namespace,
        name=config.name,
        inputs=[f"x{number}" for number in range(config.arity)],
        scalar_types=[SCALAR_TYPES[dtype] for dtype in config.dtypes],
        promotes=config.promotion != "none",
        to_float=config.promotion == "int_to_float",
        # C++ of the user's own, as that under `sources:`
        functor=Fit(functor),
        path=path,
        line=line,
    )
