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
import copy
import io
import linecache
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch.jit._recursive import wrap_cpp_module
from torch.utils.bundled_inputs import InflatableArg, bundle_inputs

from orchestrator.export.archive import reproducible
from orchestrator.export.calls import Call, Invoke
from orchestrator.export.comparing import Comparing, completed, made_of
from orchestrator.export.freezing import frozen, inlined, unmark
from orchestrator.export.refusal import Refused
from orchestrator.export.static import Applied, Attempt, convert, settled
from orchestrator.export.tolerances import TOLERANCES
from orchestrator.export.values import changed

Inputs = Sequence[tuple[Any, ...]] | Mapping[str, Sequence[tuple[Any, ...]]]
# Where TorchScript's compiler stops (torch/csrc/jit/frontend/source_range.cpp).
_PLACE = re.compile(r'File "(.+)", line (\d+)')
_TORCH = str(Path(torch.__file__).parent)


@dataclass(frozen=True)
class Export:
    """A model to export.

    eager      the module; it is put into eval mode
    inputs     calls to bundle, each the arguments of one: of `forward`, or by method
    compiled   how: `script` keeps control flow; `trace` is for modules in which no way depends on
               a value; or the module that was compiled already
    canonical  `static`: in fewer operators, as `orchestrate canonical` does it; `off`
    sizes      `any`: what the module takes of other batches and sizes is compared too; `fixed`:
               the model is for these sizes alone
    """

    eager: torch.nn.Module
    inputs: Inputs
    compiled: Literal["script", "trace"] | torch.jit.ScriptModule = "script"
    canonical: Literal["static", "off"] = "static"
    sizes: Literal["any", "fixed"] = "any"


@dataclass(frozen=True)
class Exported:
    """A `.ptl`, what was rewritten in it, and what each call gave: see `worker.py`."""

    data: bytes
    folded: bool
    rewrites: list[dict[str, Any]]
    comparison: list[dict[str, Any]]

    @property
    def largest(self) -> float:
        """The largest difference of all."""
        return max((row.get("largest", 0.0) for row in self.comparison), default=0.0)


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
    eager = model.eager.eval()
    given = _calls(model.inputs)
    stage("compiling the module")
    compiled = _compiled(eager, model.compiled, given)
    calls = completed(compiled, given)
    comparing = Comparing(compiled, calls, tolerances, model.sizes == "any")

    def checked(module: Any, applied: Applied) -> Attempt:
        saved = _bundled(module, calls)._save_to_buffer_for_lite_interpreter()
        data = saved if with_code else reproducible(saved, name)
        stage("comparing")
        made = made_of(data, module, calls)
        right, exact = partial(_eager, eager), partial(_in_double, eager)
        return Attempt(data, applied, *comparing(right, made, in_double=exact))

    with torch.random.fork_rng(devices=[]):
        if with_code or model.canonical == "off":
            made, folded = checked(compiled, Applied()), False
            if made.wrong is not None:
                raise Refused("differs", made.wrong["difference"], **made.wrong, rewrites=[])
        else:
            buffer = io.BytesIO()
            torch.jit.save(compiled, buffer)

            def attempt(without: frozenset[str], fold: bool) -> Attempt:
                stage("converting")
                applied, again = Applied(), torch.jit.load(io.BytesIO(buffer.getvalue()))
                return checked(convert(again, pytorch, without, fold, applied), applied)

            made, folded = settled(attempt, without)
    return Exported(made.made, folded, made.applied.rows(), made.rows)


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


def _calls(inputs: Inputs) -> list[Call]:
    methods = inputs if isinstance(inputs, Mapping) else {"forward": inputs}
    calls = []
    for method, rows in methods.items():
        if not isinstance(rows, list | tuple) or not all(isinstance(row, tuple) for row in rows):
            raise Refused("example inputs", f"the calls of {method} are no list of tuples")
        calls += [Call(method, number, "own", row) for number, row in enumerate(rows)]
    if not calls:
        raise Refused("example inputs", "there is no call")
    return calls


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
    try:
        its = copy.deepcopy(module)
    except Exception:
        its = module
    return lambda method, *args: getattr(its, method)(*args)


def _in_double(module: torch.nn.Module) -> Invoke:
    """Raises what torch does where it cannot be copied."""
    its = copy.deepcopy(module).double()
    return lambda method, *args: getattr(its, method)(*args)


# --- compiling ---


def _compiled(eager: torch.nn.Module, how: Any, calls: Sequence[Call]) -> Any:
    """Raises Refused, with the line of the source that cannot be compiled."""
    if how == "trace":
        return _traced(eager, calls)
    if how != "script":
        return how
    try:
        made = torch.jit.script(eager)
    except Exception as error:
        raise Refused("script", _reason(str(error)), **_where(str(error))) from error
    missing = [call.method for call in calls if not hasattr(made, call.method)]
    if missing:
        why = f"{missing[0]} is not compiled: decorate it with @torch.jit.export"
        raise Refused("script", why)
    return made


def _traced(eager: torch.nn.Module, calls: Sequence[Call]) -> Any:
    """Raises Refused where the module's own source makes the way depend on a value."""
    first = {call.method: call.args for call in reversed(calls)}
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", torch.jit.TracerWarning)
        args = {method: changed(row, torch.Tensor.clone) for method, row in first.items()}
        try:
            made = torch.jit.trace_module(eager, args, check_trace=False)
        except Exception as error:
            raise Refused("script", _reason(str(error)), **_where(str(error))) from error
    for one in caught:
        if issubclass(one.category, torch.jit.TracerWarning) and not _is_torchs(one.filename):
            line = linecache.getline(one.filename, one.lineno).strip()
            raise Refused("control flow", line, file=one.filename, line=one.lineno)
    return made


def _is_torchs(file: str) -> bool:
    return file.startswith(_TORCH)


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines()]
    return (lines or [""])[0].rstrip(":")


def _where(text: str) -> dict[str, Any]:
    """File, line and code of the innermost source that is not torch's, else of the first."""
    places = [(match[1], int(match[2])) for match in _PLACE.finditer(text)]
    chosen = next(_own(places), None) or next(iter(places), None)
    if chosen is None:
        return {}
    return {
        "file": chosen[0],
        "line": chosen[1],
        "code": linecache.getline(*chosen).strip(),
    }


def _own(places: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    return (place for place in places if not _is_torchs(place[0]))
