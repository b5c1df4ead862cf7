"""Runs random modules in torch's Python: eager, by torch's lite interpreter, in delivered libraries
and as `export model` writes them, and compares all with eager.

    python -P module_worker.py <folder of the repository> <engine>...

An engine is the package of a delivered wheel with its threads (`auto_libtorch:4`), or `script` or
`export`: what `export model` makes of the module, by torch's lite interpreter. A line of standard
input is a module (`random_modules.Drawn`, in JSON); one of standard output is what was found.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
import linecache
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import torch
from torch import nn
from torch.nn import functional

# what float32 can tell, of the largest number
_PRECISION = {"float32": 2e-5, "float64": 2e-5, "float16": 5e-3}
_NOISE = 1e-6
_TRIES = 4


class Rounded:
    """Weights that are sums of few powers of two, so that sums of products are exact."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, shape: Sequence[int]) -> torch.Tensor:
        return torch.randint(-8, 9, tuple(shape), generator=self.generator) / 8


def module_of(drawn: Mapping[str, Any], number: int) -> nn.Module:
    """An instance of the module's class, with weights of its seed."""
    file, source = f"<random {number}>", drawn["source"]
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    weights = Rounded(drawn["seed"])
    names = {"torch": torch, "nn": nn, "F": functional, "Tensor": torch.Tensor, "List": list}
    space = types.ModuleType(f"random_{number}")
    sys.modules[space.__name__] = space
    space.__dict__.update(names, weights=weights, Dict=dict, Tuple=tuple, Optional=Optional)
    exec(compile(source, file, "exec"), space.__dict__)
    torch.manual_seed(drawn["seed"])
    module: nn.Module = space.__dict__["Random"]().eval()
    for one in module.parameters():
        one.requires_grad_(False)
        one.copy_(weights(one.shape))
    for name, buffer in module.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.copy_(weights(buffer.shape).abs() + 0.5)
    return module


