"""Reads a file of advisories: that of this release, or a newer one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.validate import raise_all, validated
from orchestrator.load.yaml import LONGEST, load_located
from orchestrator.system.reading import read_text
from orchestrator.values.advisories import Advisories, Advisory

OWN: Final = Path(__file__).parent.parent / "pytorch/advisories.yaml"


class RepeatedAdvisoryError(OrchestratorError):
    """A file has two advisories of one name."""


class AdvisoriesUnreadableError(OrchestratorError):
    """A file of advisories cannot be opened."""


def read_advisories(path: Path) -> tuple[Advisory, ...]:
    """The advisories of a file, by name.

    Raises what reading YAML and checking values raise, with a place, AdvisoriesUnreadableError
    and RepeatedAdvisoryError.
    """
    shown = str(path)
    try:
        text = read_text(path, LONGEST)
    except OSError as error:
        raise AdvisoriesUnreadableError(
            "the file cannot be read",
            place=Place(shown),
            expected="a file in the form of this release's advisories.yaml",
            seen=error.strerror or type(error).__name__,
        ) from None
    data, places = load_located(text, shown)
    found, errors = validated(Advisories, data, places)
    raise_all(errors)
    assert found is not None
    by_id: dict[str, Advisory] = {}
    for number, one in enumerate(found.advisories):
        if one.id in by_id:
            raise RepeatedAdvisoryError(
                f"{one.id} is there twice",
                place=places.value(("advisories", number, "id")),
                hint="keep one of them",
            )
        by_id[one.id] = one
    return tuple(by_id[name] for name in sorted(by_id))
