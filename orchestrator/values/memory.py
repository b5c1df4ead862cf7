"""The memory that a model takes in a delivered library, as it was measured.

All are bytes that the library asked the system for, besides those that it has before a model is
loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Origin = Literal["model", "earlier", "run"]


@dataclass(frozen=True)
class Site:
    """An operator, and the instruction that calls it: `forward at net.py:13`."""

    operator: str
    where: str


@dataclass(frozen=True)
class Block:
    """Memory that there was at a peak.

    of     what it was allocated by: loading, an earlier run, this run
    stays  whether it is there after the run
    at     who allocated it in a run
    """

    bytes: int
    of: Origin
    stays: bool
    at: Site | None
    dtype: str | None
    shape: tuple[int, ...] | None

    @property
    def contents(self) -> str:
        """`float32 [1, 16, 8, 8]`, or what it is where it holds no tensor that is known."""
        if self.dtype is None or self.shape is None:
            return "kept by kernels" if self.stays and self.of != "model" else "other memory"
        return f"{self.dtype} [{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class RunMemory:
    """One run, or its repetition.

    before      what there was when it began
    inputs      of the app's own, not among the others
    model, earlier, own  what there was at the peak: of loading, of earlier runs, of this run
    blocks      the largest of them; others, others_bytes: how many more there were
    loaded, left  what is there after the run: of loading, and of runs
    """

    method: str
    index: int
    again: bool
    before: int
    inputs: int
    peak: int
    at: Site | None
    model: int
    earlier: int
    own: int
    blocks: tuple[Block, ...]
    others: int
    others_bytes: int
    loaded: int
    left: int

    @property
    def name(self) -> str:
        """`forward[0]`, and whether it is the second time."""
        return f"{self.method}[{self.index}]" + (" again" if self.again else "")

    @property
    def kept(self) -> int:
        """Bytes that are there between runs."""
        return self.loaded + self.left


@dataclass(frozen=True)
class ModelMemory:
    """A model's.

    file      tensors in its file
    library   what the library has for itself, in no other number
    loaded    what there is once it is loaded, of which `mapped` can leave when layers are packed
    loading   the most while it is loaded
    runs      each of its inputs, the first of each method twice; without those that did not end
    """

    model: str
    file: int
    library: int
    loaded: int
    mapped: int
    loading: int
    runs: tuple[RunMemory, ...]

    @cached_property
    def largest(self) -> RunMemory | None:
        """The run with the highest peak, the first of equal ones; None without runs."""
        return max(self.runs, key=lambda one: one.peak, default=None)

    @property
    def peak(self) -> int:
        """The most at once, loading and in all runs."""
        return max(self.loading, *(one.peak for one in self.runs), 0)

    @property
    def worst(self) -> RunMemory | None:
        """The run that reached the peak; None where loading did."""
        run = self.largest
        return None if run is None or run.peak < self.loading else run

    @property
    def kept(self) -> int:
        """The most between runs."""
        return max((one.kept for one in self.runs), default=self.loaded)
