"""Flags of PyTorch 1.13's units (CMakeLists.txt, cmake/Codegen.cmake, caffe2)."""

from __future__ import annotations

from typing import Final

from orchestrator.pytorch.dialect import Layout, UnitFlags

_MINIZ: Final = "third_party/miniz-2.1.0"

FLAGS: Final = UnitFlags(
    standard="-std=gnu++17",
    macros=(
        "-DC10_MOBILE",
        "-DBUILD_LITE_INTERPRETER",
        "-DNO_EXPORT",
        "-DTEMPLATE_SELECTIVE_BUILD",
        "-DTRACING_BASED",
        "-DAT_PER_OPERATOR_HEADERS",
        "-DFEATURE_TORCH_MOBILE",
        "-DFMT_HEADER_ONLY=1",
        "-DCPU_CAPABILITY=DEFAULT",
        "-DCPU_CAPABILITY_DEFAULT",
        "-DHAVE_MMAP=1",
        "-DHAVE_SHM_OPEN=1",
        "-DHAVE_SHM_UNLINK=1",
        "-DHAVE_MALLOC_USABLE_SIZE=1",
    ),
    release=("-DSTRIP_ERROR_MESSAGES", "-DPYTORCH_DISABLE_PER_OP_PROFILING"),
    # The dispatcher tells its observers of every operator, and AT_DISPATCH of every tag and dtype.
    tracer=("-DSTRIP_ERROR_MESSAGES", "-DENABLE_RECORD_KERNEL_FUNCTION_DTYPE"),
    # bionic has no POSIX shared memory
    # miniz, beside QNNPACK: its checksum is our own unit (native/archive/crc32.cpp)
    c=("-DUSE_EXTERNAL_MZCRC",),
    # Order matters: the shared selection header must hide upstream's generated one.
    include=(
        "$native/selection",
        "$configured",
        "$generated",
        "$generated/ATen",
        "$tree/aten/src",
        "$tree",
        f"$tree/{_MINIZ}",
        "$generated/autograd",
        "$native/stubs",
        "$third_party_fmt",
    ),
    unexported=frozenset({f"$tree/{_MINIZ}"}),
)

LAYOUT: Final = Layout(
    reading=("caffe2/serialize/", "third_party/miniz-", "torch/csrc/jit/serialization/"),
    kernels=(
        "aten/src/ATen/native/",
        "aten/src/ATen/TensorIterator",
        "aten/src/ATen/EmptyTensor",
    ),
    running=(
        "aten/src/ATen/native/",
        "aten/src/ATen/TensorIterator",
        "c10/core/",
        "caffe2/perfkernels/",
    ),
    loops=(
        "aten/src/ATen/native/BlasKernel",
        *(f"aten/src/ATen/native/{folder}/" for folder in ("ao_sparse", "cpu", "mkl", "quantized")),
        *("aten/src/ATen/native/sparse/", "aten/src/ATen/native/transformers/"),
        *("aten/src/ATen/TensorIterator", "caffe2/perfkernels/"),
    ),
    # c10's and miniz are quicker without
    precompiled=("aten/", "torch/", "generated/"),
    threads="aten/src/ATen/ParallelOpenMP.cpp",
)
