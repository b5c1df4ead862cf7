"""Calls of a model: those that it comes with, further ones made of them, and how two models that
are called alike compare."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch.jit.mobile import _load_for_lite_interpreter

from orchestrator.export.packing import exact_engine
from orchestrator.export.places import place_of_error
from orchestrator.export.refusal import Refused
from orchestrator.export.tolerances import LUCK, NO_ROUNDING, TELLING
from orchestrator.export.values import DTYPE_NAMES, changed, copied, from_json, shapes, tensors_of

_GETTER = "get_all_bundled_inputs_for_"
# Calls of a method that further inputs are made of, and how many random ones of each.
_VARIED = 4
_RANDOM = 3
# How long models are timed, in seconds, and how often at least and at most.
_TIMED_SECONDS = 0.2
_ROUNDS = (3, 200)
_FLOATS = ("float16", "bfloat16", "float32", "float64")
# What calls a method of a model, and what makes one that has a state of its own.
Invoke = Callable[..., Any]
Make = Callable[[], Invoke]


@dataclass(frozen=True)
class Call:
    """A call of a method; `kind` says where its inputs come from."""

    method: str
    index: int
    kind: str
    args: tuple[Any, ...]

    @property
    def name(self) -> str:
        more = "" if self.kind == "own" else f", {self.kind}"
        return f"{self.method}[{self.index}]{more}"


def own_calls(module: Any, declared: list[dict[str, Any]] | None) -> list[Call]:
    """The declared calls, or those that are bundled in a TorchScript module."""
    if declared is not None:
        return [
            Call(one["method"], number, "own", tuple(map(from_json, one["args"])))
            for number, one in enumerate(declared)
        ]
    names = module._c._method_names()
    getters = [(name.removeprefix(_GETTER), name) for name in names if name.startswith(_GETTER)]
    if not getters and "get_all_bundled_inputs" in names:
        getters = [("forward", "get_all_bundled_inputs")]
    return [
        Call(method, number, "own", tuple(args))
        for method, getter in getters
        for number, args in enumerate(getattr(module, getter)())
    ]


def _along(dim: int, longer: bool, size: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Other sizes of tensors that have `size` there."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() <= (dim if dim >= 0 else -dim - 1) or tensor.shape[dim] != size:
            return tensor
        step = max(1, size // 4)
        if longer:
            return torch.cat([tensor, tensor.narrow(dim, 0, min(step, size))], dim)
        return tensor.narrow(dim, 0, size - step).contiguous() if size > 1 else tensor

    return change


def _random(generator: torch.Generator, wide: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    """Other values, in the range of those that are there, or of any size."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_quantized or not tensor.numel() or tensor.is_complex():
            return tensor
        if tensor.dtype == torch.bool:
            return torch.rand(tensor.shape, generator=generator) < 0.5
        if tensor.is_floating_point():
            if wide:
                made = torch.randn(tensor.shape, generator=generator)
                return (made * tensor.float().std(correction=0).nan_to_num(1.0)).to(tensor.dtype)
            made = torch.rand(tensor.shape, generator=generator)
            least, most = tensor.float().min(), tensor.float().max()
            return (made * (most - least) + least).to(tensor.dtype)
        least, most = int(tensor.min()), int(tensor.max())
        made = torch.randint(least, most + 1, tensor.shape, generator=generator)
        return made.to(tensor.dtype)

    return change


def further(calls: Sequence[Call], sizes: bool = True) -> Iterator[Call]:
    """Calls with other batches, other sizes and other values; not `sizes`: with other values."""
    seen = dict[str, int]()
    for call in calls:
        seen[call.method] = seen.get(call.method, 0) + 1
        if seen[call.method] > _VARIED:
            continue
        tensors = [one for one in tensors_of(list(call.args)) if one.dim() and not one.is_quantized]
        if not tensors:
            continue

        def made(
            kind: str, change: Callable[[torch.Tensor], torch.Tensor], call: Call = call
        ) -> Call:
            args = tuple(changed(one, change) for one in call.args)
            return Call(call.method, call.index, kind, args)

        if sizes:
            yield from _resized(tensors, made)
        for number in range(_RANDOM):
            generator = torch.Generator().manual_seed(1000 * call.index + number)
            yield made(f"random {number}", _random(generator, number == 0))


