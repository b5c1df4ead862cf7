"""Growth of an app's library by a model that the app's traces do not cover."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NewDtypes:
    """Dtypes in which a kernel ran, and in which no trace of the app has it; sorted.

    tag    the kernel's
    bytes  at most what they add to the library besides what the new operators bring; None where the
           index does not tell
    """

    tag: str
    dtypes: tuple[str, ...]
    bytes: int | None


@dataclass(frozen=True)
class Growth:
    """Operators and kernel dtypes that the app's traces lack, sorted. `bytes` is an upper bound for
    all of them by the index, without kernels whose size the index does not give."""

    operators: tuple[str, ...] = ()
    kernel_dtypes: tuple[NewDtypes, ...] = ()
    bytes: int = 0
