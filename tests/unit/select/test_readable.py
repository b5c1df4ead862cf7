"""Mangled names as `why` prints them."""

from __future__ import annotations

import pytest
from shipped_index import shipped

from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.v1_13.dialect import DIALECT as V1_13
from orchestrator.pytorch.v2_6.dialect import DIALECT as V2_6
from orchestrator.select.readable import readable


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("_ZN2at6native6linearERKNS_6TensorES3_", "at::native::linear"),
        ("_ZNK3c1010TensorImpl5sizesEv@c10/core/TensorImpl.cpp", "c10::TensorImpl::sizes"),
        ("_ZNKR2at10TensorBase8accessorIfLm1EEEv", "at::TensorBase::accessor"),
        ("_ZN2at12_GLOBAL__N_17wrapperEv@generated/x.cpp", "at::(anonymous)::wrapper"),
        ("_ZN2at4_opsL28create_fft_ifft_typed_handleEv", "at::_ops::create_fft_ifft_typed_handle"),
        ("_ZNSt3__16vectorIN3c105EventEE4growEv", "std::vector"),
        ("_ZSt28__throw_bad_array_new_lengthB9nie220108v", "std::__throw_bad_array_new_length"),
        ("_Z13calc_log_ndtrIdET_S0_", "calc_log_ndtr"),
        ("_ZL18set__functionalizeRN2at6TensorERKS0_@a.cpp", "set__functionalize"),
        ("_ZN2at11QTensorImplC2EN3c107StorageE", "at::QTensorImpl::QTensorImpl"),
        ("_ZN2at11QTensorImplD0Ev", "at::QTensorImpl::~QTensorImpl"),
        ("_ZNR2at6TensoraSEONS_10TensorBaseE", "at::Tensor::operator="),
        ("_ZTVN2at6TensorE", "vtable of at::Tensor"),
        ("_ZTI20ConvPackedParamsBaseILi2EE", "type information of ConvPackedParamsBase"),
        ("_ZTSFN2at6TensorEN3c106ScalarES0_E", "type name of a function type"),
        ("_ZThn16_N2at6TensorD0Ev", "thunk to at::Tensor::~Tensor"),
        ("_ZTv0_n24_NSiD0Ev", "_ZTv0_n24_NSiD0Ev"),
        ("_ZGVZN2at4implEvE5cache", "guard of a local of at::impl"),
        ("_ZZZN2at6native3topEvENKUlvE_clEvENKUlvE0_clEv", "a local of at::native::top"),
        ("_GLOBAL__sub_I_Copy.cpp@aten/Copy.cpp", "static initialisers of Copy.cpp"),
        ("#1004@aten/src/ATen/native/BinaryOps.cpp", "a section without a symbol"),
        ("xnn_run_operator", "xnn_run_operator"),
        ("_Z", "_Z"),
        ("_ZN", "_ZN"),
        ("_ZTT", "_ZTT"),
        ("_ZT", "_ZT"),
        ("_ZN9at", "at"),
    ],
)
def test_readable_names(symbol: str, expected: str) -> None:
    assert readable(symbol) == expected


@pytest.mark.parametrize("dialect", [V1_13, V2_6])
def test_every_name_of_the_runtimes_is_readable(dialect: Dialect) -> None:
    mangled = [name for name in shipped(dialect).names if readable(name).startswith(("_Z", "#"))]
    assert mangled == []