def _resized(tensors: Sequence[torch.Tensor], made: Callable[..., Call]) -> Iterator[Call]:
    first, last = tensors[0].shape[0], tensors[0].shape[-1]
    yield made("larger batch", _along(0, True, first))
    if first > 1:
        yield made("smaller batch", _along(0, False, first))
    if any(one.dim() > 1 for one in tensors):
        yield made("longer", _along(-1, True, last))
        if last > 1:
            yield made("shorter", _along(-1, False, last))
    if tensors[0].dim() > 2:
        rows = tensors[0].shape[-2]
        yield made("more rows", _along(-2, True, rows))
        if rows > 1:
            yield made("fewer rows", _along(-2, False, rows))


@dataclass(frozen=True)
class Outcome:
    """Result of a call; its arguments afterwards count too. `error` is set if it raised, and
    `place` if that was in the module's own source."""

    value: Any = None
    error: str = ""
    place: Mapping[str, Any] = field(default_factory=dict)


def run(invoke: Invoke, call: Call, spoil: bool = False) -> Outcome:
    """Run a call; each run starts with the same random seed.

    spoil  True to write to the result afterwards, as a caller may
    """
    args = copied(call.args)
    torch.manual_seed(7)
    try:
        with torch.no_grad():
            value = invoke(call.method, *args)
    except Exception as error:
        return Outcome(error=str(error) or type(error).__name__, place=place_of_error(error))
    # a copy: the model may write to it at its next call
    outcome = Outcome(copied([value, list(args)]))
    if spoil:
        _spoil(value)
    return outcome


def _spoil(value: Any) -> None:
    for tensor in tensors_of(value):
        try:
            with torch.no_grad():
                tensor.logical_not_() if tensor.dtype == torch.bool else tensor.add_(1)
        except RuntimeError:
            # nobody can write to it: quantised, or several elements at one place
            continue


@dataclass
class Difference:
    """The largest difference, the worst place that is not tolerated, and the first one whose
    numbers are as small as the tolerance: path -> the difference, and as text."""

    largest: float = 0.0
    bad: str = ""
    small: dict[str, tuple[float, str]] = field(default_factory=dict)

    def note(self, path: str, what: str) -> None:
        self.bad = self.bad or f"{path}: {what}"

    def is_rounding(self, path: str, error: float) -> bool:
        """True if a small difference is like the rounding error of the module itself, which may
        have been small by luck."""
        return self.small[path][0] <= LUCK * error


class Comparison:
    """Two values, by the tolerances of their dtypes.

    An element may differ by the absolute tolerance and the relative one of the largest number in
    its tensor: in sums of positive and negative numbers an error is as large as they are.
    """

    def __init__(self, tolerances: Mapping[str, Sequence[float]]) -> None:
        self.tolerances = tolerances

    def widen(self, relative: float) -> None:
        """Tolerate this of floats, too: what rounding to int8 makes of them."""
        for name in _FLOATS if relative else ():
            its, absolute = self.tolerances.get(name, (0.0, 0.0))
            self.tolerances = {**self.tolerances, name: (its + relative, absolute)}

    def compare(self, expected: Any, seen: Any) -> Difference:
        found = Difference()
        self._value(expected[0], seen[0], "output", found)
        self._value(expected[1], seen[1], "arguments afterwards", found)
        return found

    def _value(self, left: Any, right: Any, path: str, found: Difference) -> None:
        # Where TorchScript has a list, Python's torch has a tuple, often of a class of its own:
        # sizes, the parts of torch.chunk. And torch.max gives a tuple with names.
        is_sequence = isinstance(left, tuple) and isinstance(right, list | tuple)
        if type(left) is not type(right) and not is_sequence:
            found.note(path, f"{type(left).__name__}, and now {type(right).__name__}")
        elif isinstance(left, torch.Tensor):
            self._tensor(left, right, path, found)
        elif isinstance(left, list | tuple):
            if len(left) != len(right):
                found.note(path, f"{len(left)} items, and now {len(right)}")
            for number, (one, other) in enumerate(zip(left, right, strict=False)):
                self._value(one, other, f"{path}[{number}]", found)
        elif isinstance(left, dict):
            if list(left) != list(right):
                found.note(path, "other keys")
            else:
                for key in left:
                    self._value(left[key], right[key], f"{path}[{key!r}]", found)
        elif isinstance(left, float):
            self._tensor(torch.tensor(left), torch.tensor(right), path, found)
        elif left != right:
            found.note(path, f"{left!r}, and now {right!r}")

    def _tensor(
        self, left: torch.Tensor, right: torch.Tensor, path: str, found: Difference
    ) -> None:
        if left.dtype != right.dtype or left.shape != right.shape:
            told = [
                f"{DTYPE_NAMES.get(one.dtype, one.dtype)}{list(one.shape)}" for one in (left, right)
            ]
            found.note(path, f"{told[0]}, and now {told[1]}")
            return
        name = DTYPE_NAMES.get(left.dtype, "")
        relative, absolute = self.tolerances.get(name, (0.0, 0.0))
        if left.is_quantized:
            told = [_steps(one) for one in (left, right)]
            if told[0] != told[1]:
                found.note(path, f"{told[0]}, and now {told[1]}")
            left, right = left.int_repr(), right.int_repr()
        if left.is_complex():
            left, right = torch.view_as_real(left), torch.view_as_real(right)
        one, other = left.double(), right.double()
        steady = (one == other) | (one.isnan() & other.isnan())
        if bool(steady.all()):
            return
        apart = (one - other).abs()
        finite = one[one.isfinite()]
        scale = float(finite.abs().max()) if finite.numel() else 0.0
        wrong = ~steady & ~(apart <= absolute + relative * scale)
        measured = apart[~steady & apart.isfinite()]
        if measured.numel():
            found.largest = max(found.largest, float(measured.max()))
        telling = min(absolute, TELLING * scale) if relative else absolute
        small = ~steady & ~(apart <= telling + relative * scale)
        if bool(wrong.any()):
            found.note(*_told(path, one, other, wrong))
        elif bool(small.any()) and scale < NO_ROUNDING * absolute:
            if scale:
                found.note(*_told(path, one, other, small))
        elif bool(small.any()):
            at, text = _told(path, one, other, small)
            found.small[path] = (float(apart[small].max()), f"{at}: {text}")


