"""Renders our own generated C++, from the templates next to this file.

Names of operators, tags, dtypes and classes come from lock files and models. None of them is
trusted here: they pass through the filters `cpp_text`, `cpp_name` and `cpp_list` of
`orchestrator.system.templates`.
"""

from __future__ import annotations

from orchestrator.system.templates import Fit, environment


def render(template: str, **context: object) -> Fit:
    """The text of `templates/<template>` with `context`; an undefined name is an error.

    Raises UnfitTextError.
    """
    templates = environment("orchestrator.codegen", blocks=True)
    return Fit(templates.get_template(template).render(**context))
