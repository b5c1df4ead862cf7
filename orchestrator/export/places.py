"""Places in a module's own source."""

from __future__ import annotations

import inspect
import linecache
import os
import re
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

_TORCH = f"{Path(torch.__file__).parent}{os.sep}"
_OURS = f"{Path(__file__).parent}{os.sep}"
# As tracebacks and TorchScript's compiler (torch/csrc/jit/frontend/source_range.cpp) write it.
_PLACE = re.compile(r'File "(.+)", line (\d+)')


def is_torchs(file: str) -> bool:
    """True if a file belongs to torch or to our exporter, or is no file."""
    return file.startswith((_TORCH, _OURS, "<"))


def place_in(text: str) -> dict[str, Any]:
    """File, line and code of the innermost place in a text of the compiler's that is not torch's,
    else of the first."""
    places = [(match[1], int(match[2])) for match in _PLACE.finditer(text)]
    chosen = next(_own(places), None) or next(iter(places), None)
    return {} if chosen is None else _facts(*chosen)


def place_of_stack(text: str | None) -> dict[str, Any]:
    """The last place that is not torch's in a stack, whose last entry is the innermost."""
    own = list(_own([(match[1], int(match[2])) for match in _PLACE.finditer(text or "")]))
    return _facts(*own[-1]) if own else {}


def place_of_error(error: BaseException) -> dict[str, Any]:
    """The last line of a traceback that is neither torch's nor ours."""
    frames = [
        (frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)
    ]
    own = list(_own(frames))
    return _facts(*own[-1]) if own else {}


def place_of_function(function: Any) -> dict[str, Any]:
    """Return the place where a function begins."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return {} if code is None else _facts(code.co_filename, code.co_firstlineno)


def place_of_assignment(its: type, name: str) -> dict[str, Any]:
    """Return the place where a class last assigns an attribute."""
    try:
        lines, first = inspect.getsourcelines(its)
    except (OSError, TypeError):
        return {}
    found = [n for n, line in enumerate(lines, first) if re.search(rf"\.{name}\b[^=]*=[^=]", line)]
    return _facts(inspect.getfile(its), found[-1]) if found else {}


def _facts(file: str, line: int) -> dict[str, Any]:
    return {"file": file, "line": line, "code": linecache.getline(file, line).strip()}


def _own(places: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    return (place for place in places if not is_torchs(place[0]))
