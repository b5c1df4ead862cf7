"""The texts of types, as TorchScript writes them: `Dict[str, List[Tensor]]`.

The runtime parses them when it loads a model (`torch/csrc/jit/mobile/type_parser.cpp`,
`TypeParser::parse`), one level of its stack for each pair of brackets. Nothing is parsed here:
the runtime judges the text, and only what would harm the runtime is checked.
"""

from __future__ import annotations

from typing import Final

# A NamedTuple writes out all of its fields.
MAX_TYPE: Final = 64 * 2**10
MAX_BRACKETS: Final = 64


def type_fault(text: str) -> str | None:
    """The fault of a type's text; None where there is none."""
    if len(text) > MAX_TYPE:
        return f"a type of {len(text)} characters"
    # Few types have that many brackets at all.
    if text.count("[") > MAX_BRACKETS and _deepest(text) > MAX_BRACKETS:
        return f"a type nested more than {MAX_BRACKETS} deep"
    return None


def _deepest(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character == "[":
            depth += 1
            deepest = max(deepest, depth)
        elif character == "]":
            depth -= 1
    return deepest
