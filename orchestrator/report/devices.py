"""Text about devices that a model names and no library has."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import visible


def devices_line(devices: Sequence[str]) -> str:
    named = visible(", ".join(devices))
    return (
        f"names devices that no library has: {named}: export it again from the CPU, with"
        " module.cpu() before it is scripted or traced, and device=x.device in place of a name"
    )
