"""The privacy manifest of an iOS library (`PrivacyInfo.xcprivacy`), from the functions that it
calls.

Apple lists functions that need a declared reason ("Describing use of required reason API", in the
documentation of the property NSPrivacyAccessedAPITypes). PyTorch's reasons do not depend on the
app: it reads model files that the app opens, and measures the time that operators take.
"""

from __future__ import annotations

import plistlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from orchestrator.errors import OrchestratorError


class UnexplainedCallError(OrchestratorError):
    """A library calls a function that requires a declared reason, and there is none."""


@dataclass(frozen=True)
class _Api:
    """A category of functions (C names), and our reason to call them; None: there is none."""

    category: str
    reason: str | None
    functions: frozenset[str]


_APIS: Final = (
    # C617.1: "timestamps, size, or other metadata of files inside the app container"
    _Api(
        "NSPrivacyAccessedAPICategoryFileTimestamp",
        "C617.1",
        frozenset(
            (
                *("stat", "fstat", "fstatat", "lstat"),
                *("getattrlist", "fgetattrlist", "getattrlistat", "getattrlistbulk"),
            )
        ),
    ),
    # 35F9.1: "the amount of time that has elapsed between events that occurred within the app"
    _Api(
        "NSPrivacyAccessedAPICategorySystemBootTime", "35F9.1", frozenset(("mach_absolute_time",))
    ),
    _Api(
        "NSPrivacyAccessedAPICategoryDiskSpace",
        None,
        frozenset(("statfs", "statvfs", "fstatfs", "fstatvfs")),
    ),
)


def accessed(symbols: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Category -> reasons, for the symbols that a library leaves to the system (`_fstat`).

    Raises UnexplainedCallError.
    """
    # `_fstat$INODE64`: the name of one function's variant
    called = {symbol.removeprefix("_").partition("$")[0] for symbol in symbols}
    found: dict[str, tuple[str, ...]] = {}
    for api in _APIS:
        used = sorted(called & api.functions)
        if used and api.reason is None:
            raise UnexplainedCallError(
                "the library calls a function for which Apple requires a declared reason",
                expected=f"no function of {api.category}",
                seen=", ".join(used),
                hint="find the unit that calls it, and exclude it",
            )
        if used and api.reason is not None:
            found[api.category] = (api.reason,)
    return found


def privacy_manifest(symbols: Iterable[str]) -> bytes:
    """The manifest's text. Raises UnexplainedCallError."""
    return plistlib.dumps(
        {
            "NSPrivacyTracking": False,
            "NSPrivacyTrackingDomains": [],
            "NSPrivacyCollectedDataTypes": [],
            "NSPrivacyAccessedAPITypes": [
                {
                    "NSPrivacyAccessedAPIType": category,
                    "NSPrivacyAccessedAPITypeReasons": list(reasons),
                }
                for category, reasons in sorted(accessed(symbols).items())
            ],
        },
        sort_keys=True,
    )