def _told(
    path: str, one: torch.Tensor, other: torch.Tensor, wrong: torch.Tensor
) -> tuple[str, str]:
    """The first place that is wrong, and how."""
    where = tuple(int(n) for n in wrong.nonzero()[0])
    index = f"[{', '.join(map(str, where))}]" if where else ""
    return f"{path}{index}", f"{float(one[where])!r}, and now {float(other[where])!r}"


def _steps(tensor: torch.Tensor) -> str:
    """Describe the quantisation of a tensor: scales and zero points."""
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return f"steps of {tensor.q_scale()!r} from {tensor.q_zero_point()}"
    scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return f"steps of {scales.tolist()} from {zeros.tolist()}"


def lite(model: bytes | Path) -> Invoke:
    """Calls methods of a `.ptl`, or of what such a file holds, in torch's own lite interpreter.

    Of a file, torch reads weights into the memory where they stay.
    """
    with exact_engine():
        source = str(model) if isinstance(model, Path) else io.BytesIO(model)
        invoke: Invoke = _load_for_lite_interpreter(source).run_method
    return invoke


def is_flat(value: Any) -> bool:
    """True if each floating-point tensor in a result has one value throughout, and some have
    several elements."""
    found = [one for one in tensors_of(value) if one.is_floating_point() and one.numel()]
    return any(one.numel() > 1 for one in found) and all(
        bool((one == one.flatten()[0]).all()) for one in found
    )


