"""Exports `attention`: `scaled_dot_product_attention` of all shapes and layouts, with masks of all
shapes and without, in floats and in other dtypes. PyTorch 1.13.1 does not have it.

Run `PYTHONPATH=. python tests/integration/apps/attention/export.py` with the optional dependency
group `export`.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orchestrator.export.saving import Export, run


class Attention(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        """Of q [2, 3, T, 32], k and v [2, 3, S, 32]: sizes of a head, few queries, few keys."""
        found = [F.scaled_dot_product_attention(q, k, v)]
        found += [F.scaled_dot_product_attention(q, k, v, is_causal=True)]
        found += [F.scaled_dot_product_attention(q, k, v, scale=-0.75)]
        for size in (1, 7, 13):
            found += [F.scaled_dot_product_attention(q[..., :size], k[..., :size], v[..., :size])]
        for rows in (1, 2, 3):
            found += [F.scaled_dot_product_attention(q[:, :, :rows], k, v)]
            found += [F.scaled_dot_product_attention(q, k[:, :, :rows], v[:, :, :rows])]
            found += [F.scaled_dot_product_attention(q[:, :, -rows:], k, v, is_causal=True)]
        return found

    @torch.jit.export
    def layouts(self, q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        """Heads beside each other, one for all, rows with gaps; last numbers that lie apart."""
        turned = [one.transpose(1, 2).contiguous().transpose(1, 2) for one in (q, k, v)]
        found = [F.scaled_dot_product_attention(turned[0], turned[1], turned[2])]
        found += [F.scaled_dot_product_attention(turned[0], k, turned[2], is_causal=True)]
        one_k, one_v = k[:1, :1].expand(k.size()), v[:, :1].expand(v.size())
        found += [F.scaled_dot_product_attention(q, one_k, one_v)]
        found += [F.scaled_dot_product_attention(q[:, :, ::2], k[:, :, 1::3], v[:, :, 1::3])]
        found += [F.scaled_dot_product_attention(q[1:], k[1:], v[1:])]
        apart = F.scaled_dot_product_attention(q[..., ::2], k[..., ::2], v[..., ::2])
        found += [apart, F.scaled_dot_product_attention(q[0], k[0], v[0])]
        return found

    @torch.jit.export
    def masked(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> list[Tensor]:
        """mask: [2, 3, T, S], to add; where a row of it is -inf, a query sees nothing."""
        found = [F.scaled_dot_product_attention(q, k, v, mask)]
        parts = [mask[0, 0], mask[:1], mask[:, :1], mask[:, :, :1], mask[:, :, :, :1]]
        parts += [mask[0, 0, :, :1], mask[0, 0, :1], mask.transpose(2, 3).contiguous().mT]
        for part in parts:
            found += [F.scaled_dot_product_attention(q, k, v, part)]
        found += [F.scaled_dot_product_attention(q, k, v, mask > -0.5)]
        found += [F.scaled_dot_product_attention(q[:, :, :1], k, v, mask[:, :, 1:2] > 0.0)]
        found += [F.scaled_dot_product_attention(q, k, v, mask[0, 0] > 1e30)]
        return found

    @torch.jit.export
    def wrong(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> list[Tensor]:
        """Of 11 keys and more: below 8, PyTorch's kernel takes a row of NaN for one of -inf."""
        found = [F.scaled_dot_product_attention(q, k, v)]
        seen = v.clamp(-2, 2)  # an infinity may reach a query that does not see it: times 0
        found += [F.scaled_dot_product_attention(q, k, seen, is_causal=True)]
        found += [F.scaled_dot_product_attention(q, k, v, mask)]
        return found

    @torch.jit.export
    def others(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> list[Tensor]:
        """Other dtypes, which PyTorch's own kernel computes."""
        exact, short = torch.float64, torch.bfloat16
        found = [F.scaled_dot_product_attention(q.to(exact), k.to(exact), v.to(exact))]
        masked = F.scaled_dot_product_attention(
            q.to(exact), k.to(exact), v.to(exact), mask.to(exact)
        )
        found += [masked, F.scaled_dot_product_attention(q.to(short), k.to(short), v.to(short))]
        return found


def heads(queries: int, keys: int) -> tuple[Tensor, ...]:
    return tuple(torch.randn(2, 3, rows, 32) for rows in (queries, keys, keys))


def models() -> dict[str, Export]:
    usual, wide, wrong = heads(9, 21), heads(37, 37), heads(9, 11)
    wrong[0][0, 0, 2, 5] = torch.nan
    wrong[0][1, 1, 3, 0] = torch.inf
    wrong[1][0, 1, 4, 7] = torch.nan
    wrong[2][1, 0, 10, 8] = -torch.inf
    # more queries and keys than are computed at once, enough for threads
    long = tuple(torch.randn(1, 1, rows, 32) for rows in (70, 600, 600))
    masks = [torch.randn(2, 3, one[0].size(2), one[1].size(2)) for one in (usual, wide)]
    masks[0][0, 0, 3] = masks[1][1, 2, 30:] = -torch.inf
    masks[0][:, :, 1:, 5:9] = -torch.inf
    unseen = torch.randn(1, 1, 70, 600)
    unseen[..., :20, :520] = unseen[..., 20:40, 512:] = unseen[..., 69, :] = -torch.inf
    inputs: dict[str, list[tuple[Tensor, ...]]] = {
        "forward": [usual, wide, tuple(6 * one for one in usual)],
        "layouts": [usual, wide],
        "masked": [(*usual, masks[0]), (*wide, masks[1]), (*long, unseen)],
        "wrong": [(*wrong, masks[0][..., 5:16])],
        "others": [(*usual, masks[0])],
    }
    return {"attention": Export(Attention(), inputs, canonical="off")}


if __name__ == "__main__":
    run(models, Path(__file__).resolve().parent / "models")
