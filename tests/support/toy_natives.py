"""Our own C and C++ files as tests plan with them: their paths are real, their text is not."""

from __future__ import annotations

from orchestrator.build.workshop.native import own_native_files
from orchestrator.plan.native_files import NativeFiles, native_files


def natives(text: str = "") -> NativeFiles:
    """Files of ours that all have this text."""
    return native_files(dict.fromkeys(own_native_files().texts, text.encode()))
