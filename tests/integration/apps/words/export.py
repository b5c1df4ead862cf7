"""Exports `words`: what other people's models have and the example apps do not.

Text, dictionaries, None and numbers as arguments and results; several methods; branches that no
bundled input takes; random numbers.

Run `PYTHONPATH=. python tests/integration/apps/words/export.py` with the optional dependency
group `export`.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.bundled_inputs import InflatableArg, bundle_inputs

from orchestrator.export.archive import reproducible
from orchestrator.export.saving import prepare


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.known = {"a": 1, "b": 2}

    def forward(
        self, text: list[str], scale: float | None, options: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        ids: list[int] = []
        for word in text:
            for part in word.lower().split("-"):
                ids.append(self.known.get(part, 0))
        if len(ids) == 0:
            raise ValueError("there are no words")
        out: dict[str, Tensor] = {"ids": torch.tensor(ids), "sum": options["bias"] * sum(ids)}
        if scale is not None:
            out["scaled"] = torch.cumsum(out["sum"] * scale, 0)
        return out

    @torch.jit.export
    def describe(self, n: int, name: str) -> tuple[str, str | None, dict[str, float], list[int]]:
        shout: str | None = None
        if n > 5:
            shout = name.upper()
        return f"{name}={n}", shout, {"half": n / 2}, [n // 2, n % 2]

    @torch.jit.export
    def dream(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, torch.rand(3)

    @torch.jit.export
    def pick(self, x: Tensor, how: int) -> Tensor:
        if how == 0:
            return x.neg()
        elif how == 1:
            return torch.sort(x, descending=True)[0]
        return torch.where(x > 0, x, torch.zeros_like(x))


def main() -> None:
    prepare()
    model = torch.jit.script(Words().eval())
    x = InflatableArg(torch.tensor([1.0, -2.0, 3.0]), "{}")
    methods = {
        model.forward: [(["A-b", "c"], None, {"bias": torch.ones(2)})],
        model.describe: [(3, "n")],
        model.dream: [(x,)],
        model.pick: [(x, 0)],
    }
    saved = bundle_inputs(model, methods)._save_to_buffer_for_lite_interpreter()
    path = Path(__file__).resolve().parent / "models" / "words.ptl"
    path.write_bytes(reproducible(saved, "words"))


if __name__ == "__main__":
    main()
