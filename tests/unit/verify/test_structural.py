"""What a library is made of, read from its symbols and bytes, and where it differs from another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.values.operators import OperatorName as Op
from orchestrator.verify.structural import (
    Structure,
    StructureDiffersError,
    differences,
    require_same,
    structure_of,
    wrappers_of,
)

REGISTERING = ("registrations.cpp", "CPUGuardImpl.cpp")
# The same library as three ABIs name it: x86-64 Linux, 32-bit ARM Android, arm64 iOS.
LINUX = (
    "_ZN2at12_GLOBAL__N_112_GLOBAL__N_123wrapper_CPU__as_stridedERKNS_6TensorEN3c108ArrayRefINS5_6"
    "SymIntEEES8_NS5_8optionalIS7_EE",
    "_ZN2at12_GLOBAL__N_112_GLOBAL__N_117wrapper_CPU__viewERKNS_6TensorEN3c108ArrayRefINS5_6SymInt"
    "EEE",
    "_ZN2at6native12DispatchStubIPFvN3c1010ScalarTypeENS0_13TransposeTypeES4_lllEN"
    "S0_7cpublas9gemm_stubEE7DEFAULTE",
    "_ZN2at6native12DispatchStubIPFvRNS_14TensorIteratorEENS0_8sum_stubEE7DEFAULTE",
    "_GLOBAL__sub_I_registrations.cpp",
    "_GLOBAL__sub_I_CPUGuardImpl.cpp",
    "_GLOBAL__sub_I_iostream.cpp",
    "_ZNSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEE6appendEPKc",
)
ANDROID = (
    *LINUX[:2],
    LINUX[2].replace("lll", "xxx"),
    LINUX[3],
    *LINUX[4:6],
    "_GLOBAL__sub_I_emutls.cpp",
    "_ZNSt6__ndk112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEE6appendEPKc",
)
IOS = tuple("_" + name for name in LINUX)
TEXT = b"\0aten::add.Tensor(Tensor self, Tensor other) -> Tensor\0not one (of them)\0"


def made(symbols: tuple[str, ...] = LINUX, data: bytes = TEXT) -> Structure:
    return structure_of(symbols, data, registering=REGISTERING, dtypes={"Copy.cpp": "ab"})


def test_what_a_library_is_made_of() -> None:
    assert made() == Structure(
        schemas=frozenset({"add.Tensor(Tensor self, Tensor other) -> Tensor"}),
        kernels=frozenset(
            {"wrapper_CPU__as_strided", "wrapper_CPU__view", "gemm_stub", "sum_stub"}
        ),
        initialisers=frozenset(REGISTERING),
        dtypes={"Copy.cpp": "ab"},
    )


@pytest.mark.parametrize("symbols", [ANDROID, IOS])
def test_it_is_the_same_for_every_abi(symbols: tuple[str, ...]) -> None:
    require_same("//apps/toy:other", "//apps/toy:linux-x86_64", made(), made(symbols))


def test_the_number_of_the_namespace_is_no_part_of_a_length() -> None:
    # 49 characters; the 150th is an E by chance
    kernel = "wrapper_CompositeExplicitAutograd__arange_of_ones"
    rest = kernel + "E" + "x" * 99 + "E" + "RKN3c106ScalarE"
    symbol = f"_ZN2at12_GLOBAL__N_112_GLOBAL__N_1{len(kernel)}{rest}"
    assert rest[149] == "E"
    assert made(symbols=(symbol,)).kernels == {kernel}


def test_a_text_that_the_linker_merged_into_a_longer_one_is_the_same() -> None:
    without_namespace = TEXT.replace(b"aten::", b"")
    assert made(data=without_namespace).schemas == made().schemas


def refused(ran: Structure, seen: Structure) -> str:
    with pytest.raises(StructureDiffersError) as caught:
        require_same("//apps/toy:android-arm64-v8a", "//apps/toy:linux-x86_64", ran, seen)
    return caught.value.render()


def test_what_is_missing_is_told() -> None:
    seen = structure_of(LINUX[1:4], b"", registering=REGISTERING, dtypes={"Copy.cpp": "cd"})
    assert (
        refused(made(), seen)
        == """\
error: //apps/toy:android-arm64-v8a differs structurally from //apps/toy:linux-x86_64, \
the variant that was executed
  expected: the 1 operators and 4 kernels of //apps/toy:linux-x86_64
  seen:     1 missing schemas: add.Tensor
  do:       build both again; if the error persists, it is a bug in the build for this ABI
  | 1 missing schemas: add.Tensor
  | 1 missing kernels: wrapper_CPU__as_strided
  | 2 missing initialisers: CPUGuardImpl.cpp, registrations.cpp
  | 1 units compiled for different dtypes: Copy.cpp"""
    )


def test_what_is_too_much_is_told() -> None:
    less = made(symbols=LINUX[1:])
    assert differences(less, made()) == ("1 unexpected kernels: wrapper_CPU__as_strided",)


@pytest.mark.parametrize(
    ("operator", "key", "symbol"),
    [
        ("aten::as_strided", "CPU", LINUX[0]),
        (
            "aten::slice.Tensor",
            "CompositeExplicitAutograd",
            "_ZN2at12_GLOBAL__N_146wrapper_CompositeExplicitAutograd_Tensor_sliceE",
        ),
        ("aten::add.out", "CPU", "_ZN2at12_GLOBAL__N_123wrapper_CPU_out_add_outE"),
        ("aten::add.Tensor", "CPU", "_ZN2at12_GLOBAL__N_122wrapper_CPU_add_TensorE"),
        ("aten::tril", "CPU", "_ZN2at12_GLOBAL__N_116wrapper_CPU_trilE"),
    ],
)
def test_a_kernel_that_code_calls_directly_may_be_inlined(
    operator: str, key: str, symbol: str
) -> None:
    direct = frozenset(wrappers_of(Op(operator), key))
    with_it, without = (
        structure_of(
            symbols, TEXT, registering=REGISTERING, dtypes={"Copy.cpp": "ab"}, direct=direct
        )
        for symbols in ((*LINUX[1:], symbol), LINUX[1:])
    )
    assert differences(with_it, without) == ()
    # registered, it is one
    registered = made(symbols=(*LINUX[1:], symbol))
    assert len(registered.kernels - without.kernels) == 1


def test_kernels_that_the_apps_linker_drops_are_no_difference() -> None:
    less = made(symbols=LINUX[1:])
    assert differences(less, replace(made(), collected=False)) == ()
    assert differences(made(), replace(less, collected=False)) == (
        "1 missing kernels: wrapper_CPU__as_strided",
    )


def test_schemas_of_entry_points_that_the_apps_linker_drops_are_no_difference() -> None:
    more = made(data=TEXT + b"values(Tensor(a) self) -> Tensor(a)\0")
    assert differences(made(), more) == ("1 unexpected schemas: values",)
    assert differences(made(), replace(more, collected=False)) == ()
    assert differences(more, replace(made(), collected=False)) == ("1 missing schemas: values",)


def test_units_that_one_processor_alone_has_are_no_difference() -> None:
    assert differences(made(), replace(made(), dtypes={"Copy.cpp": "ab", "Neon.cpp": "ef"})) == ()


def test_libraries_without_names_are_not_the_same() -> None:
    nothing = structure_of((), b"", registering=REGISTERING, dtypes={})
    assert "without operators, kernels or initialisers" in refused(nothing, nothing)
