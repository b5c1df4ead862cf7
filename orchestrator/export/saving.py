"""Modules of torch as an app's `.ptl` files: for an app's own export script.

    from orchestrator.export.saving import Export, run

    def models() -> dict[str, Export]:
        return {"classifier": Export(Classifier(), [(torch.rand(1, 3, 96, 96),)])}

    if __name__ == "__main__":
        run(models, Path(__file__).resolve().parent / "models")

A model is compiled, made canonical (unless that is off), bundled with its inputs, loaded by torch's
own lite interpreter and compared with the module on its inputs and on further ones. Files are
replaced after all models passed. The same torch writes the same bytes, on any machine.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import inspect
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from torch.jit._recursive import wrap_cpp_module
from torch.utils.bundled_inputs import InflatableArg, bundle_inputs

from orchestrator.export.archive import make_reproducible
from orchestrator.export.calls import Call, Comparison, Invoke, Make
from orchestrator.export.comparing import Comparing, completed, made_of
from orchestrator.export.contexts import without_contexts
from orchestrator.export.dictionaries import without_pairs
from orchestrator.export.freezing import frozen, inlined, unmark
from orchestrator.export.named_tuples import without_named_tuples
from orchestrator.export.objects import without_objects
from orchestrator.export.places import place_of_assignment, place_of_error
from orchestrator.export.program.capture import Example, argument_names
from orchestrator.export.program.copies import copied_module, remembered
from orchestrator.export.program.door import Entered, enter
from orchestrator.export.program.loaded import enter_file
from orchestrator.export.program.sizes import Kept, wanted
from orchestrator.export.refusal import Refused
from orchestrator.export.results import as_in_python
from orchestrator.export.scripting import scripted, traced
from orchestrator.export.static import Applied, Attempt, convert, settled
from orchestrator.export.tolerances import TOLERANCES
from orchestrator.export.unwritable import require_writable
from orchestrator.export.values import calls_json, copied

# A call: positional arguments, or named ones.
Row = tuple[Any, ...] | Mapping[str, Any]
Inputs = Sequence[Row] | Mapping[str, Sequence[Row]]
Way = Literal["export", "script", "trace", "any"]


@dataclass(frozen=True)
class Export:
    """A model to export.

    eager      the module; it is put into eval mode
    inputs     calls to bundle, each the arguments of one, a tuple or a dictionary of named ones: of
               `forward`, or by method
    compiled   how: `export` by torch.export; `script` keeps control flow; `trace` is for modules in
               which no way depends on a value; `any`: `export`, or `script` where that is refused;
               or the module that was compiled already
    canonical  `static`: in fewer operators, as `orchestrate canonical` does it; `off`
    sizes      `any`: what the module takes of other batches and sizes is compared too; `fixed`:
               the model is for these sizes alone
    decomposed  operators that a program of torch.export is to have in others
    bundled    whether the file holds the inputs
    dynamic, fixed  dimensions that torch.export leaves open, or does not: `tokens:1=2..512`
    """

    eager: torch.nn.Module
    inputs: Inputs
    compiled: Way | torch.jit.ScriptModule = "script"
    canonical: Literal["static", "off"] = "static"
    sizes: Literal["any", "fixed"] = "any"
    dynamic: Sequence[str] = ()
    fixed: Sequence[str] = ()
    decomposed: Sequence[str] = ()
    bundled: bool = True


@dataclass(frozen=True)
class Exported:
    """A `.ptl`, what was rewritten in it, and what each call gave: see `worker.py`.

    via    `export`, `script` or `trace`
    notes  lines for people
    unrolled  the line of a loop over a size, which torch.export took step by step
    fixed  what checks say of sizes that torch's own modules fixed
    calls  of the examples, with arguments as the model takes them
    """

    data: bytes
    folded: bool
    rewrites: list[dict[str, Any]]
    comparison: list[dict[str, Any]]
    via: str = "script"
    notes: list[str] = field(default_factory=list)
    unrolled: str = ""
    fixed: frozenset[str] = frozenset()
    calls: Sequence[Call] = ()

    @property
    def largest(self) -> float:
        """The largest difference of all."""
        return max((row.get("largest", 0.0) for row in self.comparison), default=0.0)

    def written(self, folder: Path, file: str) -> dict[str, Any]:
        """Write the model and its example calls; the worker's result."""
        (folder / "inputs.json").write_text(calls_json(self.calls), encoding="utf-8")
        (folder / file).write_bytes(self.data)
        return {
            "torch": torch.__version__,
            "folded": self.folded,
            "rewrites": self.rewrites,
            "comparison": self.comparison,
            "notes": self.notes,
        }