def memory_of(given: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of an input, and the memory that they are a view of."""
    shape, layout = tuple(given["shape"]), given["layout"]
    dtype, random = np.dtype(given["dtype"]), np.random.default_rng(given["seed"])

    def numbers(sizes: tuple[int, ...]) -> np.ndarray:
        if dtype.kind == "f":
            made = np.array(random.integers(-16, 17, sizes) / 8, dtype)
            if given["special"] and made.size:
                made.flat[random.integers(made.size)] = random.choice((np.nan, np.inf, -np.inf))
            return made
        return np.array(random.integers(0, 2 if dtype.kind == "b" else 7, sizes), dtype)

    if layout == "sliced" and shape:
        whole = numbers((*shape[:-1], shape[-1] * 2 + 1))
        return whole[..., : shape[-1] * 2 : 2], whole
    if layout == "transposed" and len(shape) >= 2:
        order = (0, *range(2, len(shape)), 1) if len(shape) > 2 else (1, 0)
        whole = numbers(tuple(shape[at] for at in order))
        return whole.transpose(np.argsort(order)), whole
    if layout == "expanded" and shape:
        whole = numbers((1, *shape[1:]))
        strides = (0, *whole.strides[1:])
        return np.lib.stride_tricks.as_strided(whole, shape, strides, writeable=True), whole
    if layout == "offset" and shape:
        whole = numbers((shape[0] + 1, *shape[1:]))
        return whole[1:], whole
    whole = numbers(shape)
    return whole, whole


def arguments_of(
    call: Mapping[str, Any], results: Sequence[Any] = ()
) -> tuple[list[Any], list[np.ndarray]]:
    """Arguments of a call, as arrays and numbers, and the memory behind those that are new.

    results: of the calls before it
    """
    made: list[Any] = []
    memory: list[np.ndarray] = []
    for given in call["given"]:
        if isinstance(given, int):
            made.append(given)
        elif given["same"] is not None:
            made.append(made[given["same"]])
        elif (found := _earlier(given, results)) is not None:
            made.append(found)
        else:
            view, whole = memory_of(given)
            made.append(view)
            memory.append(whole)
    return made, memory


def _earlier(given: Mapping[str, Any], results: Sequence[Any]) -> np.ndarray | None:
    wanted = given["dtype"], tuple(given["shape"])
    if given["earlier"] is None or given["earlier"] >= len(results):
        return None
    for part in flat(results[given["earlier"]]):
        if isinstance(part, np.ndarray) and (str(part.dtype), part.shape) == wanted:
            return part if part.flags.writeable else None
    return None


def plain(value: Any) -> Any:
    """A result with arrays for tensors, which share their memory."""
    if isinstance(value, torch.Tensor):
        return value.detach().resolve_conj().resolve_neg().numpy()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


class Raised:
    """A call that ended in an error."""

    def __init__(self, error: BaseException) -> None:
        self.text = f"{type(error).__name__}: {error}"


Run = Callable[[str, list[Any]], Any]


def by_torch(module: Any) -> Run:
    def run(method: str, arguments: list[Any]) -> Any:
        made = dict[int, torch.Tensor]()
        given = [
            made.setdefault(id(one), torch.from_numpy(one)) if isinstance(one, np.ndarray) else one
            for one in arguments
        ]
        return plain(getattr(module, method)(*given))

    return run


def by_lite(data: bytes) -> Run:
    module = torch.jit.mobile._load_for_lite_interpreter(__import__("io").BytesIO(data))

    def run(method: str, arguments: list[Any]) -> Any:
        made = dict[int, torch.Tensor]()
        given = [
            made.setdefault(id(one), torch.from_numpy(one)) if isinstance(one, np.ndarray) else one
            for one in arguments
        ]
        return plain(module.run_method(method, *given))

    return run


def by_library(package: str, threads: int, data: bytes) -> Run:
    library = importlib.import_module(package)
    library.set_threads(threads)
    model = library.Model.from_bytes(data)

    def run(method: str, arguments: list[Any]) -> Any:
        return plain(model.methods[method](*arguments))

    return run


def sequence(
    run: Run, calls: Sequence[Mapping[str, Any]], noise: np.random.Generator | None
) -> list[Any]:
    """What the calls give, what they leave of their inputs, and what the results are in the end."""
    found: list[Any] = []
    held: list[Any] = []
    for call in calls:
        arguments, memory = arguments_of(call, held)
        if noise is not None:
            for whole in memory:
                if whole.dtype.kind == "f":
                    whole *= (1 + _NOISE * noise.standard_normal(whole.shape)).astype(whole.dtype)
        try:
            result = run(call["method"], arguments)
        except (Exception, SystemExit) as error:
            if "MissingOperator" in type(error).__name__ or "MissingDtype" in type(error).__name__:
                raise
            found.append(Raised(error))
            break
        held.append(result)
        found.append(copy.deepcopy((result, memory)))
    return [*found, copy.deepcopy(held)] if not (found and isinstance(found[-1], Raised)) else found


def _told(value: Any) -> str:
    return value.text[:500] if isinstance(value, Raised) else repr(value)[:80]


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [dict, *(part for key, one in value.items() for part in (key, *flat(one)))]
    if isinstance(value, (list, tuple)):
        return [len(value), *(part for one in value for part in flat(one))]
    return [value]


def difference(seen: Any, wanted: Any, allowed: Callable[[int, np.ndarray], Any]) -> str | None:
    """The first thing that is not the same. allowed: of the part of this number, how far apart."""
    left, right = flat(seen), flat(wanted)
    if len(left) != len(right):
        return f"{len(left)} parts, not {len(right)}"
    for number, (one, other) in enumerate(zip(left, right, strict=True)):
        if isinstance(one, Raised) or isinstance(other, Raised):
            if type(one) is not type(other):
                return f"part {number}: {_told(one)}, not {_told(other)}"
            continue
        if not isinstance(other, np.ndarray):
            near = (
                isinstance(one, float)
                and isinstance(other, float)
                and (
                    one == other
                    or abs(one - other) <= 1e-4 * max(abs(other), 1)
                    or (one != one and other != other)
                )
            )
            if not near and (type(one) is not type(other) or one != other):
                return f"part {number}: {one!r}, not {other!r}"
            continue
        if not isinstance(one, np.ndarray) or (one.dtype, one.shape) != (other.dtype, other.shape):
            told = f"{one.dtype}{one.shape}" if isinstance(one, np.ndarray) else repr(one)[:80]
            return f"part {number}: {told}, not {other.dtype}{other.shape}"
        if other.dtype.kind != "f":
            if not np.array_equal(one, other):
                return f"part {number}: {one.ravel()[:20]}, not {other.ravel()[:20]}"
            continue
        a, b = one.astype(np.float64), other.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(all="ignore"):
            near = same | (np.abs(a - b) <= allowed(number, other))
        if not near.all():
            at = np.argmax(~near.ravel())
            left_one, right_one = a.ravel()[at], b.ravel()[at]
            return (
                f"part {number}, element {at} of {other.shape}: {left_one}, not {right_one}"
                f"\n  seen {a.ravel()[:12]}\n  wanted {b.ravel()[:12]}"
            )
    return None


def scale_of(array: np.ndarray) -> float:
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    return float(finite.max()) if finite.size else 0.0


def precision(_number: int, array: np.ndarray) -> float:
    return _PRECISION[str(array.dtype)] * max(scale_of(array), 1e-2)


class Unstable:
    """How far a module's results go apart by noise in its inputs and weights."""

    def __init__(self, drawn: Mapping[str, Any], number: int, wanted: list[Any]) -> None:
        self.spread: dict[int, float] = {}
        self.is_wild = False
        base = flat(wanted)
        for one in range(_TRIES):
            noise = np.random.default_rng(one)
            module = module_of(drawn, number)
            for tensor in (*module.parameters(), *module.buffers()):
                if tensor.is_floating_point() and "float" in str(tensor.dtype):
                    tensor.mul_(
                        1
                        + _NOISE
                        * torch.from_numpy(
                            np.array(noise.standard_normal(tuple(tensor.shape)), np.float32)
                        ).to(tensor.dtype)
                    )
            parts = flat(sequence(by_torch(module), drawn["calls"], noise))
            if len(parts) != len(base):
                self.is_wild = True
                return
            for at, (left, right) in enumerate(zip(parts, base, strict=True)):
                if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
                    if left.shape != right.shape:
                        self.is_wild = True
                    elif right.dtype.kind == "f":
                        with np.errstate(all="ignore"):
                            apart = np.abs(left.astype(np.float64) - right)
                        if not np.array_equal(np.isfinite(left), np.isfinite(right)):
                            self.is_wild = True
                        apart = apart[np.isfinite(apart)]
                        self.spread[at] = max(
                            self.spread.get(at, 0.0), float(apart.max()) if apart.size else 0.0
                        )
                    elif not np.array_equal(left, right):
                        self.is_wild = True
                elif isinstance(left, Raised) != isinstance(right, Raised) or (
                    not isinstance(left, (Raised, float)) and left != right
                ):
                    self.is_wild = True

    def allowed(self, number: int, array: np.ndarray) -> float:
        return precision(number, array) + 50 * self.spread.get(number, 0.0)


class Worker:
    def __init__(self, engines: Sequence[str]) -> None:
        self.engines = engines
        self.number = 0

    def tried(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """{"state", "wrong", "notes": [[engine, text], ...], "raised": bool}.

        state: `ran`, or why it says nothing of the engines: `grammar` (no module of Python),
        `script` (none of TorchScript), `torch` (torch's own lite interpreter differs)
        """
        self.number += 1
        try:
            eager = module_of(drawn, self.number)
            wanted = sequence(by_torch(eager), drawn["calls"], None)
        except Exception:
            return {"state": "grammar", "told": traceback.format_exc()[-1500:]}
        raised = isinstance(wanted[-1], Raised)
        told = wanted[-1].text[:200] if raised else ""
        try:
            data = torch.jit.script(
                module_of(drawn, self.number)
            )._save_to_buffer_for_lite_interpreter()
        except Exception as error:
            return {"state": "script", "told": str(error)[-1500:]}
        wrong: list[list[str]] = []
        notes: list[list[str]] = []
        lite = sequence(by_lite(data), drawn["calls"], None)
        differs = self._differs(drawn, lite, wanted)
        if differs:
            return {"state": "torch", "told": differs}
        for engine in self.engines:
            print(f"{engine}", file=sys.stderr, flush=True)
            try:
                run = self._run(engine, drawn, data)
                if isinstance(run, str):
                    notes.append([engine, run])
                    continue
                seen = sequence(run, drawn["calls"], None)
            except Exception as error:
                if "not selected into" in str(error):
                    notes.append([engine, str(error)[:500]])
                    continue
                wrong.append([engine, f"{type(error).__name__}: {error}"[:2000]])
                continue
            differs = self._differs(drawn, seen, wanted)
            if differs:
                wrong.append([engine, differs])
        return {"state": "ran", "raised": raised, "told": told, "wrong": wrong, "notes": notes}

    def _differs(self, drawn: Mapping[str, Any], seen: list[Any], wanted: list[Any]) -> str | None:
        differs = difference(seen, wanted, precision)
        if differs:
            spread = Unstable(drawn, self.number, wanted)
            if spread.is_wild:
                return None
            differs = difference(seen, wanted, spread.allowed)
        return differs

    def _run(self, engine: str, drawn: Mapping[str, Any], data: bytes) -> Run | str:
        if engine not in ("script", "export"):
            package, _, threads = engine.partition(":")
            return by_library(package, int(threads or 1), data)
        from orchestrator.export.refusal import Refused
        from orchestrator.export.saving import Export, export

        inputs: dict[str, list[tuple[Any, ...]]] = {}
        for call in drawn["calls"]:
            given, _ = arguments_of(call)
            row = tuple(
                torch.from_numpy(one) if isinstance(one, np.ndarray) else one for one in given
            )
            inputs.setdefault(call["method"], []).append(row)
        model = Export(module_of(drawn, self.number), inputs, compiled=engine, bundled=False)
        try:
            made = export("random", model, pytorch="2.6.0")
        except Refused as error:
            return f"{error.kind}: {error}"[:1500]
        return by_lite(made.data)


def main(arguments: Sequence[str]) -> None:
    root, engines = arguments[0], arguments[1:]
    place = f"{root}/orchestrator"
    spec = importlib.util.spec_from_file_location(
        "orchestrator", f"{place}/__init__.py", submodule_search_locations=[place]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["orchestrator"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["orchestrator"])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.jit.mobile = importlib.import_module("torch.jit.mobile")
    worker = Worker(engines)
    answers = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        print(json.dumps(worker.tried(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
