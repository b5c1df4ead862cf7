"""Renders the generated C++ that is ours, from the templates beside this file.

Names of operators, tags, dtypes and classes come from lock files and models. None of them is
trusted here: see `orchestrator.system.templates`, whose filters `cpp_text`, `cpp_name` and
`cpp_list` they go through.
"""

from __future__ import annotations

from orchestrator.system.templates import Fit, environment


def render(template: str, **context: object) -> Fit:
    """The text of `templates/<template>` with `context`; an undefined name is an error.

    Raises UnfitTextError.
    """
    templates = environment("orchestrator.codegen", blocks=True)
    return Fit(templates.get_template(template).render(**context))
