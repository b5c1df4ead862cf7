"""The process's environment without secrets, with a record of the variables that were looked up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# The password of the key that packages are signed with.
SIGNING_PASSWORD: Final = "ORCHESTRATOR_SIGNING_PASSWORD"
_SECRETS: Final = (SIGNING_PASSWORD,)


class Environment(dict[str, str]):
    """An environment that notes in `looked_up` which names somebody asked for, set or not.

    A copy is no look-up: `{**env}`, `dict(env)` and what `subprocess` makes of it take all there
    is, and say nothing about what decides. That holds because CPython copies a dict without its
    methods unless its iteration is replaced (`dict_merge` in Objects/dictobject.c).

    Secrets that are set are in `secrets` alone: what is started, compilers and models among it,
    gets the others.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__({name: env[name] for name in env if name not in _SECRETS})
        self.secrets = {name: env[name] for name in _SECRETS if env.get(name)}
        self.looked_up = set[str]()

    def __getitem__(self, name: str) -> str:
        self.looked_up.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.looked_up.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None, /) -> Any:
        """As of any mapping."""
        self.looked_up.add(name)
        return super().get(name, default)