def export(
    name: str,
    model: Export,
    *,
    pytorch: str | None = None,
    with_code: bool = False,
    tolerances: Mapping[str, Sequence[float]] = TOLERANCES,
    without: frozenset[str] = frozenset(),
    stage: Callable[[str], None] = lambda text: None,
) -> Exported:
    """The `.ptl` of a model; `name` becomes the archive's top folder.

    pytorch    the version that the app's runtime is cut from, such as 1.13.1: operators that it
               does not have are lowered, if the model is made canonical
    with_code  as PyTorch writes it, with the TorchScript that `orchestrate canonical` needs; its
               bytes are then not the same each time, and it is not canonical
    without    names of rewrites that are not to be applied
    Raises Refused where TorchScript cannot compile it, or where it does not compute what the module
    does.
    """

    how = _How(name, model.canonical == "static", pytorch, with_code, without)

    def by(way: _Way) -> Exported:
        its, comparison = replace(model, compiled=way.compiled), Comparison(tolerances)

        def compiled(folder: Path) -> _Compiled:
            return _compiled(its, way.kept, comparison, stage, folder)

        sizes = model.sizes == "any"
        return _saved(compiled, comparison, replace(how, sizes=sizes), model.bundled, stage)

    first = _first_way(model)
    try:
        made = by(first)
    except Refused as error:
        if error.kind in ("script", *_CANNOT):
            _require_runs(model)
        scripting: Refused | None = None
        for way in _further_ways(model, error):
            try:
                made = by(way)
            except Refused as other:
                if way.compiled == "script":
                    scripting = other
                if other.kind == "differs" and (engine := _other_engine(model.eager)):
                    other.facts["engine"] = engine
                    raise
                continue
            return replace(made, notes=[f"{way.note}: {_briefly(error)}", *made.notes])
        if scripting is not None and error.kind in _CANNOT:
            if scripting.kind == "differs":
                raise Refused(
                    "differs", str(scripting), **scripting.facts, scripted=True
                ) from error
            script = told(scripting)
            raise Refused(error.kind, str(error), **error.facts, script=script) from error
        if error.kind == "differs":
            error.facts["engine"] = _other_engine(model.eager)
            if first.compiled == "export":
                _require_no_memory(model)
            if how.canonical:
                how = replace(how, canonical=False)
                error.facts["plain"] = _is_right(by, first)
        raise
    if model.compiled == "any" and (why := _narrower(made)):
        with contextlib.suppress(Refused):
            its = by(_Way("script"))
            return replace(its, notes=[f"{why}, so it was scripted", *its.notes])
    return made


def _narrower(made: Exported) -> str:
    """Why a program takes less than the module, where nothing in the module's source says so."""
    if made.unrolled:
        return f"a loop would run as often as in the example ({made.unrolled})"
    refused = (row["why"] for row in made.comparison if row["result"] == "refused")
    fixed = next((why for why in refused if any(one in why for one in made.fixed)), "")
    return (
        f"torch.export took a size for a constant which the module does not ({fixed})"
        if fixed
        else ""
    )


def _other_engine(module: torch.nn.Module) -> str:
    """The engine that computes a quantised module here, where that is not the one of models."""
    parts = (type(part).__module__ for part in module.modules())
    if not any(".nn.quantized" in name or ".nn.intrinsic.quantized" in name for name in parts):
        return ""
    engine: str = torch.backends.quantized.engine
    return "" if engine == "qnnpack" else engine


