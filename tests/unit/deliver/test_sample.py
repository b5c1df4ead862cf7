"""The programs of READMEs: whatever the model is called with, C and C++ without a warning, and
Python that passes what was traced."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import package_toy as toy
import pytest
from zig_tool import zig

from orchestrator.deliver import app_samples, sample
from orchestrator.deliver.manifest import ModelFact
from orchestrator.deliver.sample import Names, c_program, python_call
from orchestrator.values.methods import ELEMENTS, Call, Input, Method, Parameter

LANGUAGES = ("-xc -std=c99", "-xc++ -std=c++17")
CAPI = toy.ROOT / "orchestrator/native/capi"
TENSORS = tuple(Input(kind="tensor", dtype=dtype, shape=(2, 3)) for dtype in ELEMENTS)


def model(call: Call | None, *names: str) -> ModelFact:
    parameters = tuple(Parameter(name=name, type="Tensor") for name in names)
    method = Method(name="forward", parameters=parameters, returns=("Tensor",))
    return ModelFact(name="net", file="net.ptl", sha256="ab" * 32, methods=(method,), call=call)


def call(*arguments: Input, method: str = "forward") -> Call:
    return Call(method=method, arguments=arguments)


PROGRAMS = {
    "no_call": c_program(model(None)),
    "no_arguments": c_program(model(call())),
    "no_tensor_comes_back": c_program(model(call(method="other"))),
    "every_dtype": c_program(model(call(*TENSORS))),
    "sizes": c_program(
        model(call(*(Input(kind="tensor", dtype="int8", shape=s) for s in ((), (0, 3), (1,)))))
    ),
    "names": c_program(
        model(
            call(*TENSORS[:6]),
            *("int", "result", "images", "images_data", "printf", "class"),
        )
    ),
    "values": c_program(
        model(
            call(
                Input(kind="none"),
                Input(kind="bool", value=True),
                Input(kind="int", value=-(2**63) + 1),
                Input(kind="double", value=-1e300),
                Input(kind="string", value="100 %d {}'"),
                Input(
                    kind="tuple",
                    items=(
                        Input(kind="list", items=(Input(kind="int", value=1),) * 2),
                        TENSORS[0],
                    ),
                ),
            )
        )
    ),
}


# No number makes a name of these that C or Swift can have.
PREFIXES = ("lta_mode", "LTA_OK", "_", "_x", "std_dev", "constant", "co_x", "Int", "UInt8")
# Macros of <stdint.h>, <stdio.h>, <stdlib.h>.
MACROS = ("INT8_MAX", "SIZE_MAX", "SEEK_SET", "L_tmpnam", "P_tmpdir", "alloca", "WNOHANG", "linux")


TAKEN = {
    "C": sample._TAKEN,
    "Java": app_samples._JAVA_TAKEN,
    "Swift": app_samples._SWIFT_TAKEN,
}


@pytest.mark.parametrize("language", TAKEN)
def test_a_name_is_found_where_all_that_begins_so_is_taken(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a search that finds none has an end
    monkeypatch.setattr(sample, "count", lambda start: iter(range(start, 20)))
    taken = TAKEN[language]
    names = Names(PREFIXES, taken)
    found = [names.of(index) for index, _ in enumerate(PREFIXES)]
    assert len({*found}) == len(PREFIXES)
    assert [name for name in found if taken.fullmatch(name)] == []


def compiles(program: str, language: str, folder: Path) -> None:
    source = folder / "call.c"
    source.write_text(program)
    zig(
        *("c++" if "++" in language else "cc", *language.split(), "-target", toy.TARGET),
        *("-Wall", "-Wextra", "-Werror", "-Wpedantic", "-I", CAPI, "-c", source),
        *("-o", folder / "call.o"),
    )


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_program_compiles_without_a_warning(name: str, language: str, tmp_path: Path) -> None:
    compiles(PROGRAMS[name], language, tmp_path)


@pytest.mark.parametrize("language", LANGUAGES)
def test_names_that_are_taken_compile(language: str, tmp_path: Path) -> None:
    compiles(c_program(model(call(*TENSORS[:9]), *PREFIXES)), language, tmp_path)
    compiles(c_program(model(call(*TENSORS[:8]), *MACROS)), language, tmp_path)


def test_every_value_is_given_back() -> None:
    text = PROGRAMS["values"]
    made = text.count("      made(lta_")
    assert made == 10
    assert text.count("  lta_value_free(") == made + 1  # and the result


def given(sample: str) -> tuple[Any, ...]:
    """What the lines of a sample pass to its model; an array is a pair of shape and dtype."""
    ast.parse(sample)
    seen: list[tuple[Any, ...]] = []
    names = {name: name for name in (*ELEMENTS, "bool_")}
    np = SimpleNamespace(zeros=lambda shape, dtype: (shape, dtype), **names)
    exec(sample, {"np": np, "model": SimpleNamespace(forward=lambda *a: seen.append(a))})
    return seen[0]


def test_python_passes_what_was_traced() -> None:
    arguments = (
        Input(kind="tensor", dtype="float32", shape=(2, 3)),
        Input(kind="tensor", dtype="bool", shape=()),
        Input(kind="none"),
        Input(kind="bool", value=True),
        Input(kind="int", value=-3),
        Input(kind="double", value=1),
        Input(kind="string", value='it\'s "100 %"'),
        Input(kind="tuple", items=(Input(kind="list", items=(Input(kind="int", value=1),)),)),
    )
    assert given(python_call(model(call(*arguments)))) == (
        *(((2, 3), "float32"), ((), "bool_"), None, True, -3, 1.0, 'it\'s "100 %"', ([1],)),
    )
    assert python_call(model(None)) == "print(list(model.methods))"
