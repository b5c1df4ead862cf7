"""Every function of the C API with NULL for each of its pointers: an error, never a crash.

The calls are made from the header, so that a new function is among them, or fails this test for
want of a value of its parameters' types.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from native_runner import compile_consumer
from real import ROOT, models_of

pytestmark = pytest.mark.real

HEADER = ROOT / "orchestrator/native/capi/libtorch_app.h"
DECLARATION = re.compile(r"^LTA_API ([\w ]+?\*?)(lta_\w+)\(([^;]*)\);", re.MULTILINE)
CALLBACK = re.compile(r"void \(\*(\w+)\)\(void \*\w+\)")

# A value for each type, in the program below; a function where the name says more.
VALUES = {
    "const char *": '"aten::add.Tensor"',
    "const char **": "&text",
    "lta_module *": "module",
    "const lta_module *": "module",
    "lta_module **": "&other_module",
    "lta_value *": "lta_int(1)",
    "const lta_value *": "value",
    "lta_value **": "&other_value",
    "const lta_value *const *": "values",
    "void *": "memory",
    "const void *": "memory",
    "const int64_t *": "shape",
    "int64_t *": "&integer",
    "int *": "&boolean",
    "double *": "&real",
    "size_t *": "&size",
    "lta_tensor_info *": "&info",
    "void (*)(void *)": "count_call",
    "size_t": "1",
    "int64_t": "1",
    "int": "1",
    "double": "1",
    "lta_dtype": "LTA_FLOAT32",
    "lta_kind": "LTA_KIND_INT",
    "lta_status": "LTA_OK",
}
OWN_VALUES = {
    ("lta_module_load", "path"): "path",
    ("lta_module_run", "method"): '"forward"',
    ("lta_module_schema", "method"): '"forward"',
    ("lta_value_find", "value"): "of_kind(LTA_KIND_DICT)",
    ("lta_module_free", "module"): "loaded()",
    ("lta_tensor_copy", "nbytes"): "4",
    ("lta_tensor_borrow", "nbytes"): "4",
    ("lta_tensor_read", "nbytes"): "4",
    ("lta_tensor_copy_quantized", "dtype"): "LTA_QUINT8",
}
# The value that a function looks at, where it is not an int.
LOOKED_AT = {
    "lta_value_bool": "LTA_KIND_BOOL",
    "lta_value_double": "LTA_KIND_DOUBLE",
    "lta_value_string": "LTA_KIND_STRING",
    "lta_value_size": "LTA_KIND_LIST",
    "lta_value_item": "LTA_KIND_LIST",
    "lta_value_entry": "LTA_KIND_DICT",
}
# What the header says of these: (function, parameter) -> what comes of NULL.
FINE = {
    ("lta_tensor_copy", "strides"): "0",
    ("lta_tensor_copy", "data"): "0",
    # camera has no operator that makes a quantised tensor: that is looked at first
    ("lta_tensor_copy_quantized", "data"): "MISSING_OPERATOR",
    ("lta_tensor_borrow", "strides"): "0",
    ("lta_tensor_borrow", "deleter"): "0",
    ("lta_tensor_borrow", "context"): "0",
    ("lta_value_kind", "value"): "LTA_KIND_NONE",
    ("lta_has_operator", "name"): "0",
    ("lta_module_free", "module"): "nothing",
    ("lta_value_free", "value"): "nothing",
    ("lta_module_method_count", "module"): "0",
    ("lta_module_method_name", "module"): "NULL",
    ("lta_module_bytecode_version", "module"): "0",
}
PROGRAM = r"""
#include <libtorch_app.h>
#include <stdio.h>
#include <stdlib.h>

