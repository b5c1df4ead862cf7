"""Renders the generated C++ that is ours, from the templates beside this file."""

from __future__ import annotations

from functools import cache

import jinja2


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("orchestrator.codegen", "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # C++, not HTML
    )


def render(template: str, **context: object) -> str:
    """The text of `templates/<template>` with `context`; an undefined name is an error."""
    return _environment().get_template(template).render(**context)
