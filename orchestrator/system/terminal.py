"""Colour of output and of errors: only terminals get it.

NO_COLOR works as on no-color.org: any value disables colour. rich does the same for tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TextIO

# The head of an error; what follows it is indented.
_HEAD: Final = re.compile(r"^(?! )((?:[^\n]*?: )?)error:", re.MULTILINE)
_RED: Final = "\x1b[1;31m"
_PLAIN: Final = "\x1b[0m"


def wants_colour(stream: TextIO, env: Mapping[str, str]) -> bool:
    """True if escape codes may be written to a stream."""
    return stream.isatty() and not env.get("NO_COLOR") and env.get("TERM", "dumb") != "dumb"


def shown(text: str, stream: TextIO, env: Mapping[str, str]) -> str:
    """An error's text for a stream: with its `error:` in red where that is wanted."""
    return _HEAD.sub(rf"\1{_RED}error:{_PLAIN}", text) if wants_colour(stream, env) else text
