"""Programs for a README: each loads a model and calls it as it was traced, tensors full of zeros.

Contract: pure; lines of C compile as C99 and C++ without a warning, and run with what `ModelFact`
says. A model without a known call gets a program that lists its methods.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Final

from orchestrator.deliver.manifest import ModelFact
from orchestrator.system.templates import Fit
from orchestrator.values.methods import ELEMENTS, Call, Input

_HEAD: Final = """\
#include <stdio.h>
#include <stdlib.h>

static void check(lta_status status) {
  if (status != LTA_OK) {
    fprintf(stderr, "%s: %s\\n", lta_status_name(status), lta_last_error());
    exit(1);
  }
}
"""
_MADE: Final = """
/* What a function gives back is NULL where it failed. */
static lta_value *made(lta_value *value) {
  if (value == NULL) {
    check(lta_last_status());
  }
  return value;
}
"""
_TENSOR: Final = """\
  lta_tensor_info info;
  check(lta_tensor_describe(result, &info));
  void *numbers = malloc(info.nbytes ? info.nbytes : 1);
  if (numbers == NULL) {
    return 1;
  }
  check(lta_tensor_read(result, numbers, info.nbytes));
  printf("%zu numbers of %s\\n", info.numel, lta_dtype_name(info.dtype));
  free(numbers);
"""
_METHODS: Final = """\
  for (size_t i = 0; i < lta_module_method_count(module); ++i) {
    printf("%s\\n", lta_module_method_name(module, i));
  }
"""
# Of the program itself, of C and C++, and macros of the C library's headers: those in capitals are
# too many to list.
_TAKEN: Final = re.compile(
    r"module|arguments|result|info|numbers|argc|argv|main|check|made|lta_\w*|LTA_\w*|_\w*|\w*_t"
    r"|std\w+|[A-Z][A-Z0-9_]+|[LP]_\w+|alloca|exit|free|malloc|printf|fprintf"
    r"|alignas|alignof|and|and_eq|asm|auto|bitand|bitor|bool|break|case|catch|char\w*|class|compl"
    r"|concept|const\w*|continue|co_\w+|decltype|default|delete|do|double|dynamic_cast|else|enum"
    r"|explicit|export|extern|false|float|for|friend|goto|if|inline|int|linux|long|mutable"
    r"|namespace|new|noexcept|not|not_eq|nullptr|operator|or|or_eq|private|protected|public"
    r"|register|reinterpret_cast|requires|restrict|return|short|signed|sizeof|static\w*|struct"
    r"|switch|template|this|thread_local|throw|true|try|typedef|typeid|typename|typeof|union"
    r"|unix|unsigned|using|virtual|void|volatile|wchar_t|while|xor|xor_eq"
)


def sampled(models: Iterable[ModelFact]) -> ModelFact:
    """The model that a README calls: one whose call is known, where there is one."""
    return min(models, key=lambda model: (model.call is None, model.name))


def c_program(model: ModelFact, header: str = "libtorch_app.h") -> Fit:
    """The program's text; its argument is the model's file. It is fit for a block of code: names,
    types and values are those of `values.methods`."""
    call = model.call
    parts = [f"#include <{header}>\n{_HEAD}"]
    if call is not None and call.arguments:
        parts.append(_MADE)
    parts.append(
        f"""
