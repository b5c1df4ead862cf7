"""Registrations are found in objects and cut out of them, one operator at a time.

`golden/core/registering` holds stand-ins with PyTorch's own names; the shapes are those of its
objects. The shipped index is held against PyTorch's real ones in test_index.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from core_toy import compile_file

from orchestrator.index.objects import ObjectFacts, Section, read_object
from orchestrator.index.registrations import Cut, CutSection, cut_registrations
from orchestrator.pytorch.v1_13.dialect import DIALECT


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ObjectFacts:
    return read_object(compile_file("registering/kernels.cpp", tmp_path_factory.mktemp("k")))


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> ObjectFacts:
    return read_object(compile_file("registering/interpreter.cpp", tmp_path_factory.mktemp("i")))


def section(facts: ObjectFacts, part: str) -> Section:
    """The section of a `TORCH_LIBRARY*` block, or of an array."""
    (found,) = [s for s in facts.sections.values() if part in s.name and "static" not in s.name]
    return found


def cuts(facts: ObjectFacts, part: str) -> CutSection:
    found = cut_registrations(facts, section(facts, part), DIALECT.symbols)
    assert found is not None
    return found


def told(facts: ObjectFacts, cut: Cut) -> tuple[str, str, list[str]]:
    """Operator, key, and the names of the functions that it brings."""
    names = [
        facts.sections[r.section].defines[0] if r.section else r.symbol for r in cut.references
    ]
    return cut.operator, cut.key, names


def test_kernels_under_a_dispatch_key(kernels: ObjectFacts) -> None:
    found = cuts(kernels, "IMPL_init_aten_CPU")
    assert [told(kernels, cut) for cut in found.cuts] == [
        ("aten::add.Tensor", "CPU", ["_ZL10add_kernelv"]),
        ("aten::relu", "CPU", ["_ZL11relu_kernelv"]),
    ]
    # what stays is the machinery, which every registration calls
    assert {r.symbol for r in found.remainder} == {"_ZNR5torch7Library5_implEPKcONS_11CppFunctionE"}


def test_definitions_with_and_without_a_kernel(kernels: ObjectFacts) -> None:
    found = cuts(kernels, "FRAGMENT_init_quantized")
    assert [told(kernels, cut) for cut in found.cuts] == [
        ("quantized::linear", "catchall", ["_Z16quantized_linearv"]),
        ("quantized::undone", "schema", []),
    ]
    # what is called for all of them is not the first one's
    assert "_Z16register_classesv" in {r.symbol for r in found.remainder}


def test_a_namespace_that_begins_with_an_underscore(kernels: ObjectFacts) -> None:
    found = cuts(kernels, "LIBRARY_init__quantized")
    assert [told(kernels, cut) for cut in found.cuts] == [
        ("_quantized::conv2d", "schema", []),
        ("_quantized::add", "schema", []),
    ]


def test_kernels_that_are_seen_in_a_templates_symbol_only(kernels: ObjectFacts) -> None:
    """In the anonymous namespace, as most of PyTorch's are."""
    found = cuts(kernels, "IMPL_init__quantized_QuantizedCPU")
    assert [(cut.operator, cut.key) for cut in found.cuts] == [
        ("_quantized::conv2d", "QuantizedCPU"),
        ("_quantized::prepack", "QuantizedCPU"),
    ]
    for cut, kernel in zip(found.cuts, ("conv_kernel", "prepack_kernel"), strict=True):
        (template,) = [kernels.sections[r.section] for r in cut.references]
        assert template.defines[0].startswith("_ZNR5torch7Library4implI")
        assert kernel in template.defines[0]
    assert found.remainder == ()


def test_a_fallback(kernels: ObjectFacts) -> None:
    found = cuts(kernels, "IMPL_init___AutogradCPU")
    assert [told(kernels, cut) for cut in found.cuts] == [
        ("_::<fallback>", "fallback:AutogradCPU", ["_ZL5boxedv"])
    ]


def test_interpreter_operators_in_an_array(interpreter: ObjectFacts) -> None:
    found = cuts(interpreter, ".data.rel.ro.operators")
    assert [told(interpreter, cut) for cut in found.cuts] == [
        ("aten::len.t", "jit", ["_ZL3lenRN5torch3jit5StackE"]),
        ("prim::TupleIndex", "jit", ["_ZL11tuple_indexRN5torch3jit5StackE"]),
    ]
    assert found.remainder == ()


def test_interpreter_operators_that_are_constructed(interpreter: ObjectFacts) -> None:
    found = cuts(interpreter, ".text.startup")
    assert [told(interpreter, cut) for cut in found.cuts] == [
        # with the place where the operator is constructed
        ("aten::split", "jit", ["_ZTV5Split", "_ZL4made"]),
        ("aten::_infer_size", "jit", ["_ZTV5Infer", "_ZL4made"]),
    ]
    # another global's initialiser is live whatever is selected
    assert "_ZN9UnrelatedC1EPKc" in {r.symbol for r in found.remainder}


def test_what_registers_nothing_is_left_alone(
    kernels: ObjectFacts, interpreter: ObjectFacts
) -> None:
    for facts, part in (
        (kernels, ".text._ZL10add_kernelv"),
        (kernels, ".text.startup"),
        (interpreter, ".data.rel.ro.no_operators"),
        (interpreter, ".text._ZL3len"),
    ):
        assert cut_registrations(facts, section(facts, part), DIALECT.symbols) is None


def test_nothing_is_lost(kernels: ObjectFacts, interpreter: ObjectFacts) -> None:
    """Every reference but those to names is somewhere."""
    for facts in (kernels, interpreter):
        for one in facts.sections.values():
            found = cut_registrations(facts, one, DIALECT.symbols)
            if found is None:
                continue
            kept = {*found.remainder, *(r for cut in found.cuts for r in cut.references)}
            lost = set(one.references) - kept
            assert all(facts.string_at(r.section, r.addend) is not None for r in lost)


def test_arm64_registers_the_same(tmp_path: Path) -> None:
    for name in ("kernels", "interpreter"):
        host, arm = (
            {
                (cut.operator, cut.key)
                for one in facts.sections.values()
                for cut in getattr(cut_registrations(facts, one, DIALECT.symbols), "cuts", ())
            }
            for facts in (
                read_object(compile_file(f"registering/{name}.cpp", tmp_path / "x")),
                read_object(
                    compile_file(
                        f"registering/{name}.cpp", tmp_path / "a", "aarch64-linux-gnu.2.28"
                    )
                ),
            )
        )
        assert host == arm
