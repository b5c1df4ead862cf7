"""YAML to plain data, with the place of every key and value.

What is read is a strict part of YAML 1.1: one document; mappings with text keys, none of them
twice; lists; scalars as PyYAML's safe loader reads them. Anchors and aliases are fine. Tags, merge
keys (`<<`) and a value that contains itself are refused.

libyaml's parser is used where PyYAML has it, for speed. The words of a syntax error always come
from the Python parser, so that they are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from orchestrator.errors import OrchestratorError, Place

_FAST: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE: Final = "tag:yaml.org,2002:merge"
_STRING: Final = "tag:yaml.org,2002:str"

Path = Sequence[str | int]


class YamlSyntaxError(OrchestratorError):
    """The text is not YAML."""


class YamlDuplicateKeyError(OrchestratorError):
    """A mapping has a key twice."""


class YamlKeyError(OrchestratorError):
    """A key is not plain text."""


class YamlUnsupportedError(OrchestratorError):
    """YAML that we do not read: a tag, a merge key, a value that contains itself."""


@dataclass(frozen=True)
class Found:
    """Where a path leads: the node's place, and how much of the path led there."""

    place: Place
    path: tuple[str | int, ...]


@dataclass(frozen=True)
class PlaceIndex:
    """Places of keys and values in one file, looked up by path: ("models", 0, "file").

    A path may hold parts that are not in the file (a union's branch in pydantic's locations, a
    missing key): they are passed over, so the answer is the nearest value around them.
    """

    file: str
    root: Node | None

    def find(self, path: Path) -> Found:
        """The value at a path, or the nearest value around it."""
        node, walked = self.root, list[str | int]()
        for part in path:
            entry = _entry(node, part)
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
            entry = _entry(node, part)
            assert entry
            node = entry[1]
        last = _entry(node, path[-1])
        return self._place(last[0]) if last else found.place

    def _place(self, node: Node | None) -> Place:
        return _place(self.file, node.start_mark) if node else Place(self.file, 1, 1)


def load_located(text: str, file: str) -> tuple[Any, PlaceIndex]:
    """The plain data in a YAML text, and its places; `file` is the name that places show.

    Lists come as lists and mappings as dicts, in the file's order; an empty text is None. Raises
    `YamlSyntaxError`, `YamlDuplicateKeyError`, `YamlKeyError`, `YamlUnsupportedError`.
    """
    loader = None
    try:
        if "!" in text:
            _refuse_tags(text, file)
        loader = _loader_for(text)(text)
        root = loader.get_single_node()
        return _Reader(file, loader).data(root) if root else None, PlaceIndex(file, root)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _syntax_error(text, file, error) from error
    finally:
        if loader:
            loader.dispose()


def _loader_for(text: str) -> Any:
    """The fast parser, unless the text could nest deeply: that one then overflows the C stack."""
    openings = sum(text.count(opening) for opening in ("[", "{", "- ", "? "))
    return _FAST if len(text) < 2**16 and openings < 1000 else yaml.SafeLoader


def _entry(node: Node | None, part: str | int) -> tuple[Node, Node] | None:
    """(key, value) nodes of one part; a list's entry is its own key."""
    if isinstance(node, MappingNode) and isinstance(part, str):
        return next((entry for entry in node.value if entry[0].value == part), None)
    if isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None


def _place(file: str, mark: Any) -> Place:
    return Place(file, mark.line + 1, mark.column + 1)


def _refuse_tags(text: str, file: str) -> None:
    # Nodes do not tell a written tag from a resolved one; only tokens do.
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        if isinstance(token, yaml.TagToken):
            raise YamlUnsupportedError(
                "a YAML tag is not read here",
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

    def data(self, node: Node) -> Any:
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise YamlUnsupportedError(
                "a value contains itself",
                place=_place(self._file, node.start_mark),
                hint="write the inner value out instead of the alias",
            )
        self._open.add(id(node))
        value = self._mapping(node) if isinstance(node, MappingNode) else self._list(node)
        self._open.remove(id(node))
        return value

    def _scalar(self, node: ScalarNode) -> Any:
        try:
            return self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            raise YamlSyntaxError(
                "a value cannot be read",
                place=_place(self._file, node.start_mark),
                seen=node.value,
                hint="put it in quotes if it is text",
            ) from error

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
                    f"key `{key}` is here twice",
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
                "a merge key is not read here", place=place, seen="<<", hint="write the keys out"
            )
        if not isinstance(node, ScalarNode) or node.tag != _STRING:
            raise YamlKeyError(
                "a key is not text",
                place=place,
                expected="a name",
                seen=node.value if isinstance(node, ScalarNode) else "a list or a mapping",
                hint="put it in quotes if it is a name",
            )
        return str(node.value)


def _syntax_error(text: str, file: str, error: Exception) -> OrchestratorError:
    if isinstance(error, yaml.YAMLError):
        error = _slow_error(text) or error
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        words = [part for part in (error.problem, error.context) if part]
        snippet = mark.get_snippet(indent=0) if mark and mark.buffer is not None else None
        return YamlSyntaxError(
            "not YAML: " + ", ".join(words).replace("character '\\t'", "a tab"),
            place=_place(file, mark) if mark else Place(file),
            details=snippet if snippet and snippet.splitlines()[0].strip() else None,
        )
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position]
        return YamlSyntaxError(
            "not YAML: a control character",
            place=Place(file, before.count("\n") + 1, len(before) - before.rfind("\n")),
            seen=f"U+{ord(text[error.position]):04X}",
        )
    return YamlSyntaxError("not YAML that we can read", place=Place(file), seen=str(error))


def _slow_error(text: str) -> yaml.YAMLError | None:
    try:
        yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        return error
    except RecursionError:
        pass
    return None
