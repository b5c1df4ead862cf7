"""Parses a call of a model from the command line, in the format of `inputs:` in app.yaml."""

from __future__ import annotations

from orchestrator.load.validate import raise_all, validated
from orchestrator.load.yaml import load_located
from orchestrator.values.config.app import InputRun


def parse_run(text: str, shown: str) -> InputRun:
    """The call in a YAML text: `{method: ..., args: [...]}`, or the list of arguments of `forward`.

    shown: where the text stands, in messages
    Raises what reading declarations raises.
    """
    if text.lstrip().startswith("["):
        text = f"{{args: {text}}}"
    data, places = load_located(text, shown)
    run, faults = validated(InputRun, data, places)
    raise_all(faults)
    assert run is not None
    return run
