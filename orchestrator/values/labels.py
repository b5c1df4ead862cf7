"""Labels name an app (`//apps/camera`) or one of its variants (`//apps/camera:linux-x86_64`).

Patterns are labels with a wildcard for the app, as Bazel users know them: `//...` and `//apps/...`
mean every app, and an ABI may follow (`//...:linux-x86_64`). Nothing here touches the disk: which
apps and ABIs exist is passed in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

from orchestrator.errors import OrchestratorError
from orchestrator.values.names import nearest, nearest_abi

_FORM: Final = re.compile(
    r"//(?:apps/(?P<app>[A-Za-z0-9][A-Za-z0-9._-]*)|(?P<all>(?:apps/)?\.\.\.))"
    r"(?::(?P<abi>[a-z0-9][a-z0-9._-]*))?"
)
# What other tools have for every one; no ABI of ours.
EVERY_ABI: Final = ("all", "any", "every")
# Folders that have all apps.
_FOLDER_OF_ALL: Final = re.compile(r"[./]+|[./@]*(?i:apps)[./:]*")
_FORMS: Final = "//apps/<app>:<abi>, //apps/<app>, //apps/... or //..."


class LabelSyntaxError(OrchestratorError):
    """A text is no label."""


class UnknownAppError(OrchestratorError):
    """A label names an app that the workspace does not have."""


class UnknownAbiError(OrchestratorError):
    """A label names an ABI that its app is not built for."""


@dataclass(frozen=True, order=True)
class AppLabel:
    """An app."""

    app: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """The app that a text names; raises `LabelSyntaxError`, also where it names one ABI."""
        match = _match(text)
        if match["all"]:
            raise LabelSyntaxError(
                f"`{text}` names every app, but one is required", expected="//apps/<app>"
            )
        app = cls(match["app"])
        if match["abi"]:
            raise LabelSyntaxError(
                f"`{text}` names one ABI, but an app is required",
                expected="//apps/<app>",
                hint=f"write {app}",
            )
        return app

    def __str__(self) -> str:
        return f"//apps/{self.app}"


@dataclass(frozen=True, order=True)
class VariantLabel:
    """One app for one ABI.

    delivered  its folder below `dist/`
    linked     its folder below the state: of its links, its model runner and its log
    """

    app: str
    abi: str

    @property
    def delivered(self) -> str:
        return f"{self.app}/{self.abi}"

    @property
    def linked(self) -> str:
        return f"variants/{self.app}/{self.abi}"

    def __str__(self) -> str:
        return f"//apps/{self.app}:{self.abi}"


@dataclass(frozen=True)
class Pattern:
    """Pattern in a command's arguments: one app, or all if `app` is None; one ABI, or all if `abi`
    is None."""

    app: str | None = None
    abi: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """The pattern that a text writes; raises `LabelSyntaxError`."""
        match = _match(text)
        return cls(match["app"], match["abi"])

    def __str__(self) -> str:
        return f"//apps/{self.app or '...'}" + (f":{self.abi}" if self.abi else "")


def resolve(
    patterns: Iterable[str],
    targets: Mapping[str, Sequence[str]],
    groups: Mapping[str, Sequence[str]] = MappingProxyType({}),
    offered: Collection[str] = (),
    broken: Collection[str] = (),
) -> tuple[VariantLabel, ...]:
    """The variants that patterns name, sorted, each once.

    `targets` maps every app to its ABIs, `groups` a name to the ABIs that it stands for; `offered`
    are ABIs that an app may be built for, `broken` further apps, which messages may name. Raises
    `LabelSyntaxError`, `UnknownAppError`, `UnknownAbiError`; a pattern that names nothing is an
    error too.
    """
    found = set[VariantLabel]()
    for text in patterns:
        pattern = Pattern.parse(text)
        if pattern.app is not None and pattern.app not in targets:
            raise _unknown_app(pattern.app, text, {*targets, *broken})
        found.update(_expand(pattern, text, targets, groups, offered))
    return tuple(sorted(found))


def _match(text: str) -> re.Match[str]:
    match = _FORM.fullmatch(text)
    if match:
        return match
    raise LabelSyntaxError(f"`{text}` is not a label", expected=_FORMS, hint=_written(text))


def _written(text: str) -> str | None:
    """Hint with the pattern that was probably meant by a text that is no label; None without a
    guess."""
    if text in EVERY_ABI or "*" in text or _FOLDER_OF_ALL.fullmatch(text):
        return "write //..., which is every app"
    _, below, rest = _bare(text).partition("/")
    if below and text.startswith("//"):
        return f"apps are folders directly under apps/: move it to apps/{rest.split('/')[-1]}"
    likely = f"//apps/{meant_app(text)}"
    return f"write {likely}" if _FORM.fullmatch(likely) else None


def meant_app(text: str) -> str:
    """The app that a text may mean which is no label: `vad`, `apps/vad/`, `./apps/vad/app.yaml`,
    `dist/vad/packages/vad.aar`."""
    return _bare(text).partition("/")[0]


def _bare(text: str) -> str:
    return re.sub("^[.@/]*(?i:apps/|dist/)?|[/:]*$", "", text)


def _expand(
    pattern: Pattern,
    text: str,
    targets: Mapping[str, Sequence[str]],
    groups: Mapping[str, Sequence[str]],
    offered: Collection[str],
) -> list[VariantLabel]:
    apps = targets if pattern.app is None else [pattern.app]
    wanted = None if pattern.abi is None else set(groups.get(pattern.abi, (pattern.abi,)))
    found = [
        VariantLabel(app, abi)
        for app in apps
        for abi in targets[app]
        if not wanted or abi in wanted
    ]
    if not found and pattern.abi is None:
        raise UnknownAppError(
            f"`{text}` names nothing: the workspace has no apps",
            hint="add one: ./orchestrate new-app NAME --model MODEL.ptl",
        )
    if not found:
        raise _unknown_abi(pattern, text, targets, groups, offered)
    return found


def _unknown_app(app: str, text: str, known: Collection[str]) -> UnknownAppError:
    like = nearest(app.rstrip("."), known)
    return UnknownAppError(
        f"`{text}` names an app that the workspace does not have",
        expected=", ".join(sorted(known)) or "an app; the workspace has none",
        seen=app,
        hint=f"did you mean //apps/{like}?"
        if like
        else f"run ./orchestrate new-app {app} --model MODEL.ptl, or write apps/{app}/app.yaml",
    )


def _unknown_abi(
    pattern: Pattern,
    text: str,
    targets: Mapping[str, Sequence[str]],
    groups: Mapping[str, Sequence[str]],
    offered: Collection[str],
) -> UnknownAbiError:
    assert pattern.abi
    apps = targets if pattern.app is None else [pattern.app]
    known = sorted({abi for app in apps for abi in targets[app]})
    groups_known = [name for name, members in groups.items() if not {*members}.isdisjoint(known)]
    like = None if pattern.abi in offered else nearest_abi(pattern.abi, [*known, *groups_known])
    who = "no app" if pattern.app is None else f"//apps/{pattern.app}"
    verb = "is" if pattern.app is None else "is not"
    return UnknownAbiError(
        f"{who} {verb} built for {pattern.abi}",
        expected=", ".join(known),
        seen=text,
        hint=(
            f"did you mean {Pattern(pattern.app, like)}?"
            if like
            else _other_advice(pattern, pattern.abi, offered)
        ),
    )


def _other_advice(pattern: Pattern, abi: str, offered: Collection[str]) -> str:
    """For an ABI that is like none of the known ones."""
    if abi in EVERY_ABI:
        return f"write {Pattern(pattern.app)}, which is every ABI"
    if abi in offered:
        return f"add {abi} to the targets in {'its' if pattern.app else 'an'} app.yaml"
    return f"take one of these; no toolchain for {abi}"
