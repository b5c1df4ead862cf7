"""The TorchBind classes that a source registers, read from its preprocessed text.

The macros and templates are those of `torch/library.h` and `torch/custom_class.h`. A registration
is one statement, `torch::class_<T>("namespace", "Name").def(...)`, or its like in a TORCH_LIBRARY
block; a class that is registered in another way counts as unknown, never as absent.

Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from orchestrator.pytorch.dialect import Symbols
from orchestrator.values.own_sources import OwnClass

# torch/library.h: TORCH_LIBRARY and its sisters, preprocessed
_BLOCK: Final = re.compile(r"\b(TORCH_LIBRARY_\w+)\s*\(\s*torch::Library\s*&\s*\w+\s*\)\s*\{")
# torch/custom_class.h: `m.class_<T>("Name")`, and `torch::class_<T>("namespace", "Name")`
_CLASS: Final = re.compile(
    r"\bclass_\s*<[^;{}\"]*?>\s*(?P<variable>\w+\s*)?"
    # TORCH_SELECTIVE_CLASS("Name")
    r"\(\s*(?:[\w:]*SelectiveStr\s*<[^;{}]*?>\s*\(\s*)?"
    r"\"(?P<one>\w+)\"\s*(?:,\s*\"(?P<two>\w+)\"\s*)?[,)]"
)
# What may be before `class_` in its statement: a library or a namespace, or a variable.
_PLAIN: Final = re.compile(r"(?:\w+\.|(?:::)?torch::)?")
_VARIABLE: Final = re.compile(r"(?P<variable>\w+)\s*=\s*(?:\w+\.|(?:::)?torch::)?")
# Of C++: texts, numbers with their separators, and what begins or ends a part of a statement.
_TOKEN: Final = re.compile(
    r'R"(?P<mark>[^()\\\s"]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|\b\d[\w.']*"
    r"|'(?:\\.|[^'\\\n])*'"
    r"|[(){}\[\];]",
    re.DOTALL,
)
_METHOD: Final = re.compile(
    r"\.\s*(?:template\s+)?(?P<verb>_?def\w*)\s*(?:<[^()]*>)?\s*\("
    r"\s*(?:\"(?P<name>\w+)\"\s*(?=[,)])|(?P<init>(?:::)?(?:torch::)?init\s*[<(]))?"
)
_ACCESSORS: Final = {
    "def_property": ("_getter", "_setter"),
    "def_readwrite": ("_getter", "_setter"),
    "def_readonly": ("_getter",),
}
_NAMED: Final = frozenset({"def", "def_static", "_def_unboxed"})
_PICKLED: Final = ("__getstate__", "__setstate__")


def own_classes_of(preprocessed: str, known: Symbols) -> tuple[OwnClass, ...]:
    """Each class that a preprocessed unit registers, in its order."""
    blocks = [(found.start(), found[1]) for found in _BLOCK.finditer(preprocessed)]
    named: list[OwnClass] = []
    for found in _CLASS.finditer(preprocessed):
        block = next((name for at, name in reversed(blocks) if at < found.start()), "")
        match = known.library_name.match(block)
        inside = (match["fragment"] or match["library"]) if match else None
        one, two = found["one"], found["two"]
        namespace, name = (one, two) if two else (inside, one)
        if namespace is not None:
            methods, is_open = _methods(preprocessed, found)
            named.append(OwnClass(f"{namespace}.{name}", methods, is_open))
    return tuple(named)


def _methods(text: str, found: re.Match[str]) -> tuple[tuple[str, ...], bool]:
    """The methods that a registration names, and whether it may have others."""
    outer, end = _outermost(text, found.start())
    starts = [start for start, _ in outer]
    methods, is_open = set[str](), end is None or _is_chained(text, found, end)
    for call in _METHOD.finditer(text, found.end(), end or found.end()):
        if call.start() >= outer[bisect_right(starts, call.start()) - 1][1]:
            continue  # inside of an argument
        given = tuple(_defined(call))
        methods.update(given)
        is_open = is_open or not given
    return tuple(sorted(methods)), is_open


def _outermost(text: str, start: int) -> tuple[list[tuple[int, int]], int | None]:
    """The parts of a statement that are in no brackets, as (start, end), and its end: None where
    it has none."""
    depth, cuts = 0, [start]
    for token in _TOKEN.finditer(text, start):
        if token[0] in ("(", "{", "["):
            depth += 1
            if depth == 1:
                cuts.append(token.start())
        elif token[0] in (")", "}", "]"):
            depth -= 1
            if depth == 0:
                cuts.append(token.end())
        if depth < 0 or (depth == 0 and token[0] == ";"):
            return list(pairwise([*cuts, token.start()]))[::2], token.start()
    return [(start, start)], None


def _is_chained(text: str, found: re.Match[str], end: int) -> bool:
    """True if a registration may get methods after its statement: through its variable, or because
    its statement has an unknown form."""
    before = text[: found.start()]
    before = before[1 + max(before.rfind(mark) for mark in ";{}") :].strip()
    match = _VARIABLE.search(before)
    variable = (found["variable"] or "").strip()
    if match is not None and match.end() == len(before):
        variable = match["variable"]
    elif not variable and not _PLAIN.fullmatch(before):
        return True
    return bool(variable) and re.search(rf"\b{variable}\b", text[end:]) is not None


def _defined(call: re.Match[str]) -> Iterator[str]:
    """The methods that one call in a registration defines; none where they are not known."""
    verb, name = call["verb"], call["name"]
    if verb == "def_pickle":
        yield from _PICKLED
    elif verb == "def" and call["init"]:
        yield "__init__"
    elif name and verb in _NAMED:
        yield name
    elif name:
        yield from (name + end for end in _ACCESSORS.get(verb, ()))
