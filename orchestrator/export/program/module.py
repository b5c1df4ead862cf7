"""Exported programs as one module of TorchScript."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from orchestrator.export.program import trees
from orchestrator.export.program.checks import Asked, Least, asked_of, emit_checks, user_values
from orchestrator.export.program.control_flow import CONTROL_FLOW
from orchestrator.export.program.emission import Emitter, Writer
from orchestrator.export.program.grouped import grouped_products
from orchestrator.export.program.guards import conditions
from orchestrator.export.program.state import Attributes
from orchestrator.export.refusal import Refused

_MAKE_CONTIGUOUS = ("reshape", "flatten", "contiguous", "unflatten", "reshape_as", "clone", "ravel")


@dataclass(frozen=True)
class Program:
    """A method, as torch.export has it.

    exported  as torch.export.export gave it
    core      the same, functional: after `run_decompositions`
    names     of the arguments, in order
    least     symbol -> its small sizes, where some are known to go wrong
    guards    whether what torch's own operators asked of sizes is asked again
    texts     guards in Python, of a program that was loaded: those of its symbols are gone
    """

    exported: Any
    core: Any
    names: Sequence[str]
    least: Mapping[str, Least]
    guards: bool = False
    texts: Sequence[str] = ()

    @property
    def arguments(self) -> trees.Branch:
        """A tuple of positional arguments and a dictionary of named ones."""
        kinds = [_kind(one) for one in user_values(self.core)]
        return _branch(trees.tree_of(self.core.call_spec.in_spec, kinds))

    @property
    def result(self) -> trees.Tree:
        kinds = [_kind(one) for one in _results(self.core)]
        return trees.tree_of(self.core.call_spec.out_spec, kinds)


def inputs_of(program: Program) -> list[tuple[str, trees.Tree]]:
    """The method's arguments, with their names."""
    items = [one for part in program.arguments.items for one in _branch(part).items]
    return list(zip(program.names, items, strict=True))


def leaf_names(program: Program) -> list[str]:
    """Return the name of each leaf of the arguments, in the order of their numbers."""
    found = [one for name, tree in inputs_of(program) for one in trees.paths(tree, name)]
    return [name for name, _ in sorted(found, key=lambda one: one[1].number)]


def asked(program: Program) -> Asked:
    """Return the conditions of the program on its inputs."""
    names = leaf_names(program)
    found = asked_of(program.exported, names, program.least, program.guards)
    known = {condition for condition, _ in found.guards}
    more = [one for one in conditions(program.texts, found.inputs) if one[0] not in known]
    return replace(found, guards=[*found.guards, *more])


def script_module(programs: Mapping[str, Program]) -> tuple[Any, frozenset[str]]:
    """A module of TorchScript with a method for each program, and what its checks of inputs say.

    Weights are attributes, each tensor once; they are the very tensors of the programs, and what is
    written is copied. Raises Refused, with a line of the source.
    """
    unit = torch._C.CompilationUnit()
    made = torch._C.ScriptModule("__torch__.Exported", unit, True)
    attributes = Attributes(made)
    written = {
        own_name(method, name)
        for method, program in programs.items()
        for name in written_buffers(program)
    }
    names = {
        method: {
            one: attributes.of(tensor, its := own_name(method, name), its in written)
            for one, (name, tensor) in _tensors(program)
        }
        for method, program in programs.items()
    }
    held = {
        id(what): (attributes.of_object(what, name), what)
        for program in programs.values()
        for name, what in _graphs_own(program.core)
    }
    module = torch.jit._recursive.wrap_cpp_module(made)
    texts: set[str] = set()
    for method, program in programs.items():
        module.define(_stub(method, program))
        graph = module._c._get_method(method).graph
        texts |= _fill(graph, program, names[method], held)
    return module.eval(), frozenset(texts)


def own_name(method: str, name: str) -> str:
    """A module's own name of a buffer, of that in the program of a method: others than `forward`
    are captured of a module around it (`capture.py`)."""
    return name if method == "forward" else name.removeprefix("module.")


def written_buffers(program: Program) -> frozenset[str]:
    """The buffers that a method changes."""
    return frozenset(program.core.graph_signature.buffers_to_mutate.values())


def _stub(method: str, program: Program) -> str:
    """The source of a method of these types, without what it computes."""
    given = [f"{name}: {trees.text_of(tree)}" for name, tree in inputs_of(program)]
    result = trees.text_of(program.result)
    head = f"def {method}({', '.join(['self', *given])}) -> {result}:"
    return f"{head}\n    raise RuntimeError('')\n"


