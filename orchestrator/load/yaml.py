"""YAML to plain data, with the place of every key and value.

The accepted text is a strict subset of YAML 1.1: one document; mappings with text keys, none of
them twice; lists; scalars as PyYAML's safe loader reads them. Anchors and aliases are fine. Tags,
merge keys (`<<`) and a value that contains itself are refused, and so is what no declaration needs:
more than `MOST_VALUES` values (each use of an alias counts as everything that it expands to),
deeper nesting than `DEEPEST`, longer texts than `LONGEST`. Reading takes a bounded time.

For speed, libyaml's parser is used if PyYAML has it. The text of a syntax error comes from the
Python parser, so that it is the same on every machine, except in long texts, for which that parser
takes minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from orchestrator.errors import OrchestratorError, Place

_FAST: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE: Final = "tag:yaml.org,2002:merge"
_STRING: Final = "tag:yaml.org,2002:str"

LONGEST: Final = 2**22
MOST_VALUES: Final = 100_000
DEEPEST: Final = 100
# More than a float can be; Python itself refuses to show numbers of 4,300 digits.
_MOST_BITS: Final = 1000
# In a shorter text there are neither too many values nor too deep a nesting of blocks, and the
# Python parser takes no second.
_SHORT: Final = 2**12
_SHORT_FOR_PYTHON: Final = 2**16
_SHOWN: Final = 200
_CONFLICT: Final = "<<<<<<< "

Path = Sequence[str | int]


class YamlSyntaxError(OrchestratorError):
    """The text is not YAML."""


class YamlDuplicateKeyError(OrchestratorError):
    """A mapping has a key twice."""


class YamlKeyError(OrchestratorError):
    """A key is not plain text."""


class YamlUnsupportedError(OrchestratorError):
    """Unsupported YAML: a tag, a merge key, a value that contains itself."""


class YamlTooLargeError(OrchestratorError):
    """A text that is longer, deeper, or has more values or larger numbers than allowed."""


class YamlConflictError(OrchestratorError):
    """The text has unresolved conflict markers."""


@dataclass(frozen=True)
class Found:
    """Result of a look-up by path: the node's place, and the part of the path that led there."""

    place: Place
    path: tuple[str | int, ...]


