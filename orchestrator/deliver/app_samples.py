"""First calls for READMEs of Android and iOS packages, by our Java and Swift APIs.

Contract: pure. Each loads a model and calls it as it was traced, tensors full of zeros; a model
without a known call gets one that lists its methods. The Java class compiles for Java 8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from orchestrator.deliver.manifest import ModelFact
from orchestrator.deliver.sample import Names, parameters, returns_a_tensor
from orchestrator.system.templates import Fit
from orchestrator.values.methods import Call, Input

# dtype -> the type of a Java array that `Tensor.of` takes alone
_JAVA_ARRAYS: Final = {
    "bool": "boolean",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
}
# dtype -> the type in Swift, and a zero of it
_SWIFT_ELEMENTS: Final = {
    "bool": ("Bool", "false"),
    "uint8": ("UInt8", "0"),
    "int8": ("Int8", "0"),
    "int16": ("Int16", "0"),
    "int32": ("Int32", "0"),
    "int64": ("Int64", "0"),
    "float32": ("Float", "0"),
    "float64": ("Double", "0"),
}
# Of the class itself; keywords and literals (JLS 3.9).
_JAVA_TAKEN: Final = re.compile(
    r"module|method|result|path|System|String|DType|Kind|Module|Tensor|Value|FirstCall|_"
    r"|abstract|assert|boolean|break|byte|case|catch|char|class|const|continue|default|do"
    r"|double|else|enum|extends|false|final|finally|float|for|goto|if|implements|import"
    r"|instanceof|int|interface|long|native|new|null|package|private|protected|public"
    r"|return|short|static|strictfp|super|switch|synchronized|this|throw|throws|transient"
    r"|true|try|var|void|volatile|while|yield|record|sealed|permits"
)
# Of the function itself and of the API; keywords (The Swift Programming Language, Lexical
# Structure).
_SWIFT_TAKEN: Final = re.compile(
    r"model|result|path|print|firstCall|Model|Value|String|Bool|U?Int\d*|Float|Double|lta_\w*|LTA_\w*"
    r"|_|Any|as|associatedtype|async|await|break|case|catch|class|continue|default|defer|deinit|do"
    r"|else|enum|extension|fallthrough|false|fileprivate|for|func|guard|if|import|in|init|inout"
    r"|internal|is|let|nil|operator|open|precedencegroup|private|protocol|public|repeat|rethrows"
    r"|return|self|Self|static|struct|subscript|super|switch|throw|throws|true|try|typealias|var"
    r"|where|while"
)


def java_class(model: ModelFact, package: str) -> Fit:
    """A class `FirstCall` that calls a model by the Java API in `package`. It is fit for a block of
    code: names, types and values are those of `values.methods`."""
    body = [*_java_body(model)]
    used = {
        name
        for name in ("DType", "Kind", "Tensor", "Value")
        if any(f"{name}." in one for one in body)
    }
    used |= {"Module", *(["Value"] if model.call else [])}
    lines = [
        *(f"import {package}.{name};" for name in sorted(used)),
        "",
        "final class FirstCall {",
        "  static void run(String path) {",
        *body,
        "  }",
        "}",
    ]
    return Fit("".join(f"{line}\n" for line in lines))


def _java_body(model: ModelFact) -> Iterator[str]:
    call = model.call
    if call is None:
        yield "    try (Module module = Module.load(path)) {"
        yield "      for (String method : module.methods()) {"
        yield "        System.out.println(module.schema(method));"
        yield "      }"
        yield "    }"
        return
    names = Names(parameters(model, call), _JAVA_TAKEN)
    made: list[str] = []
    given = []
    for index, argument in enumerate(call.arguments):
        given.append(names.of(index))
        made += _java_values(argument, given[-1], names)
    asked = ", ".join((f'"{call.method}"', *given))
    resources = ["Module module = Module.load(path)", *made, f"Value result = module.run({asked})"]
    yield "    try (" + ";\n        ".join(resources) + ") {"
    yield "      System.out.println(result);"
    yield "    }"


def _java_values(value: Input, name: str, names: Names) -> Iterator[str]:
    """The resources of a `try` that make a value: its items first."""
    inner = []
    for item in value.items:
        inner.append(names.fresh(f"{name}_item"))
        yield from _java_values(item, inner[-1], names)
    items = ", ".join(inner)
    match value.kind:
        case "tensor":
            made = _java_tensor(value)
        case "list":
            # the kind of an empty list's items counts, and no other
            made = f"Value.list(Kind.NONE, {items})"
        case "tuple":
            made = f"Value.tuple({items})"
        case "none":
            made = "Value.none()"
        case "int":
            made = f"Value.of({value.value}L)"
        case _:
            made = f"Value.of({_literal(value)})"
    yield f"Value {name} = {made}"


def _java_tensor(value: Input) -> str:
    dtype, sizes = value.dtype or "", list(map(str, value.shape or ()))
    shape = "".join(f", {size}" for size in sizes)
    count = " * ".join(sizes) or "1"
    if dtype in _JAVA_ARRAYS:
        return f"Tensor.of(new {_JAVA_ARRAYS[dtype]}[{count}]{shape})"
    kind = f"DType.{dtype.upper()}"
    if dtype in ("int8", "uint8"):
        return f"Tensor.of({kind}, new byte[{count}]{shape})"
    return f"Tensor.over({kind}, Tensor.allocate({kind}{shape}){shape})"


def swift_function(model: ModelFact) -> Fit:
    """A function `firstCall` that calls a model by the Swift API; fit as a `java_class` is.

    Where `is_called_in_swift` is not so, the methods are listed."""
    call = model.call
    if call is None or not is_called_in_swift(model):
        body = [
            "  for method in model.methods {",
            "    try print(model.schema(of: method))",
            "  }",
        ]
    else:
        body = [*_swift_body(model, call)]
    lines = [
        "func firstCall(path: String) throws {",
        "  let model = try Model(path: path)",
        *body,
        "}",
    ]
    return Fit("".join(f"{line}\n" for line in lines))


def is_called_in_swift(model: ModelFact) -> bool:
    """True if the model's call is known and takes no half-precision tensors, which Swift's API
    cannot make."""
    return model.call is not None and all(map(_swift_can, model.call.arguments))


def _swift_can(value: Input) -> bool:
    is_known = value.kind != "tensor" or value.dtype in _SWIFT_ELEMENTS
    return is_known and all(map(_swift_can, value.items))


def _swift_body(model: ModelFact, call: Call) -> Iterator[str]:
    names = Names(parameters(model, call), _SWIFT_TAKEN)
    given = []
    for index, argument in enumerate(call.arguments):
        given.append(names.of(index))
        yield f"  let {given[-1]} = try {_swift_value(argument)}"
    yield f'  let result = try model.run("{call.method}", [{", ".join(given)}])'
    if returns_a_tensor(model, call):
        yield "  try print(result.shape(), String(cString: lta_dtype_name(result.dtype())))"
    else:
        yield '  print("a result of kind \\(result.kind.rawValue)")'


def _swift_value(value: Input) -> str:
    items = ", ".join(map(_swift_value, value.items))
    match value.kind:
        case "tensor":
            element, zero = _SWIFT_ELEMENTS[value.dtype or ""]
            sizes = list(map(str, value.shape or ()))
            elements = f"[{element}](repeating: {zero}, count: {' * '.join(sizes) or '1'})"
            return f"Value.tensor({elements}, shape: [{', '.join(sizes)}])"
        case "list" | "tuple":
            return f"Value.{value.kind}([{items}])"
        case "none":
            return "Value.none()"
    return f"Value.{value.kind}({_literal(value)})"


def _literal(value: Input) -> str:
    """As Java and Swift both write it."""
    match value.kind:
        case "bool":
            return "true" if value.value else "false"
        case "double":
            return repr(float(value.value or 0))
        case "string":
            return f'"{value.value}"'
    return str(value.value)
