"""Programs of torch.export: what is read of them, and what torch never gets to see."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program_toy import program, records, saved, write

from orchestrator.errors import OrchestratorError
from orchestrator.models.archive import DamagedModelError
from orchestrator.models.info import UnreadableModelError
from orchestrator.models.pickles import UnsafePickleError
from orchestrator.models.program_text import expression_fault, guard_fault, spec_fault
from orchestrator.models.programs import (
    ForeignOperatorError,
    NotAProgramError,
    ProgramInfo,
    UnsafeProgramError,
    read_program,
)

EVIL = "__import__('os').system('true')"
Edit = Callable[[dict[str, Any]], object]


class Calls:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("true",)


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., ProgramInfo]:
    def call(edit: Edit = lambda value: None, **more: bytes) -> ProgramInfo:
        value, its = program(), records()
        edit(value)
        its["models/model.json"] = json.dumps(value).encode()
        its |= {name.replace("__", "/"): content for name, content in more.items()}
        return read_program(write(tmp_path / "net.pt2", its), name="net.pt2")

    return call


def test_what_a_program_says(read: Callable[..., ProgramInfo]) -> None:
    info = read()
    assert info.operators == ("aten::mm", "aten::relu")
    assert [method.text() for method in info.own_methods] == ["forward(Tensor x) -> None"]
    assert (info.torch, info.has_inputs) == ("2.13.0+cpu", True)
    assert not read(**{"data__sample_inputs__model.pt": b""}).has_inputs


def test_records_at_the_top_as_before_2_8(tmp_path: Path) -> None:
    value = json.dumps(program()).encode()
    its = {
        "version": b"8.8",
        "serialized_exported_program.json": value,
        "serialized_state_dict.pt": saved({}),
        "serialized_constants.pt": saved({}),
        "serialized_example_inputs.pt": saved(((), {})),
    }
    info = read_program(write(tmp_path / "old.pt2", its, root=""))
    assert (info.operators, info.has_inputs) == (("aten::mm", "aten::relu"), True)
    its["serialized_constants.pt"] = saved(Calls())
    with pytest.raises(UnsafePickleError) as caught:
        read_program(write(tmp_path / "old.pt2", its, root=""))
    assert "only tensors in serialized_constants.pt" in caught.value.render()


def test_several_programs_are_methods(read: Callable[..., ProgramInfo]) -> None:
    more = {"models__encode.json": json.dumps(program()).encode()}
    assert [method.name for method in read(**more).own_methods] == ["encode", "forward"]


def graph(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = value["graph_module"]["graph"]
    return found


def signature(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = value["graph_module"]["module_call_graph"][0]["signature"]
    return found


def spec(kind: str, context: str) -> str:
    child: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    return json.dumps([1, {"type": kind, "context": context, "children_spec": [child]}])


@pytest.mark.parametrize(
    ("edit", "seen"),
    [
        (lambda v: v["guards_code"].append(EVIL), f"the guard {EVIL!r}"),
        (
            lambda v: graph(v)["sym_int_values"].update(
                metadata={"as_expr": {"expr_str": EVIL, "hint": None}}
            ),
            f"the size {EVIL!r}",
        ),
        (lambda v: graph(v)["nodes"][0].update(name=f"x = {EVIL}"), f"the name {'x = ' + EVIL!r}"),
        (lambda v: graph(v)["tensor_values"].update({"a\nb": {}}), "the name 'a\\nb'"),
        (lambda v: graph(v)["nodes"][0].update(name="lambda"), "the name 'lambda'"),
        (
            lambda v: graph(v)["nodes"][0].update(target="torch.os.system"),
            "the operator 'torch.os.system'",
        ),
        (
            lambda v: graph(v)["nodes"][0].update(target="_operator.attrgetter"),
            "the operator '_operator.attrgetter'",
        ),
        (
            lambda v: graph(v)["nodes"][0].update(target="torch.ops.aten.from_file.default"),
            "aten::from_file, which opens files",
        ),
        (
            lambda v: graph(v)["nodes"][0].update(target="torch.ops.higher_order.call_torchbind"),
            "the operator 'torch.ops.higher_order.call_torchbind'",
        ),
        (
            lambda v: graph(v)["custom_obj_values"].update(w={"class_fqn": "x"}),
            "an object of C++, such as packed weights",
        ),
        (
            lambda v: signature(v).update(forward_arg_names=["x=print()"]),
            "the name 'x=print()'",
        ),
        (
            lambda v: signature(v).update(in_spec=spec("collections.defaultdict", "{}")),
            "an argument or a result of the type 'collections.defaultdict'",
        ),
        (
            lambda v: signature(v).update(
                in_spec=spec("builtins.dict", '[{"__enum__": true, "fqn": "os:x", "name": "y"}]')
            ),
            "an argument or a result named '__enum__'",
        ),
        (lambda v: v.update(torch_version=7), "a version that is no text"),
    ],
)
def test_what_torch_would_run(read: Callable[..., ProgramInfo], edit: Edit, seen: str) -> None:
    with pytest.raises(UnsafeProgramError) as caught:
        read(edit)
    assert caught.value.render() == (
        "net.pt2: error: this program of torch.export is not safe to load\n"
        "  expected: operators, arithmetic on sizes, and names, as torch.export.save writes them\n"
        f"  seen:     models/model.json: {seen}\n"
        "  do:       do not load this file anywhere, unless you exported it: then report it"
    )


def test_a_hidden_size_in_a_table_of_texts(read: Callable[..., ProgramInfo]) -> None:
    """`metadata` is skipped where all in it is text, and is none of a size there."""
    with pytest.raises(UnsafeProgramError):
        read(lambda v: graph(v).update(metadata={"x": {"expr_str": EVIL}}))


@pytest.mark.parametrize(
    "name",
    [
        "data__aotinductor__model__x.so",
        "data__constants__custom_obj_0",
        "data__constants__opaque_obj_0",
        "data__executorch__x",
    ],
)
def test_records_with_code(read: Callable[..., ProgramInfo], name: str) -> None:
    with pytest.raises(UnsafeProgramError, match="not safe to load"):
        read(**{name: b"x"})


@pytest.mark.parametrize(
    ("pickled", "seen"),
    [
        (saved(Calls()), "the Python object 'posix.system'"),
        (saved(Calls(), protocol=4), "the pickle opcode STACK_GLOBAL"),
        (saved({}).replace(b"archive/data.pkl", b"archive/data.xyz"), "did not write"),
    ],
)
def test_a_pickle_that_calls(read: Callable[..., ProgramInfo], pickled: bytes, seen: str) -> None:
    with pytest.raises(UnsafePickleError) as caught:
        read(**{"data__sample_inputs__model.pt": pickled})
    assert seen in caught.value.render()
    # a weight that its table says to be pickled
    config = {"config": {"w": {"path_name": "weight_0", "use_pickle": True}}}
    with pytest.raises(UnsafePickleError):
        read(
            data__weights__weight_0=pickled,
            **{"data__weights__model_weights_config.json": json.dumps(config).encode()},
        )


def test_an_operator_nobody_has(read: Callable[..., ProgramInfo]) -> None:
    with pytest.raises(ForeignOperatorError) as caught:
        read(lambda v: graph(v)["nodes"][0].update(target="torch.ops.mylib.magic.default"))
    assert caught.value.render().startswith(
        "net.pt2: error: this program calls mylib::magic, an operator that nobody here has\n"
    )


def test_no_program(tmp_path: Path) -> None:
    file = tmp_path / "x.pt2"

    def seen(kind: type[OrchestratorError]) -> str:
        with pytest.raises(kind) as caught:
            read_program(file, name="x.pt2")
        return caught.value.render()

    assert "  seen:     No such file or directory\n" in seen(UnreadableModelError)
    file.write_bytes(b"hello")
    assert seen(NotAProgramError) == (
        "x.pt2: error: this is not a program of torch.export\n"
        "  expected: a zip archive, as torch.export.save writes it\n"
        "  seen:     a file that begins with 68 65 6c 6c\n"
        "  do:       save the result of torch.export.export with torch.export.save"
    )
    write(file, records())
    file.write_bytes(file.read_bytes()[:-100])
    assert "expected: a complete .pt2 archive" in seen(DamagedModelError)
    write(file, {"bytecode.pkl": b"x"})
    assert "give it the suffix .ptl" in seen(NotAProgramError)
    write(file, {"data/weights/weight_0": b"x"})
    assert "  seen:     an archive without one\n" in seen(NotAProgramError)
    write(file, {**records(), "models/a-b.json": b"{}"})
    assert "  seen:     a program named 'a-b'\n" in seen(NotAProgramError)
    write(file, {**records(), "models/model.json": b"{"})
    assert "models/model.json: Expecting" in seen(DamagedModelError)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("Symbol('s0', positive=True, integer=True)", True),
        ("2*s0 + 1", True),
        ("FloorDiv(Add(s0, Integer(-1)), 2)", True),
        ("Max(1, u0)", True),
        ("Symbol('x y')", False),
        ("Symbol('s0', commutative=print())", False),
        ("s0.__class__", False),
        ("open", False),
        ("lambda: 0", False),
        ("[s0 for s0 in s1]", False),
        ("(" * 500 + "1" + ")" * 500, False),
        ("9" * 30_000, False),
    ],
)
def test_sizes(text: str, good: bool) -> None:
    assert (expression_fault(text) is None) == good


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("L['x'].size()[0] <= 64", True),
        ("L['x']['k'][0].size()[1] == L['y'].stride()[0] // 2", True),
        ("not (L['n'] % 2 == 0 or max(L['n'], 3) > 4)", True),
        ("math.isnan(L['f'])", True),
        ("L['x'].__class__", False),
        ("torch.os.system('x')", False),
        ("math.__loader__", False),
        ("L['x'].size(**L)", False),
        ("L[(yield)]", False),
        ("open('x')", False),
    ],
)
def test_guards(text: str, good: bool) -> None:
    assert (guard_fault(text) is None) == good


def test_trees_of_arguments() -> None:
    assert spec_fault("") is None
    assert spec_fault(spec("builtins.dict", '["a b"]')) is None
    assert spec_fault(spec("transformers.modeling_outputs.BaseModelOutput", '["x"]')) is None
    assert "an argument or a result named" in str(spec_fault(spec("builtins.dict", '["a\'b"]')))
    assert "the tree of arguments" in str(spec_fault("[1"))
    named = {"type": "builtins.dict", "context": '["a b"]', "children_spec": []}
    root = {"type": "builtins.tuple", "context": "null", "children_spec": [named]}
    assert spec_fault(json.dumps([1, root])) == "an argument named 'a b'"