def compared(
    right: Make,
    made: Make,
    calls: Sequence[Call],
    comparison: Comparison,
    in_double: Make | None = None,
    refuses: Callable[[str], bool] = lambda error: False,
    remembers: bool = True,
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Compare each call of two models. Returns a row for each call, and the first wrong one.

    right      makes the original, each time with a state of its own
    made       makes the model that is compared with it
    in_double  makes the original in float64, which shows rounding errors
    refuses    True for an error that is a check of the made model: it does not take such sizes
    remembers  True if a call may leave state for the next one: one that fails may have done half of
               its work, so the models begin anew
    """
    models = (right(), right(), made())
    rows, wrong = [], None
    taken: list[Call] = []
    for call in calls:
        row: dict[str, Any] = {"call": call.name, "inputs": shapes(call.args)}
        seen = run(models[2], call)
        if seen.error and call.kind != "own" and refuses(seen.error):
            # the others are not called: they may keep something from call to call
            if run(right(), call).error:
                rows.append(row | {"result": "not taken"})
            else:
                rows.append(row | {"result": "refused", "why": _first_line(seen.error)})
            continue
        taken.append(call)
        expected, again = (run(model, call) for model in models[:2])
        if expected.error:
            # the model does not take these inputs; what happens then is nobody's business
            if call.kind == "own":
                raise Refused("original", expected.error, call=call.name, **expected.place)
            rows.append(row | {"result": "not taken"})
            if remembers:
                models, taken = (right(), right(), made()), []
            continue
        result = "flat" if call.kind == "own" and is_flat(expected.value[0]) else "same"
        if seen.error:
            bad, largest = f"it fails: {_first_line(seen.error)}", 0.0
        elif comparison.compare(expected.value, again.value).bad:
            rows.append(row | {"result": "differs by itself"})
            continue
        else:
            difference = comparison.compare(expected.value, seen.value)
            bad, largest = difference.bad, difference.largest
            if difference.small and not bad:
                exactly = _last_in_double(in_double, taken if remembers else [call])
                bad, untold = _small(difference, expected.value, exactly)
                result = "too small" if untold else result
        if bad and call.kind != "own" and _refused_by_own_kernels(right, call):
            rows.append(row | {"result": "not taken"})
            models, taken = (right(), right(), made()), []
            continue
        if bad and wrong is None:
            wrong = {"call": call.name, "inputs": row["inputs"], "difference": bad}
        rows.append(row | {"result": "wrong" if bad else result, "largest": largest})
    return rows, wrong


def _refused_by_own_kernels(right: Make, call: Call) -> bool:
    """True if oneDNN alone takes a call, as it reads beyond the features of a packed sequence."""
    with torch.backends.mkldnn.flags(enabled=False):
        return bool(run(right(), call).error)


def _first_line(error: str) -> str:
    return error.strip().splitlines()[0]


def _small(difference: Difference, expected: Any, exactly: Outcome) -> tuple[str, bool]:
    """Judge small numbers that differ. Returns a difference that is larger than rounding, as text;
    and True if that is unknown.

    exactly  the outcome of the call in float64
    """
    if exactly.error:
        return "", True
    errors = rounding(expected[0], exactly.value[0], "output")
    errors |= rounding(expected[1], exactly.value[1], "arguments afterwards")
    for path, (_, text) in difference.small.items():
        if path not in errors:
            return "", True
        if not difference.is_rounding(path, errors[path]):
            return text, False
    return "", False


def rounding(value: Any, exact: Any, path: str) -> dict[str, float]:
    """Path -> the largest error of its tensor."""
    if isinstance(value, torch.Tensor):
        if not isinstance(exact, torch.Tensor) or value.shape != exact.shape:
            return {}
        apart = (value.double() - exact.double()).abs()
        finite = apart[apart.isfinite()]
        return {path: float(finite.max()) if finite.numel() else 0.0}
    items: list[tuple[Any, Any, Any]] = []
    if isinstance(value, list | tuple) and isinstance(exact, list | tuple):
        items = [(n, a, b) for n, (a, b) in enumerate(zip(value, exact, strict=False))]
    elif isinstance(value, dict) and isinstance(exact, dict):
        items = [(repr(key), value[key], exact[key]) for key in value if key in exact]
    found: dict[str, float] = {}
    for key, one, other in items:
        found |= rounding(one, other, f"{path}[{key}]")
    return found


def _last_in_double(make: Make | None, calls: Sequence[Call]) -> Outcome:
    """Run the calls in float64, in order; return the outcome of the last one."""
    try:
        invoke = make() if make else None
    except Exception as error:
        return Outcome(error=str(error) or type(error).__name__)
    if invoke is None:
        return Outcome(error="there is no such model")
    return [run(invoke, _doubled(call)) for call in calls][-1]


def _doubled(call: Call) -> Call:
    def double(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.double() if tensor.dtype == torch.float32 else tensor

    return replace(call, args=tuple(changed(one, double) for one in call.args))


def least_times(models: Sequence[Invoke], calls: Sequence[Call]) -> list[float]:
    """Return for each model the sum of its calls' least CPU times, in microseconds; models take
    turns."""
    least = [[float("inf")] * len(calls) for _ in models]
    end, (fewest, most) = time.monotonic() + _TIMED_SECONDS, _ROUNDS
    for number in range(most):
        if number >= fewest and time.monotonic() > end:
            break
        for row, invoke in zip(least, models, strict=True):
            for index, call in enumerate(calls):
                args = copied(call.args)
                started = time.process_time_ns()
                with torch.no_grad():
                    invoke(call.method, *args)
                row[index] = min(row[index], (time.process_time_ns() - started) / 1000)
    return [round(sum(row), 1) for row in least]