int main(int argc, char **argv) {{
  lta_module *module = NULL;
  check(lta_module_load(argc > 1 ? argv[1] : "{model.name}.ptl", &module));
"""
    )
    parts.append(_METHODS if call is None else "\n".join(_calling(model, call)) + "\n")
    parts.append("  lta_module_free(module);\n  return 0;\n}\n")
    return Fit("".join(parts))


def _calling(model: ModelFact, call: Call) -> Iterator[str]:
    names = Names(parameters(model, call), _TAKEN)
    made = []
    for index, argument in enumerate(call.arguments):
        name = names.of(index)
        made.append(name)
        yield from _value(argument, name, names)
    given = "NULL"
    if made:
        given = "arguments"
        yield f"  const lta_value *arguments[] = {{{', '.join(made)}}};"
    yield "  lta_value *result = NULL;"
    yield f'  check(lta_module_run(module, "{call.method}", {given}, {len(made)}, &result));'
    yield ""
    if returns_a_tensor(model, call):
        yield _TENSOR
    else:
        yield '  printf("a result of kind %d\\n", (int)lta_value_kind(result));\n'
    yield "  lta_value_free(result);"
    for name in reversed(names.values):
        yield f"  lta_value_free({name});"


class Names:
    """Names of variables, each used once: those of the parameters, where a language can have them;
    `taken` are those that it cannot."""

    def __init__(self, parameters: Sequence[str], taken: re.Pattern[str]) -> None:
        self._parameters = parameters
        self._taken = taken
        self._numbers = count(1)
        self._used: set[str] = set()
        # of the values that the program owns, in the order in which they are made
        self.values: list[str] = []

    def of(self, index: int) -> str:
        name = self._parameters[index] if index < len(self._parameters) else ""
        return self.fresh(name or f"argument_{index + 1}")

    def fresh(self, wanted: str) -> str:
        """A name that nothing has, nor what goes with it (`<name>_shape`, `<name>_data`)."""
        if self._taken.fullmatch(f"{wanted}0"):
            # and so with each number: all names that begin so are taken
            wanted = f"argument_{wanted.strip('_')}"
        name = wanted
        while self._taken.fullmatch(name) or any(
            one in self._used for one in (name, f"{name}_shape", f"{name}_data")
        ):
            name = f"{wanted}{next(self._numbers)}"
        self._used |= {name, f"{name}_shape", f"{name}_data"}
        return name


def parameters(model: ModelFact, call: Call) -> list[str]:
    """The names of what the called method takes, where the model's file says them."""
    for method in model.methods:
        if method.name == call.method and method.parameters is not None:
            return [one.name for one in method.parameters]
    return []


def returns_a_tensor(model: ModelFact, call: Call) -> bool:
    """True if the called method is known to return one tensor."""
    return any(m.name == call.method and m.returns == ("Tensor",) for m in model.methods)


def _value(value: Input, name: str, names: Names) -> Iterator[str]:
    """The lines that make a value."""
    if value.kind == "tensor":
        yield from _tensor(value, name)
        made = _tensor_call(value, name)
    elif value.items:
        inner = []
        for item in value.items:
            inner.append(names.fresh(f"{name}_item"))
            yield from _value(item, inner[-1], names)
        yield f"  const lta_value *{name}_data[] = {{{', '.join(inner)}}};"
        size = f"{name}_data, {len(inner)}"
        # Of an empty list alone the kind counts.
        made = f"lta_{value.kind}({'' if value.kind == 'tuple' else 'LTA_KIND_NONE, '}{size})"
    else:
        made = _scalar(value)
    names.values.append(name)
    yield f"  lta_value *{name} ="
    yield f"      made({made});"


def _scalar(value: Input) -> str:
    match value.kind:
        case "none":
            return "lta_none()"
        case "bool":
            return f"lta_bool({int(bool(value.value))})"
        case "int":
            return f"lta_int(INT64_C({value.value}))"
        case "double":
            return f"lta_double({float(value.value or 0)!r})"
    text = str(value.value)
    return f'lta_string("{text}", {len(text)})'


def _tensor(value: Input, name: str) -> Iterator[str]:
    element = ELEMENTS[value.dtype or ""]
    # An array of nothing is no C.
    size = " * ".join(map(str, value.shape or ())) if value.elements else "1"
    yield ""
    yield f"  static {element} {name}_data[{size or '1'}]; /* yours */"
    if value.shape:
        yield f"  const int64_t {name}_shape[] = {{{', '.join(map(str, value.shape))}}};"


def _tensor_call(value: Input, name: str) -> str:
    dtype = f"LTA_{(value.dtype or '').upper()}"
    shape = f"{name}_shape" if value.shape else "NULL"
    nbytes = f"sizeof {name}_data" if value.elements else "0"
    return (
        f"lta_tensor_copy({dtype}, {len(value.shape or ())}, {shape}, NULL, {name}_data, {nbytes})"
    )


def python_call(model: ModelFact) -> Fit:
    """Lines of Python that call `model`, by a wheel's API, as it was traced; without a known call,
    its methods are listed. numpy is `np`."""
    call = model.call
    if call is None:
        return Fit("print(list(model.methods))")
    given = ", ".join(map(_literal, call.arguments))
    return Fit(f"result = model.{call.method}({given})")


def _literal(value: Input) -> str:
    if value.kind == "tensor":
        # numpy has no bfloat16, and a bool is `np.bool_` in each of its versions
        dtype = {"bool": "bool_", "bfloat16": "float32"}.get(value.dtype or "", value.dtype)
        return f"np.zeros({value.shape or ()!r}, np.{dtype})"
    if value.kind in ("list", "tuple"):
        items = ", ".join(map(_literal, value.items))
        if value.kind == "list":
            return f"[{items}]"
        return f"({items},)" if len(value.items) == 1 else f"({items})"
    return repr(float(value.value or 0) if value.kind == "double" else value.value)
