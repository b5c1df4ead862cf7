"""Modules with a state, and with what a call makes fresh: exported, and frozen as torch does it.

Prints a line of JSON of each: whether the export computes the same in all orders of calls, and
whether what torch freezes does. Run by `tests/integration/test_export_state.py`.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.jit.mobile import _load_for_lite_interpreter

from orchestrator.export.calls import Call
from orchestrator.export.comparing import Comparing, completed, made_of
from orchestrator.export.refusal import Refused
from orchestrator.export.saving import Export, export, prepare
from orchestrator.export.tolerances import TOLERANCES
from orchestrator.export.values import shapes


class Sums(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.h = torch.zeros(1, 4)

    @torch.jit.export
    def reset(self) -> None:
        self.h = torch.zeros(1, 4)

    def forward(self, x: Tensor) -> Tensor:
        self.h.add_(x)
        return self.h.clone()


class Ring(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.zeros(1, 8)

    @torch.jit.export
    def reset(self, size: int = 8) -> None:
        self.kept = torch.zeros(1, size)

    def forward(self, x: Tensor) -> Tensor:
        n = x.size(1)
        self.kept[:, :-n] = self.kept[:, n:].clone()
        self.kept[:, -n:] = x
        return self.kept.clone()


class Gives(nn.Module):
    """A state that the caller holds, and may write to."""

    @torch.jit.export
    def init_state(self) -> tuple[Tensor, Tensor]:
        return torch.zeros(1, 4), torch.ones(4).view(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class Constants(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, torch.arange(4) * 2


class Twice(nn.Module):
    """Two names of one fresh tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.a = torch.zeros(4)
        self.b = torch.zeros(2, 2)

    @torch.jit.export
    def reset(self) -> None:
        fresh = torch.zeros(4) + 1
        self.a = fresh
        self.b = fresh.view(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.a.add_(x)
        return self.b.sum() + self.a


class InList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.states = [torch.zeros(1, 4), torch.zeros(1, 4)]

    @torch.jit.export
    def reset(self) -> None:
        self.states = [torch.zeros(1, 4), torch.zeros(1, 4)]

    @torch.jit.export
    def reset_one(self) -> None:
        self.states[0] = torch.zeros(1, 4)

    def forward(self, x: Tensor) -> Tensor:
        for state in self.states:
            state.add_(x)
        return self.states[0] + 2 * self.states[1]


class Lazy(nn.Module):
    """A state that the first call makes, in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.h = torch.zeros(1)

    def forward(self, x: Tensor) -> Tensor:
        if self.count % 3 == 0:
            self.h = torch.full([1, 4], 2.0)
        self.count += 1
        self.h.mul_(2).add_(x)
        return self.h.clone()


class Shifts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.zeros(1, 8)

    @torch.jit.export
    def reset(self) -> None:
        self.kept = torch.zeros(1, 8)

    def forward(self, x: Tensor) -> Tensor:
        self.kept[:, :-2] = self.kept[:, 2:].clone()
        self.kept[:, -2:].add_(x)
        return self.kept.clone()


class Optionals(nn.Module):
    """Arguments that may be left out, and lists that may be empty."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    @torch.jit.export
    def reset(self) -> None:
        self.calls = 0

    def forward(self, x: Tensor, caches: list[Tensor] | None = None, n: int = 2) -> Tensor:
        self.calls += 1
        if caches is not None:
            for one in caches:
                x = x + one
            x = x * 3
        return x * n + self.calls


class Quiet(nn.Module):
    """Enters what changes no result, in a part and in a method that no example calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    @torch.jit.export
    def scored(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.layer(x) * 2

    def forward(self, x: Tensor) -> Tensor:
        if x.size(0) > 1:
            with torch.autograd.profiler.record_function("layer"), torch.no_grad():
                x = self.layer(x)
        return x


class Unpools(nn.Module):
    """No state, but an operator that has no deterministic algorithm."""

    def forward(self, x: Tensor) -> Tensor:
        values, places = nn.functional.max_pool2d_with_indices(x, [2, 2])
        return nn.functional.max_unpool2d(values, places, [2, 2])


class Parts(nn.Module):
    """No state, but tuples that are lists in TorchScript, and one whose parts have names."""

    def forward(self, x: Tensor) -> tuple[list[Tensor], list[int], tuple[Tensor, Tensor]]:
        return torch.chunk(x, 2), x.size(), torch.max(x, 0)


class Features(nn.Module):
    """Weights that are folded for each of two methods; two equal tensors that are given away."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(2, 64, 3)
        self.norm = nn.BatchNorm2d(64)
        self.register_buffer("a", torch.ones(500))
        self.register_buffer("b", torch.ones(500))

    @torch.jit.export
    def features(self, x: Tensor) -> Tensor:
        return self.norm(self.layer(x))

    @torch.jit.export
    def given_a(self) -> Tensor:
        return self.a

    @torch.jit.export
    def given_b(self) -> Tensor:
        return self.b

    def forward(self, x: Tensor) -> Tensor:
        return self.features(x).sum(1)


def sizes_of_records(made: nn.Module, example: tuple[Any, ...]) -> list[int]:
    """Bytes of the file's larger records of tensors."""
    data = export("m", Export(made, [example])).data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sizes = {one.filename: one.file_size for one in archive.infolist()}
    return sorted(n for name, n in sizes.items() if ".pkl" not in name and n > 1000)


def frozen_by_torch(made: nn.Module, example: tuple[Any, ...]) -> bool:
    """Whether the comparison takes what torch.jit.freeze makes of a module."""
    script = torch.jit.script(made.eval())
    methods = [name for name in script._c._method_names() if name != "forward"]
    calls = completed(script, [Call("forward", 0, "own", example)])
    right, other = (
        made_of(module._save_to_buffer_for_lite_interpreter(), module, calls)
        for module in (script, torch.jit.freeze(script, preserved_attrs=methods))
    )
    return Comparing.of(script, calls, TOLERANCES)(right, other)[1] is None


def results() -> Iterator[dict[str, Any]]:
    x = torch.ones(1, 4)
    for made, example in (
        (Sums(), (x,)),
        (Ring(), (torch.rand(1, 2),)),
        (Gives(), (x,)),
        (Constants(), (x,)),
        (Twice(), (torch.ones(4),)),
        (InList(), (x,)),
        (Lazy(), (x,)),
        (Shifts(), (torch.rand(1, 2),)),
        (Unpools(), (torch.rand(1, 1, 4, 4),)),
        (Parts(), (torch.rand(4, 2),)),
    ):
        told = {"module": type(made).__name__, "torchs": frozen_by_torch(made, example)}
        try:
            export("m", Export(made, [example]), pytorch="1.13.1")
            yield told | {"same": True}
        except Refused as error:
            yield told | {"same": False, "why": f"{error.facts.get('call')}: {error}"}


def quiet() -> Iterator[dict[str, Any]]:
    """Whether a file has both methods, and they give what the module does."""
    x = torch.rand(2, 4)
    for canonical in ("off", "static"):
        module = Quiet()
        made = export("m", Export(module, [(x,)], canonical=canonical))
        file = _load_for_lite_interpreter(io.BytesIO(made.data))
        same = [
            torch.allclose(file.run_method(name, x), getattr(module, name)(x))
            for name in ("forward", "scored")
        ]
        yield {"quiet": same}


def calls_of_optionals() -> Iterator[dict[str, Any]]:
    """Of each kind of calls, what the file bundles: method -> arguments of each."""
    x = torch.ones(2)
    for canonical in ("off", "static"):
        for inputs in (
            {"reset": [()]},
            {"reset": [(), ()], "forward": [(x,), (x, [x])]},
            {"forward": [(x, None, 3), (x, [])], "reset": [()]},
        ):
            made = export("m", Export(Optionals(), inputs, canonical=canonical))
            file = _load_for_lite_interpreter(io.BytesIO(made.data))
            bundled = {
                name: [
                    shapes(args) for args in file.run_method(f"get_all_bundled_inputs_for_{name}")
                ]
                for name in file.run_method("get_bundled_inputs_functions_and_info")
            }
            yield {"bundled": bundled, "compared": made.comparison[-1]["call"]}


if __name__ == "__main__":
    prepare()
    print(json.dumps({"records": sizes_of_records(Features(), (torch.rand(1, 2, 4, 4),))}))
    for one in (*results(), *quiet(), *calls_of_optionals()):
        print(json.dumps(one))
