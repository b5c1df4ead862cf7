"""The page as one file: no part of it is read from elsewhere, and no script but its own runs.

Contract: names of models, operators and files come from anybody. jinja2 escapes each value, and the
page's policy (Content-Security-Policy) allows the one script whose digest it names. The tables work
without scripts; the treemap is drawn from them by d3-hierarchy, which lays out and does no more: it
is 15 kB, where a library that draws too is a hundred times that.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

import jinja2
from markupsafe import Markup, escape

from orchestrator.report.events import Event
from orchestrator.report.page.history import Recorded, lines_of
from orchestrator.report.page.timeline import timeline
from orchestrator.report.page.views import libraries_of, shared_by
from orchestrator.report.table import human_bytes
from orchestrator.size.attribution import Attribution

_FOLDER: Final = "files"
_LAYOUT: Final = "d3-hierarchy.min.js"


def page(
    found: Sequence[Attribution],
    budgets: Mapping[tuple[str, str], int],
    recorded: Sequence[Recorded],
    events: Sequence[Event],
) -> str:
    """The page of these libraries.

    budgets   app and ABI -> bytes that are allowed
    recorded  sizes that commits keep, oldest first
    events    of the last build
    """
    libraries = libraries_of(found)
    script = "\n".join((_text(_LAYOUT), _text("page.js")))
    assert "</script" not in script, "it would end where the element does"
    made = _template().render(
        libraries=libraries,
        by_key={(one.app, one.abi): one for one in libraries},
        apps=sorted({one.app for one in libraries}),
        abis=sorted({one.abi for one in libraries}),
        attributions=[view.by for view in libraries[0].views] if libraries else [],
        largest=max((one.bytes for one in libraries), default=1) or 1,
        budgets=budgets,
        shared=shared_by(found),
        lines=lines_of(recorded),
        commits=len(recorded),
        first=recorded[0] if recorded else None,
        last=recorded[-1] if recorded else None,
        build=timeline(events),
        style=Markup(_text("page.css")),
        script=Markup(script),
        digest=f"sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}",
        licence=" ".join(_text("d3-hierarchy.LICENSE.txt").split()),
    )
    # a model's names may have bytes that are not UTF-8
    return made.encode("utf-8", "backslashreplace").decode()


@cache
def _text(name: str) -> str:
    return (files(__package__) / _FOLDER / name).read_text(encoding="utf-8")


# Where long names may go on in the next line.
_BREAK: Final = re.compile(r"(?<=[/:_.])(?=[A-Za-z0-9])")


def _breakable(text: str) -> Markup:
    return Markup("<wbr>").join(map(escape, _BREAK.split(text)))


@cache
def _template() -> jinja2.Template:
    made = jinja2.Environment(
        undefined=jinja2.StrictUndefined, autoescape=True, keep_trailing_newline=True
    )
    made.filters |= {"human": human_bytes, "breakable": _breakable}
    return made.from_string(_text("page.html.j2"))
