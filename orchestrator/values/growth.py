"""What an app's library would grow by for a model that its traces do not know yet."""

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
    """What the app's traces do not have, sorted, and at most the bytes of all of it by the index,
    without those kernels of which it does not tell."""

    operators: tuple[str, ...] = ()
    kernel_dtypes: tuple[NewDtypes, ...] = ()
    bytes: int = 0