def _is_right(by: Callable[[_Way], Exported], way: _Way) -> bool:
    try:
        by(way)
    except Refused:
        return False
    return True


def _require_runs(model: Export) -> None:
    """Raises Refused where it is the module that does not run on its example inputs."""
    for method, rows in _rows(model.eager, model.inputs).items():
        row = rows[0]
        try:
            its = copy.deepcopy(model.eager)
        except Exception:
            return  # nothing is known of it then
        try:
            with torch.no_grad():
                getattr(its, method)(*copied(list(row.args)), **copied(dict(row.kwargs)))
        except Exception as error:
            why = str(error) or type(error).__name__
            raise Refused("original", why, call=f"{method}[0]", **place_of_error(error)) from error


def _require_no_memory(model: Export) -> None:
    """Raises Refused where a module keeps tensors of a call where a model does not."""
    eager = model.eager
    for method, rows in _rows(eager, model.inputs).items():
        row = rows[0]

        def call(its: Any, method: str = method, row: Example = row) -> None:
            getattr(its, method)(*copied(list(row.args)), **copied(dict(row.kwargs)))

        for one in remembered(eager, call):
            why = f"{method} keeps a tensor in {one.name}, which is no buffer: register it as one"
            raise Refused("program", why, **place_of_assignment(one.owner, one.name))


_OPEN = Kept()


@dataclass(frozen=True)
class _Way:
    """One of those that a module is tried to be compiled by. note: for people, where it is not the
    first."""

    compiled: Any
    kept: Kept = _OPEN
    note: str = ""


# What torch.export cannot follow, or a program cannot hold.
_CANNOT = ("export", "program")


def _first_way(model: Export) -> _Way:
    compiled = "export" if model.compiled == "any" else model.compiled
    return _Way(compiled, Kept(model.sizes))


def _further_ways(model: Export, error: Refused) -> Iterator[_Way]:
    """The ways that are left where the first one failed so: first those that keep sizes open."""
    if model.compiled not in ("export", "any"):
        return
    cannot, differs = error.kind in _CANNOT, error.kind == "differs"
    if differs and model.sizes == "any":
        why = "the model asks of sizes what torch's operators asked, since without that it differs"
        yield _Way("export", Kept("any", guards=True), why)
    if model.compiled == "any" and cannot:
        yield _Way("script", note="torch.export cannot follow it, so it was scripted")
    elif model.compiled == "any" and (differs or error.facts.get("other")):
        why = "what torch.export gave differs from the module, so it was scripted"
        yield _Way("script", note=why)
    if model.sizes == "any" and (differs or (cannot and not error.facts.get("values"))):
        yield _Way("export", Kept("first"), f"{_FIXED} but the first of each argument")
        yield _Way("export", Kept("fixed"), _FIXED)


_FIXED = "torch.export needs sizes as in the example, so the model takes these alone"


def _briefly(error: Refused) -> str:
    """A refusal in a line: the code that it is about, if that is known."""
    facts = error.facts
    if error.kind not in _CANNOT:
        return told(error)
    place = f"{Path(facts['file']).name}:{facts['line']}: " if facts.get("file") else ""
    return f"{place}{facts.get('code') or error}"


def export_program(
    name: str,
    file: Path,
    declared: Sequence[Mapping[str, Any]] | None,
    *,
    pytorch: str,
    tolerances: Mapping[str, Sequence[float]] = TOLERANCES,
    without: frozenset[str] = frozenset(),
    stage: Callable[[str], None] = lambda text: None,
) -> Exported:
    """The same of a `.pt2` file, which was checked: without inputs inside, and compared with what
    the program computes in torch.

    declared  calls as the model runner's `--inputs`; None for those in the file
    Raises Refused.
    """
    comparison = Comparison(tolerances)

    def compiled(folder: Path) -> _Compiled:
        return _of_entered(enter_file(file, declared, comparison, stage))

    return _saved(compiled, comparison, _How(name, True, pytorch, False, without), False, stage)