def _fill(
    graph: Any, program: Program, names: Mapping[str, str], held: Mapping[int, tuple[str, Any]]
) -> set[str]:
    """Replace what a graph computes; gives what its checks of inputs say.

    names, held  the module's attributes: by placeholder, and by the id of what a graph has itself
    """
    old = list(graph.nodes())
    writer = Writer(graph, old[0])
    result = next(iter(graph.outputs()))
    with graph.insert_point_guard(old[0]):
        leaves = _unpacked(writer, program, list(graph.inputs())[1:])
        emit_checks(writer, asked(program), leaves)
        texts = set(writer.texts)
        own = {
            id(what): writer.attribute(held[id(what)][0], _type(what))
            for _, what in _graphs_own(program.core)
        }
        # int8 kernels give images whose channels are last in memory
        reshapes = bool(own) or _reshapes(program.exported)
        hooks = {**CONTROL_FLOW, **grouped_products()}
        emitter = Emitter(writer, hooks, reshapes, own)
        given = _placeholders(writer, program.core, names, leaves)
        made = _written_back(
            writer, program.core, given, emitter.emit(program.core.graph_module, given)
        )
        value = _packed(writer, program.result, made, result.type())
    graph.eraseOutput(0)
    graph.registerOutput(value)
    for node in reversed(old):
        node.destroy()
    return texts


def _graphs_own(core: Any) -> list[tuple[str, Any]]:
    """Tensors and objects that a graph itself has, with their names."""
    found = [
        (node.target, getattr(core.graph_module, node.target))
        for node in core.graph.nodes
        if node.op == "get_attr"
    ]
    return [one for one in found if isinstance(one[1], torch.Tensor | torch.ScriptObject)]


def _type(what: Any) -> Any:
    return torch._C.TensorType.get() if isinstance(what, torch.Tensor) else what._type()


# --- what comes in ---


def _unpacked(writer: Writer, program: Program, values: Sequence[Any]) -> list[Any]:
    found: dict[int, Any] = {}
    for (_, tree), value in zip(inputs_of(program), values, strict=True):
        _leaves(writer, tree, value, found)
    return [found[number] for number in sorted(found)]


def _leaves(writer: Writer, tree: trees.Tree, value: Any, found: dict[int, Any]) -> None:
    if isinstance(tree, trees.Leaf):
        found[tree.number] = value
        return
    its = value.type()
    if tree.form == "tuple":
        parts = writer.node("prim::TupleUnpack", [value], list(its.elements())).outputs()
    elif tree.form == "list":
        parts = writer.unpacked(value, len(tree.items), its.getElementType())
    else:
        element = its.getValueType()
        parts = [writer.one("aten::__getitem__", [value, key], element) for key in tree.keys]
    for one, part in zip(tree.items, parts, strict=True):
        _leaves(writer, one, part, found)


def _placeholders(
    writer: Writer, core: Any, names: Mapping[str, str], leaves: Sequence[Any]
) -> list[Any]:
    left = iter(leaves)
    users = {
        spec.arg.name for spec in core.graph_signature.input_specs if spec.kind.name == "USER_INPUT"
    }
    found: list[Any] = []
    for node in core.graph.nodes:
        if node.op != "placeholder":
            continue
        if node.name not in users:
            found.append(writer.attribute(names[node.name]) if node.name in names else None)
        else:
            value, known = next(left), node.meta.get("val")
            # a constant has been asked for
            plain = known is None or isinstance(known, bool | int | float | str)
            found.append(known if plain else value)
    return found


def _kept(core: Any, node: Any) -> bool:
    """True if the program writes a placeholder's buffer, which the model then needs even if nothing
    reads it."""
    target = core.graph_signature.inputs_to_buffers.get(node.name)
    return target in core.graph_signature.buffers_to_mutate.values()


def _tensors(program: Program) -> list[tuple[str, tuple[str, torch.Tensor]]]:
    """Placeholder's name -> name and tensor of what is not given by a caller, where it is used."""
    core, found = program.core, []
    signature = core.graph_signature
    users = {n.name: bool(n.users) or _kept(core, n) for n in core.graph.nodes}
    for spec in signature.input_specs:
        kind = spec.kind.name
        if kind == "USER_INPUT":
            continue
        if kind not in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            raise Refused("program", f"{spec.target}: a {kind.lower().replace('_', ' ')}")
        its = core.state_dict.get(spec.target, core.constants.get(spec.target))
        if users.get(spec.arg.name):
            found.append((spec.arg.name, (spec.target, its)))
    return found


