"""The texts of types, as TorchScript writes them: `Dict[str, List[Tensor]]`.

The runtime parses them when it loads a model (`torch/csrc/jit/mobile/type_parser.cpp`,
`TypeParser::parse`), one level of its stack for each pair of brackets. Nothing is parsed here: what
the text says is the runtime's to judge, and only what would harm it is looked for.
"""

from __future__ import annotations

from typing import Final

# A NamedTuple writes out all of its fields.
MAX_TYPE: Final = 64 * 2**10
MAX_BRACKETS: Final = 64


def type_fault(text: str) -> str | None:
    """What is wrong with a type's text, in words; None where nothing is."""
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