@dataclass(frozen=True)
class _How:
    """Options for saving a model, as in `export`. canonical: True to rewrite it; sizes: True to
    compare calls of other sizes."""

    name: str
    canonical: bool
    pytorch: str | None
    with_code: bool
    without: frozenset[str]
    sizes: bool = True


def _saved(
    compiled: Callable[[Path], _Compiled],
    comparison: Comparison,
    how: _How,
    bundled: bool,
    stage: Callable[[str], None],
) -> Exported:
    with torch.random.fork_rng(devices=[]), TemporaryDirectory() as folder:
        made = compiled(Path(folder))
        # what compiled it may have widened them
        allowed = comparison.tolerances
        comparing = Comparing.of(made.build(), made.calls, allowed, how.sizes, made.refuses)
        files = (Path(folder, f"{number}.ptl") for number in itertools.count())

        def checked(make: Callable[[], Any], applied: Applied) -> Attempt:
            file = next(files)
            seen = written(make(), file)
            stage("comparing")
            found = comparing(made.eager, seen, in_double=made.in_double)
            return Attempt(file, applied, *found)

        def written(module: Any, file: Path) -> Make:
            _write(_bundled(module, made.calls) if bundled else module, file)
            if not how.with_code:
                make_reproducible(file, how.name)
            return made_of(file, module, made.calls)

        if how.with_code or not how.canonical:
            best, folded = checked(made.build, Applied()), False
            if best.wrong is not None:
                raise Refused("differs", best.wrong["difference"], **best.wrong, rewrites=[])
        else:

            def attempt(without: frozenset[str], fold: bool) -> Attempt:
                stage("converting")
                applied = Applied()

                def converted() -> Any:
                    return convert(made.build(), how.pytorch, without, fold, applied)

                return checked(converted, applied)

            best, folded = settled(attempt, how.without)
        its = (made.via, made.notes, made.unrolled, made.fixed, made.calls)
        rows = best.applied.rows()
        return Exported(best.made.read_bytes(), folded, rows, best.rows, *its)


def _write(module: Any, file: Path) -> None:
    """Raises Refused where the lite interpreter lacks what TorchScript has."""
    require_writable(module)
    try:
        module._save_for_lite_interpreter(str(file))
    except RuntimeError as error:
        raise Refused("script", str(error).strip().splitlines()[0]) from error