@dataclass(frozen=True)
class PlaceIndex:
    """Places of keys and values in one file, looked up by path: ("models", 0, "file").

    A path may hold parts that are not in the file (a union's branch in pydantic's locations, a
    missing key): they are skipped, so the answer is the nearest value around them.
    """

    file: str
    root: Node | None
    _keys: dict[int, dict[str, tuple[Node, Node]]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def find(self, path: Path) -> Found:
        """The value at a path, or the nearest value around it."""
        node, walked = self.root, list[str | int]()
        for part in path:
            entry = self._entry(node, part)
            if entry:
                node = entry[1]
                walked.append(part)
        return Found(self._place(node), tuple(walked))

    def value(self, path: Path) -> Place:
        """The place of the value at a path, or of the nearest value around it."""
        return self.find(path).place

    def key(self, path: Path) -> Place:
        """The place of the key that a path ends in; of the value where it has no key."""
        found, node = self.find(path[:-1]), self.root
        for part in found.path:
            entry = self._entry(node, part)
            assert entry
            node = entry[1]
        last = self._entry(node, path[-1])
        return self._place(last[0]) if last else found.place

    def _entry(self, node: Node | None, part: str | int) -> tuple[Node, Node] | None:
        """(key, value) nodes of one part; a list's entry is its own key."""
        if isinstance(node, MappingNode) and isinstance(part, str):
            return self._keys_of(node).get(part)
        if isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
            return node.value[part], node.value[part]
        return None

    def _keys_of(self, node: MappingNode) -> dict[str, tuple[Node, Node]]:
        """A mapping's entries by key: thousands of them may be faulty, and each is looked up."""
        if id(node) not in self._keys:
            entries = reversed(node.value)
            known = {e[0].value: e for e in entries if isinstance(e[0], ScalarNode)}
            self._keys[id(node)] = known
        return self._keys[id(node)]

    def _place(self, node: Node | None) -> Place:
        return _place(self.file, node.start_mark) if node else Place(self.file, 1, 1)


def load_located(text: str, file: str) -> tuple[Any, PlaceIndex]:
    """The plain data in a YAML text, and its places; `file` is the name that places show.

    Lists come as lists and mappings as dicts, in the file's order; an empty text is None. Raises
    `YamlSyntaxError`, `YamlDuplicateKeyError`, `YamlKeyError`, `YamlUnsupportedError`,
    `YamlTooLargeError`, `YamlConflictError`.
    """
    if len(text) > LONGEST:
        raise _too_large("text", Place(file), f"{LONGEST:,} characters", f"{len(text):,}")
    conflict = conflict_line(text)
    if conflict:
        raise YamlConflictError(
            "unresolved merge conflict",
            place=Place(file, conflict, 1),
            hint="keep one side and remove the conflict markers",
        )
    loader = None
    try:
        _measure(text, file)
        if "!" in text:
            _refuse_tags(text, file)
        loader = _FAST(text)
        root = loader.get_single_node()
        return _Reader(file, loader).data(root) if root else None, PlaceIndex(file, root)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise syntax_error(text, file, error) from error
    finally:
        if loader:
            loader.dispose()


def conflict_line(text: str) -> int:
    """The line on which a merge conflict begins, as git marks it (git-merge(1), "How conflicts are
    presented"); 0 where there is none."""
    at = 0 if text.startswith(_CONFLICT) else text.find(f"\n{_CONFLICT}") + 1
    return text.count("\n", 0, at) + 1 if at or text.startswith(_CONFLICT) else 0


def _measure(text: str, file: str) -> None:
    """Refuse too many values and too deep nesting, before anything is made of them.

    The parser's events take no stack; libyaml's nodes are made by recursion in C, which overflows.
    """
    if len(text) < _SHORT and sum(map(text.count, "[{-?")) < DEEPEST:
        return
    count = depth = 0
    for event in yaml.parse(text, Loader=_FAST):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        count += isinstance(event, yaml.NodeEvent)
        if count > MOST_VALUES or depth > DEEPEST:
            place = _place(file, event.start_mark)
            raise _too_deep(place) if depth > DEEPEST else _too_many(place)


def _too_deep(place: Place) -> YamlTooLargeError:
    return _too_large("nesting", place, f"{DEEPEST} nested lists or mappings")


def _too_many(place: Place) -> YamlTooLargeError:
    return _too_large("file", place, f"{MOST_VALUES:,} values, those of aliases included")


def _too_large(what: str, place: Place, most: str, seen: str | None = None) -> YamlTooLargeError:
    return YamlTooLargeError(
        f"this {what} exceeds the limit", place=place, expected=f"at most {most}", seen=seen
    )


def _place(file: str, mark: Any) -> Place:
    return Place(file, mark.line + 1, mark.column + 1)


def _refuse_tags(text: str, file: str) -> None:
    # Nodes do not tell a written tag from a resolved one; only tokens do.
    for token in yaml.scan(text, Loader=_FAST):
        if isinstance(token, yaml.TagToken):
            raise YamlUnsupportedError(
                "YAML tags are not supported",
                place=_place(file, token.start_mark),
                seen="".join(part for part in token.value if part),
                hint="remove the tag; quote the value if it is text",
            )


class _Reader:
    """Nodes of one document to plain data."""

    def __init__(self, file: str, loader: Any) -> None:
        self._file = file
        self._loader = loader
        self._open: set[int] = set()
        self._count = 0

    def data(self, node: Node) -> Any:
        self._count += 1
        if self._count > MOST_VALUES:
            raise _too_many(_place(self._file, node.start_mark))
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise YamlUnsupportedError(
                "a value contains itself",
                place=_place(self._file, node.start_mark),
                hint="write the inner value out instead of the alias",
            )
        if len(self._open) == DEEPEST:
            raise _too_deep(_place(self._file, node.start_mark))
        self._open.add(id(node))
        value = self._mapping(node) if isinstance(node, MappingNode) else self._list(node)
        self._open.remove(id(node))
        return value

    def _scalar(self, node: ScalarNode) -> Any:
        place = _place(self._file, node.start_mark)
        try:
            value = self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError, ArithmeticError, LookupError) as error:
            raise YamlSyntaxError(
                "a value cannot be read",
                place=place,
                seen=clipped(node.value),
                hint="put it in quotes if it is text",
            ) from error
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise _too_large("number", place, f"{_MOST_BITS} bits", clipped(node.value))
        return value

    def _list(self, node: Node) -> list[Any]:
        return [self.data(entry) for entry in node.value]

    def _mapping(self, node: MappingNode) -> dict[str, Any]:
        first: dict[str, Place] = {}
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = _place(self._file, key_node.start_mark)
            key = self._key(key_node, place)
            if key in first:
                raise YamlDuplicateKeyError(
                    f"duplicate key `{clipped(key)}`",
                    place=place,
                    seen=f"first at line {first[key].line}, column {first[key].column}",
                    hint="keep one of them",
                )
            first[key] = place
            data[key] = self.data(value_node)
        return data

    def _key(self, node: Node, place: Place) -> str:
        if node.tag == _MERGE:
            raise YamlUnsupportedError(
                "YAML merge keys are not supported",
                place=place,
                seen="<<",
                hint="write the keys out",
            )
        if not isinstance(node, ScalarNode) or node.tag != _STRING:
            raise YamlKeyError(
                "a key is not text",
                place=place,
                expected="a name",
                seen=clipped(node.value) if isinstance(node, ScalarNode) else "a list or a mapping",
                hint="put it in quotes if it is a name",
            )
        return str(node.value)


def clipped(text: str) -> str:
    """A text of the file, for a message."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def syntax_error(text: str, file: str, error: Exception) -> OrchestratorError:
    """A parser's error about a text, as an error of ours."""
    if isinstance(error, yaml.YAMLError) and len(text) < _SHORT_FOR_PYTHON:
        error = _slow_error(text) or error
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        words = [part for part in (error.problem, error.context) if part]
        if words and words[0].startswith("but "):  # the context is the sentence's beginning
            words.reverse()
        snippet = mark.get_snippet(indent=0) if mark and mark.buffer is not None else None
        return YamlSyntaxError(
            "invalid YAML: " + ", ".join(words).replace("character '\\t'", "a tab"),
            place=_place(file, mark) if mark else Place(file),
            hint="indent with blanks" if "'\\t'" in (error.problem or "") else None,
            details=snippet if snippet and snippet.splitlines()[0].strip() else None,
        )
    control = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if control:
        before = text[: control.start()]
        return YamlSyntaxError(
            "invalid YAML: a control character",
            place=Place(file, before.count("\n") + 1, len(before) - before.rfind("\n")),
            seen=f"U+{ord(control[0]):04X}",
        )
    return YamlSyntaxError("unreadable YAML", place=Place(file), seen=str(error))


def _slow_error(text: str) -> yaml.YAMLError | None:
    try:
        yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        return error
    except (RecursionError, ValueError, ArithmeticError):
        # such as an escape of a character that Unicode has not
        pass
    return None
