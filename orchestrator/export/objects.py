"""Takes objects of a module's own classes apart: the lite interpreter makes none.

An object whose attributes are set once, while it is made, becomes a tuple of them. One that changes
later becomes a list of one such tuple, which is replaced when an attribute is set: whoever else has
the list sees the change, as with the object. So objects may lie in containers and attributes, and
pass through branches and loops. Attributes that nobody reads are left out.

What is not taken apart is left: `unwritable.py` refuses it, with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from orchestrator.export.freezing import inlined
from orchestrator.export.graphs import MADE_OF_ONE, Graph, Node, Type, Value, nodes, parts, values
from orchestrator.export.places import place_in
from orchestrator.export.refusal import Refused

# What may be done with an object, or with what holds one.
_MOVES: Final = re.compile(
    r"prim::(If|Loop|Return|(Tuple|List|Dict)(Construct|Unpack|Index|Slice)|Uninitialized|Constant"
    r"|unchecked_cast|unchecked_unwrap_optional|[GS]etAttr|CreateObject|RaiseException)"
    r"|aten::(__getitem__|_set_item|append|insert|extend|pop|popitem|clear|reverse|slice|len|copy"
    r"|list|dict|add_?|mul|__contains__|keys|values|items|get|setdefault|update|Delete"
    r"|__is__|__isnot__|_unwrap_optional)"
)
# Those of torch's C++.
_CUSTOM: Final = "__torch__.torch.classes."


def without_objects(module: Any, methods: Sequence[str]) -> None:
    """Changes methods of a TorchScript module that nobody else uses. Raises Refused."""
    if not any(_creations(_inlined_copy(module, method)) for method in methods):
        return
    graphs = inlined(module, methods)
    for graph in graphs:
        _inline_contexts(graph)
    _Classes(module, graphs).take_apart()
    for graph in graphs:
        torch._C._jit_pass_dce(graph)
        torch._C._jit_pass_lint(graph)


def _inlined_copy(module: Any, method: str) -> Graph:
    graph = module._c._get_method(method).graph.copy()
    torch._C._jit_pass_inline(graph)
    return graph


def _creations(graph: Graph) -> list[Node]:
    return [
        node
        for node in nodes(graph)
        if node.kind() == "prim::CreateObject"
        and node.output().type().kind() == "ClassType"
        and not _key(node.output().type()).startswith(_CUSTOM)
    ]


def _key(its: Type) -> str:
    return str(its.annotation_str)


def _inline_contexts(graph: Graph) -> None:
    """`with` calls two methods; no model catches what is raised between them."""
    found = False
    for node in nodes(graph):
        if node.kind() not in ("prim::Enter", "prim::Exit"):
            continue
        its = [node.inputsAt(0)]
        with graph.insert_point_guard(node):
            if node.kind() == "prim::Exit":
                its += [graph.insertConstant(None)] * 3
        call = graph.create("prim::CallMethod", its, 1)
        call.s_("name", "__enter__" if node.kind() == "prim::Enter" else "__exit__")
        call.insertBefore(node)
        call.copyMetadata(node)
        call.output().setType(node.output().type())
        node.output().replaceAllUsesWith(call.output())
        node.destroy()
        found = True
    if found:
        torch._C._jit_pass_inline(graph)


@dataclass
class _Made:
    """A creation of an object.

    now    the nodes that set its attributes before anybody else sees it
    sets, reads  all that set such, and those that read, each with the node that had set it
    """

    graph: Graph
    node: Node
    now: dict[str, Node] = field(default_factory=dict)
    sets: list[Node] = field(default_factory=list)
    reads: list[tuple[Node, Node]] = field(default_factory=list)


def _construction(graph: Graph, node: Node) -> _Made:
    made, its = _Made(graph, node), node.output().unique()
    later = iter(list(node.owningBlock().nodes()))
    next(one for one in later if one.kind() == node.kind() and one.output().unique() == its)
    for one in later:
        users = [user for user in (*_inner(one), one) if its in _uniques(user.inputs())]
        users += [one] if any(its in _uniques(block.outputs()) for block in _blocks(one)) else []
        if any(user.kind() != "prim::GetAttr" for user in users):
            if one.kind() != "prim::SetAttr" or its == one.inputsAt(1).unique():
                break
            made.now[one.s("name")] = one
            made.sets.append(one)
        elif any(user.s("name") not in made.now for user in users):
            break
        else:
            made.reads += [(user, made.now[user.s("name")]) for user in users]
    return made


def _blocks(node: Node) -> Iterator[Any]:
    for block in node.blocks():
        yield block
        for inner in block.nodes():
            yield from _blocks(inner)


def _inner(node: Node) -> Iterator[Node]:
    for block in node.blocks():
        yield from nodes(block)


def _uniques(values: Any) -> set[int]:
    return {value.unique() for value in values}


@dataclass
class _Class:
    """A class that is taken apart: the attributes that somebody reads, and whether it changes."""

    name: str
    fields: dict[str, Type] = field(default_factory=dict)
    changes: bool = False


class _Classes:
    """Classes whose objects the graphs of a module make, and those that hold such."""

    def __init__(self, module: Any, graphs: Sequence[Graph]) -> None:
        self.graphs = graphs
        self.modules: dict[str, list[Any]] = {}
        for part in module.modules():
            self.modules.setdefault(_key(part._c._type()), []).append(part._c)
        made = [(graph, node) for graph in graphs for node in _creations(graph)]
        types = [node.output().type() for _, node in made]
        self.classes = {_key(its): _Class(its.name()) for its in types}
        self._add_holders()
        self._types: dict[str, Type | None] = {}
        self.made = [_construction(graph, node) for graph, node in made]
        self._look()

    def take_apart(self) -> None:
        """Raises Refused where that would change what is computed."""
        self._require_movable()
        self._move_attributes()
        objects = [self._retyped(graph) for graph in self.graphs]
        for made in self.made:
            self._construct(made, objects[self.graphs.index(made.graph)])
        for graph, its in zip(self.graphs, objects, strict=True):
            for node in nodes(graph):
                if node.kind() in ("prim::GetAttr", "prim::SetAttr"):
                    one = its.get(node.inputsAt(0).unique())
                    if one is None:
                        continue
                    at = _At(graph, node, one, self._tuple(one))
                    if node.kind() == "prim::SetAttr":
                        _set(at)
                    else:
                        old, new = node.output().unique(), _read(at)
                        its |= {new.unique(): its[old]} if old in its else {}

    # --- what there is ---

    def _add_holders(self) -> None:
        """Classes of module attributes that have an attribute with such an object."""
        while True:
            new = {
                name: _Class(node.inputsAt(0).type().name())
                for node, name in self._attributes("prim::GetAttr")
                if name not in self.classes
                and name not in self.modules
                and self._has(node.output().type())
            }
            if not new:
                return
            self.classes |= new

    def _look(self) -> None:
        """Finds the attributes that are read, and the classes that change."""
        early = sum(len(made.sets) for made in self.made)
        sets = [name for _, name in self._attributes("prim::SetAttr") if name in self.classes]
        if len(sets) > early:
            for name in sets:
                ours = (made for made in self.made if _key(made.node.output().type()) == name)
                self.classes[name].changes = sets.count(name) > sum(len(m.sets) for m in ours)
        for node, name in self._attributes("prim::GetAttr"):
            if name in self.classes:
                self.classes[name].fields[node.s("name")] = node.output().type()
        for node in self._nodes():
            if node.kind() in ("aten::__is__", "aten::__isnot__"):
                # a tuple that was taken apart is no longer itself
                types = [value.type() for value in node.inputs()]
                for one in (one for its in types for one in self._in(its)):
                    one.changes |= all(map(self._has, types))
        for one in self.classes.values():
            if not one.fields:
                # the parser of types in a file knows no empty tuple
                one.fields[""] = torch._C.IntType.get()

    def _nodes(self) -> Iterator[Node]:
        for graph in self.graphs:
            yield from nodes(graph)

    def _attributes(self, kind: str) -> list[tuple[Node, str]]:
        return [
            (node, _key(node.inputsAt(0).type()))
            for node in self._nodes()
            if node.kind() == kind and node.inputsAt(0).type().kind() == "ClassType"
        ]

    def _in(self, its: Type) -> Iterator[_Class]:
        if its.kind() == "ClassType" and _key(its) in self.classes:
            yield self.classes[_key(its)]
        for part in parts(its):
            yield from self._in(part)

    def _has(self, its: Type) -> bool:
        return any(True for _ in self._in(its))

    def _require_movable(self) -> None:
        for graph in self.graphs:
            for value in (*list(graph.inputs())[1:], *graph.outputs()):
                for one in self._in(value.type()):
                    why = f"a model takes and gives no objects of its own classes, as {one.name}"
                    raise _refused(f"{why} is one", value.node())
        for node in self._nodes():
            values = (*node.inputs(), *node.outputs())
            found = next((one for value in values for one in self._in(value.type())), None)
            if found is not None and not _MOVES.fullmatch(node.kind()):
                what = node.kind().partition("::")[2]
                why = f"a model does no {what} of objects of its own classes, as {found.name}"
                raise _refused(f"{why} is one", node)

    # --- types ---

    def translated(self, its: Type) -> Type:
        """The type of what takes the place of a value."""
        if not self._has(its):
            return its
        kind, c = its.kind(), torch._C
        if kind == "ClassType":
            return self._of_class(_key(its))
        inner = [self.translated(part) for part in parts(its)]
        if kind in MADE_OF_ONE:
            return MADE_OF_ONE[kind](self.translated(its.getElementType()))
        if kind == "DictType":
            return c.DictType(*inner)
        if kind == "TupleType":
            return c.TupleType(inner)
        found = next(self._in(its))
        why = f"a model has no {its.annotation_str} with {found.name}, one of its own classes"
        raise Refused("program", why, scripted=True)

    def _of_class(self, key: str) -> Type:
        one = self.classes[key]
        if key not in self._types:
            self._types[key] = None
            its = [self.translated(part) for part in one.fields.values()]
            self._types[key] = torch._C.TupleType(its)
        made = self._types[key]
        if made is None:
            why = f"a model has no objects that hold others of their class, as {one.name} does"
            raise Refused("program", why, scripted=True)
        return torch._C.ListType(made) if one.changes else made

    def _tuple(self, one: _Class) -> Type:
        its = self._of_class(next(key for key, its in self.classes.items() if its is one))
        return its.getElementType() if one.changes else its

    def _retyped(self, graph: Graph) -> dict[int, _Class]:
        """Gives values their new types; those that are objects, by number."""
        found: dict[int, _Class] = {}
        for value in values(graph):
            its = value.type()
            if self._has(its):
                if its.kind() == "ClassType":
                    found[value.unique()] = self.classes[_key(its)]
                value.setType(self.translated(its))
        return found

    # --- attributes of modules ---

    def _move_attributes(self) -> None:
        """Move what module attributes hold to new ones: types of attributes never change."""
        moved: dict[tuple[str, str], str] = {}
        for node, owner in self._attributes("prim::GetAttr"):
            its, name = node.output().type(), node.s("name")
            if owner in self.modules and self._has(its):
                if (owner, name) not in moved:
                    moved[owner, name] = self._moved(owner, name, its)
                node.s_("name", moved[owner, name])
        for node, owner in self._attributes("prim::SetAttr"):
            if owner in self.modules and self._has(node.inputsAt(1).type()):
                if (owner, node.s("name")) in moved:
                    node.s_("name", moved[owner, node.s("name")])
                else:
                    node.destroy()  # nobody reads it
            elif (owner, node.s("name")) in moved:
                # None
                node.s_("name", moved[owner, node.s("name")])

    def _moved(self, owner: str, name: str, its: Type) -> str:
        those, new = self.modules[owner], f"{name}_apart"
        while those[0].hasattr(new):
            new += "_"
        for part in those:
            try:
                value = self._value(its, part.getattr(name))
            except RuntimeError as error:
                why = f"the object in {name} is of a class that is known to its file alone"
                raise Refused("program", why, scripted=True) from error
            part._register_attribute(new, self.translated(its), value)
        return new

    def _value(self, its: Type, old: Any) -> Any:
        if old is None or not self._has(its):
            return old
        kind = its.kind()
        if kind == "ClassType":
            one = self.classes[_key(its)]
            if one.changes:
                why = f"a module has {one.name}, whose attributes are set while others are made"
                raise Refused("program", why, scripted=True)
            fields = one.fields.items()
            return tuple(self._value(part, getattr(old, name, 0)) for name, part in fields)
        inner = parts(its)
        if kind == "OptionalType":
            return self._value(its.getElementType(), old)
        if kind == "ListType":
            return [self._value(inner[0], each) for each in old]
        if kind == "DictType":
            return {key: self._value(inner[1], each) for key, each in old.items()}
        return tuple(self._value(part, each) for part, each in zip(inner, old, strict=True))

    # --- objects ---

    def _construct(self, made: _Made, objects: dict[int, _Class]) -> None:
        old, graph = made.node.output(), made.graph
        one = objects[old.unique()]
        for node, setter in made.reads:
            node.output().replaceAllUsesWith(setter.inputsAt(1))
        last = made.sets[-1] if made.sets else made.node
        at = _At(graph, last, one, self._tuple(one))
        values = [
            made.now[name].inputsAt(1) if name in made.now else at.unset(self.translated(its), name)
            for name, its in one.fields.items()
        ]
        new = at.tuple(values)
        if one.changes:
            new = at.new("prim::ListConstruct", [new], torch._C.ListType(at.type))
        objects[new.unique()] = one
        for node in (*(node for node, _ in made.reads), *made.sets):
            node.destroy()
        old.replaceAllUsesWith(new)
        made.node.destroy()


@dataclass(frozen=True)
class _At:
    """A node that nodes are put before; the class of the object that it is about, and the type of
    the tuple of its attributes."""

    graph: Graph
    node: Node
    one: _Class
    type: Type

    def new(self, kind: str, inputs: Sequence[Value], its: Type) -> Value:
        made = self.graph.create(kind, list(inputs), 1)
        made.insertBefore(self.node)
        made.copyMetadata(self.node)
        made.output().setType(its)
        return made.output()

    def number(self, value: int) -> Value:
        with self.graph.insert_point_guard(self.node):
            return self.graph.insertConstant(value)

    def unset(self, its: Type, name: str) -> Value:
        return self.new("prim::Uninitialized", [], its) if name else self.number(0)

    def tuple(self, values: Sequence[Value]) -> Value:
        return self.new("prim::TupleConstruct", values, self.type)

    def attributes(self) -> Value:
        """The tuple of an object's attributes."""
        old = self.node.inputsAt(0)
        if not self.one.changes:
            return old
        return self.new("aten::__getitem__", [old, self.number(0)], self.type)

    def item(self, its: Value, name: str) -> Value:
        number = list(self.one.fields).index(name)
        if its.node().kind() == "prim::TupleConstruct":
            return its.node().inputsAt(number)
        part = list(self.type.elements())[number]
        return self.new("prim::TupleIndex", [its, self.number(number)], part)


def _read(at: _At) -> Value:
    value = at.item(at.attributes(), at.node.s("name"))
    at.node.output().replaceAllUsesWith(value)
    at.node.destroy()
    return value


def _set(at: _At) -> None:
    old, name = at.attributes(), at.node.s("name")
    if name in at.one.fields:
        names = list(at.one.fields)
        values = [at.node.inputsAt(1) if its == name else at.item(old, its) for its in names]
        inputs = [at.node.inputsAt(0), at.number(0), at.tuple(values)]
        at.new("aten::_set_item", inputs, at.node.inputsAt(0).type())
    at.node.destroy()


def _refused(why: str, node: Node) -> Refused:
    return Refused("program", why, scripted=True, **place_in(node.sourceRange()))
