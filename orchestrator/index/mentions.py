"""The names in a unit's preprocessed text that selection works on: kernel tags, operators, classes,
features.

The text is preprocessed because some tags are in headers and macros build some of the names.  The
forms are those that the macros of PyTorch 1.13 expand to: `AT_DISPATCH_SWITCH` (ATen/Dispatch.h),
`TORCH_SELECTIVE_{NAME,SCHEMA,CLASS}` (torch/library.h) and `BUILD_FEATURE_AVAILABLE`
(ATen/core/op_registration/op_allowlist.h).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.values.operators import OperatorName


def _word(name: str) -> str:
    """A pattern for `name` where a word begins. It begins with the name itself: `re` skips to the
    next occurrence of a literal, and tries a pattern that begins with `\\b` at every letter."""
    return rf"{name}(?<=\b{name})"


_TAG = re.compile(_word("at_dispatch_name") + r"\s*=\s*([^;]+);")
# macros join literals: `"aten::gt" ".int(int a, int b) -> bool"`
_JOINED = r'(?:"(?:[^"\\]|\\.)*"\s*)+'
_LITERALS = re.compile(_JOINED)
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
_OPERATORS = tuple(
    re.compile(_word(f"{what}_allowlist_check") + rf"\(\s*({_JOINED})") for what in ("op", "schema")
)
_CLASS = re.compile(_word("custom_class_allowlist_check") + r'\(\s*"([^"]+)"')
# torch/library.h, TORCH_SELECTIVE_CLASS of something else than a literal
_OPEN_CLASS = re.compile(
    _word("SelectiveStr") + r"<\s*c10::impl::custom_class_allowlist_check\(\s*[^\"\s]"
)
_FEATURE = re.compile(_word("is_build_feature_available") + r'\(\s*"([^"]+)"')
# torch/csrc/jit/mobile/promoted_prim_ops.cpp: a table that cannot be selected from
_PROMOTED = re.compile(_word("prim_op_fn_register") + r'\(\s*"([^"]+)"\s*,\s*(\w+)')


@dataclass(frozen=True)
class Mentions:
    """Sorted names; `open_tags` where a tag's name is not a literal, `open_classes` where a class's
    is not; `promoted` are operators of the interpreter that the unit always registers, each with
    its function's name."""

    tags: tuple[str, ...]
    open_tags: bool
    operators: tuple[OperatorName, ...]
    classes: tuple[str, ...]
    open_classes: bool
    features: tuple[str, ...]
    promoted: tuple[tuple[str, str], ...]


def mentions_of(preprocessed: str) -> Mentions:
    """The names in one unit's preprocessed text (`-E -P`)."""
    tags: set[str] = set()
    open_tags = False
    for match in _TAG.finditer(preprocessed):
        expression = match[1].strip()
        if _LITERALS.fullmatch(expression):
            tags.add(_joined(expression))
        else:
            open_tags = True
    named = (text for pattern in _OPERATORS for text in pattern.findall(preprocessed))
    operators = {OperatorName(_joined(text).partition("(")[0]) for text in named}
    return Mentions(
        tags=tuple(sorted(tags)),
        open_tags=open_tags,
        operators=tuple(sorted(operators)),
        classes=tuple(sorted(set(_CLASS.findall(preprocessed)))),
        open_classes=_OPEN_CLASS.search(preprocessed) is not None,
        features=tuple(sorted(set(_FEATURE.findall(preprocessed)))),
        promoted=tuple(sorted(set(_PROMOTED.findall(preprocessed)))),
    )


def _joined(literals: str) -> str:
    return "".join(_LITERAL.findall(literals))
