"""The shipped indices of XNNPACK, and symbols of it that layers need."""

from __future__ import annotations

from typing import get_args

from orchestrator.index.model import load_index
from orchestrator.libraries.index import LibraryIndex, library_index_path
from orchestrator.values.config.toolchain import Processor

PROCESSORS: tuple[Processor, ...] = get_args(Processor)
CONVOLUTION = frozenset(
    f"xnn_{what}_convolution2d_nhwc_f32" for what in ("create", "reshape", "setup")
)
WANTED = CONVOLUTION | {
    "xnn_initialize",
    "xnn_run_operator",
    "xnn_delete_operator",
    "xnn_create_fully_connected_nc_f32",
    "xnn_reshape_fully_connected_nc_f32",
    "xnn_setup_fully_connected_nc_f32",
    "xnn_init_f32_gemm_config",
    "xnn_init_f32_dwconv_config",
}
INT8 = frozenset(
    f"xnn_{what}_{layer}_qs8_qc8w"
    for what in ("create", "reshape", "setup")
    for layer in ("convolution2d_nhwc", "fully_connected_nc")
)


def shipped(processor: Processor) -> LibraryIndex:
    return LibraryIndex(load_index(library_index_path("xnnpack", processor)))