# --- what goes out ---


def _written_back(
    writer: Writer, core: Any, given: Sequence[Any], made: Sequence[Any]
) -> list[Any]:
    """The results for the caller; what was changed of buffers and arguments is written to them."""
    holders = [node for node in core.graph.nodes if node.op == "placeholder"]
    values = dict(zip((node.name for node in holders), given, strict=True))
    signature = core.graph_signature
    buffers = {target: name for name, target in signature.inputs_to_buffers.items()}
    results = list(zip(core.graph.output_node().args[0], signature.output_specs, made, strict=True))
    targets: dict[int, str] = {}
    for number, (_, spec, _) in enumerate(results):
        if spec.kind.name == "BUFFER_MUTATION":
            targets[number] = buffers[spec.target]
        elif spec.kind.name == "USER_INPUT_MUTATION":
            targets[number] = spec.target
        elif spec.kind.name == "PARAMETER_MUTATION":
            # copies of a module share its parameters, so nothing could be compared
            its = f"{spec.target} is a parameter that a call changes"
            raise Refused("program", f"{its}: register it as a buffer")
        elif spec.kind.name != "USER_OUTPUT":
            raise Refused("program", f"a result that is a {spec.kind.name.lower()}")
    safe = [
        writer.one("aten::clone", [value, None])
        if _held(node, {*targets.values()} - {targets.get(n)})
        else value
        for n, (node, _, value) in enumerate(results)
    ]
    for number, name in targets.items():
        writer.one("aten::copy_", [values[name], safe[number], False])
    return [value for number, value in enumerate(safe) if number not in targets]


def _held(node: Any, written: set[str]) -> bool:
    """True if a result may share memory with one of the written placeholders."""
    seen, left = set(), [node]
    while written and left:
        one = left.pop()
        if not isinstance(one, torch.fx.Node) or one in seen:
            continue
        seen.add(one)
        if one.op == "placeholder":
            if one.name in written:
                return True
        elif _may_alias(one):
            left += one.all_input_nodes
    return False


def _may_alias(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return True
    return any(one.alias_info is not None for one in schema.returns) or node.target in (
        torch.ops.aten.reshape.default,
        torch.ops.aten._to_copy.default,
        torch.ops.aten._unsafe_view.default,
        torch.ops.aten.copy.default,
    )


def _packed(writer: Writer, tree: trees.Tree, made: Sequence[Any], its: Any) -> Any:
    """A result of this type."""
    if isinstance(tree, trees.Leaf):
        return writer.value(made[tree.number])
    if tree.form == "tuple":
        types = list(its.elements())
    else:
        element = its.getElementType() if tree.form == "list" else its.getValueType()
        types = [element] * len(tree.items)
    values = [_packed(writer, one, made, kind) for one, kind in zip(tree.items, types, strict=True)]
    if tree.form == "dict":
        pairs = zip(tree.keys, values, strict=True)
        values = [writer.value(one) for pair in pairs for one in pair]
    kind = {"tuple": "Tuple", "list": "List", "dict": "Dict"}[tree.form]
    return writer.node(f"prim::{kind}Construct", values, [its]).output()


# --- of programs ---


def _branch(tree: trees.Tree) -> trees.Branch:
    assert isinstance(tree, trees.Branch)
    return tree


def _reshapes(exported: Any) -> bool:
    """True if the module calls an operator that makes tensors contiguous."""
    names = {
        node.target._schema.name.removeprefix("aten::")
        for graph in (m.graph for m in exported.graph_module.modules() if hasattr(m, "graph"))
        for node in graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    }
    return any(name in names for name in _MAKE_CONTIGUOUS)


def _results(core: Any) -> list[Any]:
    values = core.graph.output_node().args[0]
    return [
        one.meta.get("val") if isinstance(one, torch.fx.Node) else one
        for one, spec in zip(values, core.graph_signature.output_specs, strict=True)
        if spec.kind.name == "USER_OUTPUT"
    ]


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "Tensor"
    symbols = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool"}
    for its, name in symbols.items():
        if isinstance(value, its):
            return name
    found = trees.kind_of(value)
    if found is None:
        raise Refused("program", f"an argument or a result of the type {type(value).__name__}")
    return found