static int calls;
static void count_call(void *context) { (void)context; ++calls; }
static const char *path;
static lta_module *loaded(void) {
  lta_module *module = NULL;
  if (lta_module_load(path, &module) != LTA_OK) exit(3);
  return module;
}
static lta_value *of_kind(lta_kind kind) {
  static float zeros[1];
  const int64_t shape[] = {1};
  const lta_value *items[] = {lta_int(1)};
  switch (kind) {
    case LTA_KIND_BOOL: return lta_bool(1);
    case LTA_KIND_INT: return lta_int(1);
    case LTA_KIND_DOUBLE: return lta_double(1);
    case LTA_KIND_STRING: return lta_string("a", 1);
    case LTA_KIND_LIST: return lta_list(kind, items, 1);
    case LTA_KIND_DICT: return lta_dict(kind, kind, items, items, 1);
    default: return lta_tensor_copy(LTA_FLOAT32, 1, shape, NULL, zeros, sizeof zeros);
  }
}
static void tell_status(const char *name, lta_status status) {
  printf("%s %s\n", name, lta_status_name(status));
}
static void tell_handle(const char *name, const void *handle) {
  printf("%s %s\n", name, handle ? "0" : lta_status_name(lta_last_status()));
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  path = argv[1];
  lta_module *module = loaded(), *other_module = NULL;
  lta_value *other_value = NULL;
  const lta_value *values[] = {lta_int(1)};
  static float memory[64];
  const int64_t shape[] = {1};
  int64_t integer = 0;
  int boolean = 0;
  double real = 0;
  size_t size = 0;
  const char *text = NULL;
  lta_tensor_info info;
  (void)other_module, (void)other_value, (void)values, (void)memory, (void)shape, (void)integer;
  (void)boolean, (void)real, (void)size, (void)text, (void)info, (void)module;
@CALLS@
  return 0;
}
"""


@dataclass(frozen=True)
class Function:
    """A function of the header: what it gives, and type and name of each parameter."""

    result: str
    name: str
    parameters: tuple[tuple[str, str], ...]


def functions() -> list[Function]:
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = []
    for result, name, parameters in DECLARATION.findall(text):
        one_line = CALLBACK.sub(r"CALLBACK \1", " ".join(parameters.split()))
        pairs = []
        for parameter in [] if one_line == "void" else one_line.split(", "):
            kind, name_ = re.fullmatch(r"(.*?)(\w+)", parameter).groups()  # type: ignore[union-attr]
            pairs.append((kind.strip().replace("CALLBACK", "void (*)(void *)"), name_))
        found.append(Function(result.strip(), name, tuple(pairs)))
    return found


def call(function: Function, without: str) -> str:
    """A statement that calls a function with NULL for one parameter, and tells what came of it."""
    given = []
    for kind, name in function.parameters:
        value = OWN_VALUES.get((function.name, name), VALUES[kind])
        if kind == "const lta_value *" and (function.name, name) not in OWN_VALUES:
            looked_at = "LTA_KIND_TENSOR" if "tensor" in function.name else "LTA_KIND_INT"
            value = f"of_kind({LOOKED_AT.get(function.name, looked_at)})"
        given.append("NULL" if name == without else value)
    expression, label = f"{function.name}({', '.join(given)})", f'"{function.name} {without}"'
    match function.result:
        case "void":
            return f'{expression}; puts({label} " nothing");'
        case "lta_status":
            return f"tell_status({label}, {expression});"
        case "lta_value *":
            return f"tell_handle({label}, {expression});"
        case "lta_kind":
            return f'puts({expression} == LTA_KIND_NONE ? {label} " LTA_KIND_NONE" : {label} " ?");'
        case "const char *":
            return f'printf("%s %s\\n", {label}, {expression} ? "text" : "NULL");'
        case _:
            return f'printf("%s %lld\\n", {label}, (long long){expression});'


def test_no_pointer_is_taken_without_a_look(built: Path, tmp_path: Path) -> None:
    pointers = [
        (function, name)
        for function in functions()
        for kind, name in function.parameters
        if "*" in kind
    ]
    assert len({function.name for function, _ in pointers}) > 25
    calls = "\n".join("  " + call(function, name) for function, name in pointers)
    source = tmp_path / "null.c"
    source.write_text(PROGRAM.replace("@CALLS@", f"  setbuf(stdout, NULL);\n{calls}"))
    program = compile_consumer(source, tmp_path / "null", "camera", built / "camera/linux-x86_64")
    done = subprocess.run(
        [program, models_of("camera")[0]], capture_output=True, text=True, check=False
    )
    told = [line.split(" ") for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{done.returncode} after {told[-1:]}"
    assert {(function, name): came for function, name, came in told} == {
        (function.name, name): FINE.get((function.name, name), "INVALID_ARGUMENT")
        for function, name in pointers
    }


def test_every_function_of_the_header_is_read() -> None:
    text = HEADER.read_text(encoding="utf-8")
    assert len(functions()) == text.count("\nLTA_API ")
    borrow = next(one for one in functions() if one.name == "lta_tensor_borrow")
    assert borrow.parameters[-2:] == (("void (*)(void *)", "deleter"), ("void *", "context"))
    assert borrow.result == "lta_value *"
