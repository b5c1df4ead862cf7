"""YAML as this project writes it."""

from __future__ import annotations

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes texts of a type of their own, such as names of operators, as texts."""


_Dumper.add_multi_representer(str, lambda dumper, text: dumper.represent_str(str(text)))


def yaml_text(value: object, width: int = 100) -> str:
    """A value's text: its keys in their order, lines of at most `width` characters where they can
    be broken. Raises yaml.representer.RepresenterError for what is no plain data."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=width)
    return text
