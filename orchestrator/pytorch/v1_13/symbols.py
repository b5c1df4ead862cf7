"""Mangled names of PyTorch 1.13."""

from __future__ import annotations

import re
from typing import Final

from orchestrator.pytorch.dialect import Symbols

SYMBOLS: Final = Symbols(
    # `torch::Library::_impl`, `_def` (two overloads) and `_fallback`; the templates `def` and
    # `impl` around them, where the compiler did not inline these
    commit={
        "_ZNR5torch7Library5_implE": "impl",
        "_ZNR5torch7Library4_defE": "def",
        "_ZNR5torch7Library3def": "def",
        "_ZNR5torch7Library4impl": "impl",
        "_ZNR5torch7Library9_fallbackE": "fallback",
    },
    function="_ZN5torch11CppFunction",
    # TORCH_FN's type, or a function pointer, or a lambda
    holds_kernel=re.compile(r"26CompileTimeFunctionPointerI|[PR]F|Ul"),
    # `torch::jit::Operator::Operator` and `OperatorGenerator<...>` around it
    constructors=("_ZN5torch3jit8OperatorC", "_ZN5torch3jit17OperatorGeneratorI"),
    # the anonymous namespace's own identifier ends with a digit
    library_block=re.compile(r"(?:_GLOBAL__N_1)?(\d+)(TORCH_LIBRARY_\w+)"),
    # After `_init_`: the namespace (which may begin with `_`), a dispatch key, the macro's number.
    library_name=re.compile(
        r"TORCH_LIBRARY_(?:"
        r"IMPL_init_(?P<impl>\w+)_(?P<key>[A-Za-z0-9]+)_\d+"
        r"|FRAGMENT_init_(?P<fragment>\w+)_\d+"
        r"|init_(?P<library>\w+))$"
    ),
    # `at::_ops::add_Tensor::call(...)`: the only compiled way from one kernel to another operator
    operator_call=re.compile(r"^_ZN2at4_ops(\d+)(\w+)$"),
    # torch/library.h
    registering=(
        "_ZNR5torch7Library5_implE",
        "_ZNR5torch7Library4_defE",
        "_ZN5torch7LibraryC1E",
        "_ZN5torch7LibraryC2E",
        "_ZN5torch11CppFunctionC1EN3c10",
        "_ZN5torch11CppFunctionC2EN3c10",
        "_ZN5torch11CppFunctionD",
        "_ZN5torch3jit11parseSchema",
        "_ZN5torch3jit17parseSchemaOrName",
    ),
    # ATen/Parallel.h, Parallel-inl.h
    threads=(
        "_ZN2at14get_thread_numEv",
        "_ZN2at15get_num_threadsEv",
        "_ZN2at18in_parallel_regionEv",
        "_ZN2at8internal14set_thread_numEi",
    ),
    # c10::Dispatcher's members with RecordFunction in their names (Dispatcher.h)
    recording=re.compile(r"_ZNK?3c1010Dispatcher\d+\w*RecordFunction"),
    # torch::jit::_load_for_mobile, all overloads (torch/csrc/jit/mobile/import.h)
    loaders="_ZN5torch3jit16_load_for_mobileE",
)