def write(
    models: Mapping[str, Export],
    folder: Path,
    *,
    pytorch: str | None = None,
    with_code: bool = False,
) -> None:
    """Write `<folder>/<name>.ptl` of every model, or nothing. Raises what `export` raises."""
    files = {
        f"{name}.ptl": export(name, one, pytorch=pytorch, with_code=with_code)
        for name, one in models.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in files.items():
        staged = folder / f".{name}.new"
        staged.write_bytes(made.data)
        staged.replace(folder / name)


def run(
    models: Callable[[], Mapping[str, Export]], folder: Path, pytorch: str | None = None
) -> None:
    """The `main` of an export script: every model into a folder, or the one given with `--out`.

    pytorch  as for `export`
    """
    parser = argparse.ArgumentParser(description="Exports this app's models.")
    parser.add_argument("--out", type=Path, default=folder, metavar="DIR")
    parser.add_argument("--with-code", action="store_true", help="keep the TorchScript")
    arguments = parser.parse_args()
    prepare()
    try:
        write(models(), arguments.out, pytorch=pytorch, with_code=arguments.with_code)
    except Refused as error:
        sys.exit(f"error: {told(error)}")


def told(error: Refused) -> str:
    """A refusal as one text, with its place in the source."""
    facts = error.facts
    place = f"{facts['file']}:{facts['line']}: " if facts.get("file") else ""
    call = f"{facts['call']}: " if facts.get("call") else ""
    return f"{place}{call}{error}"


def prepare() -> None:
    """Fixed seed and one thread, so that weights and inputs are the same on every run."""
    torch.manual_seed(1131)
    torch.set_num_threads(1)
    # without a word where there is no such algorithm: the user did not ask for one
    torch.use_deterministic_algorithms(True, warn_only=True)
    warnings.filterwarnings("ignore", message=".*does not have a deterministic implementation")
    # The lite interpreter is what these models are for; torch 2.13 deprecates it.
    warnings.filterwarnings("ignore", message="Lite Interpreter is deprecated")


def trace(model: torch.nn.Module, *inputs: torch.Tensor, **options: Any) -> torch.jit.ScriptModule:
    """`torch.jit.trace` of a model in eval mode; names only operators that ran."""
    with torch.no_grad():
        return torch.jit.trace(model.eval(), inputs, **options)


def freeze(model: torch.nn.Module) -> torch.jit.ScriptModule:
    """The scripted model without its training branches; batch norm stays an operator."""
    made: torch.jit.ScriptModule = frozen(torch.jit.script(model.eval()), ["forward"], fold=False)
    for graph in inlined(made, ["forward"]):
        unmark(graph)
    return made


@dataclass(frozen=True)
class _Compiled:
    """A module that was compiled.

    build    gives it, used by nobody else
    eager, in_double  give what calls the module's methods, as the model's are called
    refuses  whether an error is a check of the model's
    """

    via: str
    calls: Sequence[Call]
    build: Callable[[], Any]
    eager: Make
    in_double: Make
    refuses: Callable[[str], bool] = lambda error: False
    notes: list[str] = field(default_factory=list)
    unrolled: str = ""
    fixed: frozenset[str] = frozenset()


def _compiled(
    model: Export, kept: Kept, comparison: Comparison, stage: Callable[[str], None], folder: Path
) -> _Compiled:
    """Raises Refused. folder: for what `build` reads."""
    eager = _in_eval_mode(model.eager)
    rows = _rows(eager, model.inputs)
    stage("exporting the module")
    if model.compiled == "export":
        return _by_export(eager, rows, model, kept, comparison, stage)
    return _by_torchscript(eager, rows, model.compiled, comparison, folder / "scripted.pt")


def _in_eval_mode(module: torch.nn.Module) -> torch.nn.Module:
    """Modules that torch.export gave have no modes, and refuse."""
    with contextlib.suppress(NotImplementedError):
        module.eval()
    return module


def _by_export(
    eager: torch.nn.Module,
    rows: Mapping[str, Sequence[Example]],
    model: Export,
    kept: Kept,
    comparison: Comparison,
    stage: Callable[[str], None],
) -> _Compiled:
    asked = [wanted(text, True) for text in model.dynamic]
    asked += [wanted(text, False) for text in model.fixed]
    its = replace(kept, decomposed=model.decomposed)
    return _of_entered(enter(eager, rows, asked, its, comparison, stage))


def _of_entered(made: Entered) -> _Compiled:
    run = (made.calls, made.build, made.eager, made.in_double, made.refuses)
    return _Compiled("export", *run, made.notes, made.unrolled, made.fixed)


def _by_torchscript(
    eager: torch.nn.Module,
    rows: Mapping[str, Sequence[Example]],
    how: Any,
    comparison: Comparison,
    file: Path,
) -> _Compiled:
    calls = [
        Call(method, number, "own", _positional(getattr(eager, method), row))
        for method, its in rows.items()
        for number, row in enumerate(its)
    ]
    if how in ("script", "trace"):
        module = (scripted if how == "script" else traced)(eager, calls)
    else:
        module, how = how, "script"
    calls = completed(module, calls)
    for call in calls:
        wanted = len(module._c._get_method(call.method).schema.arguments) - 1
        if len(call.args) != wanted:
            why = f"{call.name} has {len(call.args)} arguments, and the method takes {wanted}"
            raise Refused("example inputs", why)
    make, notes = partial(_eager, eager), list[str]()
    if how == "script":
        module, notes = as_in_python(module, calls, make, comparison)
    torch.jit.save(module, file)

    def build() -> Any:
        built = torch.jit.load(file)
        without_contexts(built)
        without_objects(built, list(rows))
        without_pairs(built, list(rows))
        return without_named_tuples(built, built._c._method_names())

    double = partial(_in_double, eager)
    return _Compiled(how, calls, build, make, double, notes=notes)


def _rows(eager: torch.nn.Module, inputs: Inputs) -> dict[str, list[Example]]:
    methods = inputs if isinstance(inputs, Mapping) else {"forward": inputs}
    found: dict[str, list[Example]] = {}
    for method, rows in methods.items():
        if not isinstance(rows, list | tuple) or not all(
            isinstance(row, tuple | Mapping) for row in rows
        ):
            raise Refused("example inputs", f"the calls of {method} are no list of tuples")
        if not callable(getattr(eager, method, None)):
            raise Refused("example inputs", f"the module has no method {method}")
        found[method] = [
            Example((), row) if isinstance(row, Mapping) else Example(row, {}) for row in rows
        ]
    if not any(found.values()):
        raise Refused("example inputs", "there is no call")
    return {method: rows for method, rows in found.items() if rows}


def _positional(function: Any, row: Example) -> tuple[Any, ...]:
    """A call's arguments by position: TorchScript has those alone."""
    if not row.kwargs:
        return row.args
    names = argument_names(function, Example(row.args, {}))
    try:
        bound = inspect.signature(function).bind(*row.args, **row.kwargs)
    except TypeError as error:
        raise Refused("example inputs", str(error)) from error
    # those between the ones that are given
    bound.apply_defaults()
    if bound.kwargs:
        raise Refused("script", f"{', '.join(bound.kwargs)}: keyword arguments alone")
    assert len(bound.args) >= len(names)
    return bound.args


def _bundled(module: Any, calls: Sequence[Call]) -> Any:
    methods: dict[Any, list[tuple[Any, ...]]] = {}
    none = [call.method for call in calls if not call.args]
    if none:
        module = _giving_nothing(module, none)
    for call in calls:
        if not call.args:
            continue
        # Bundling refuses real inputs for their size; this format says "as it is".
        row = tuple(
            InflatableArg(arg, "{}") if isinstance(arg, torch.Tensor) else arg for arg in call.args
        )
        methods.setdefault(call.method, []).append(row)
    rows: dict[Any, Any] = {getattr(module, name): rows for name, rows in methods.items()}
    return bundle_inputs(module, {**rows, **{_Method(name, _ONE_NUMBER): None for name in none}})


@dataclass(frozen=True)
class _Method:
    """A method without arguments, as `bundle_inputs` looks at one.

    The parser of types in a file knows no empty tuple: this one takes a number, of which no call
    is made.
    """

    name: str
    schema: Any


_ONE_NUMBER = torch._C.parse_schema("method(Any self, int none) -> ()")


def _giving_nothing(module: Any, methods: Sequence[str]) -> Any:
    """A module, as `bundle_inputs` copies it, with inputs of these methods: lists of nothing."""
    made = wrap_cpp_module(torch._C._hack_do_not_use_clone_module_with_class(module._c, [], []))
    for name in dict.fromkeys(methods):
        empty = ", ".join(["torch.jit.annotate(List[int], [])"] * methods.count(name))
        made.define(f"def _generate_bundled_inputs_for_{name}(self):\n    return [{empty}]\n")
    return made


def _eager(module: torch.nn.Module) -> Invoke:
    """Calls methods of a copy, with a state of its own where it can be copied."""
    its = copied_module(module)
    return lambda method, *args: getattr(its, method)(*args)


def _in_double(module: torch.nn.Module) -> Invoke:
    """Raises what torch does where it cannot be copied."""
    its = copy.deepcopy(module).double()
    return lambda method, *args: getattr(its, method)(*args)
