"""Whether apps were traced at all: known before anything is fetched or compiled for them."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.build.session import Session
from orchestrator.trace.lock import TraceMissingError, require_lock
from orchestrator.values.labels import Label


def require_traced(session: Session, labels: Iterable[Label]) -> None:
    """Raises TraceMissingError where models have no lock. A model whose canonical file is traced is
    left out: that file may be what is missing first."""
    root, missing, apps = session.context.root, list[TraceMissingError](), dict[str, None]()
    for app in session.workspace.apps_of(labels):
        label = f"//apps/{app.name}"
        for model in app.config.models:
            try:
                if not app.is_canonical(model):
                    require_lock(app.folder, model.name, label, root)
            except TraceMissingError as error:
                missing.append(error)
                apps[label] = None
    if len(missing) > 1:
        raise TraceMissingError(
            f"{len(missing)} models have not been traced",
            expected=f"{missing[0].expected} and {len(missing) - 1} more",
            hint=f"run: ./orchestrate trace {' '.join(apps)}",
        )
    if missing:
        raise missing[0]
