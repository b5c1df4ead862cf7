"""The parts of a variant's actions: as planned now, and as last built."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from orchestrator.build.executing.execute import (
    link_environment,
    stored_links,
)
from orchestrator.build.executing.stored_links import link_parts
from orchestrator.build.explaining.action_details import Details, own_details, shared_details
from orchestrator.build.planning.plan import Variant, compiles_of, plan_variants
from orchestrator.build.planning.variants import identity_with_headers
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.native import own_native_files
from orchestrator.errors import OrchestratorError
from orchestrator.execute.action_log import (
    FILE,
    ActionLog,
    BuildLogs,
    LoggedAction,
    Value,
    read_logs,
    update_logs,
)
from orchestrator.report.explanation import Explanation, explanation
from orchestrator.values.action import Compile, Link
from orchestrator.values.fingerprint import Identity, fingerprint, text_digest
from orchestrator.values.labels import VariantLabel
from orchestrator.values.names import nearest

# What the links of a variant are asked about by, all at once.
LINK: Final = "link"
# Parts of an identity that are another action's, or are in the flags as well.
_NOT_LOGGED: Final = frozenset({"of", "serial", "unity", "members", "anchor"})


class UnknownActionError(OrchestratorError):
    """A variant has no unit, and links no file, of this name."""


def log_path(here: Invocation, label: VariantLabel) -> Path:
    """The file of a variant's action log, `<state>/variants/<app>/<abi>/actions.log`, next to its
    links."""
    return here.context.state / label.linked / FILE


def log_actions(here: Invocation, variants: Iterable[Variant]) -> None:
    """Write the action log of each variant: of every action its digest, and what the digest is made
    of.

    Call it once the links have succeeded: `explain` compares a plan with what is there. Raises
    OSError.
    """
    variants = tuple(variants)
    shared = shared_details(here, {variant.label.abi for variant in variants})
    for variant in variants:
        update_logs(log_path(here, variant.label), action_log(here, variant, shared))


def action_log(here: Invocation, variant: Variant, shared: Details) -> ActionLog:
    """The variant's actions as they are planned; `shared`: what `shared_details` gives."""
    compiles = compiles_of(variant)
    actions = dict[str, LoggedAction]()
    for action in compiles:
        actions[action.unit] = _logged(action)
        for member in action.members:
            shard = {"shard": action.unit}
            actions[member.unit] = LoggedAction(member.fingerprint, _parts(member) | shard)
    names = {action.object: action.unit for action in compiles}
    actions |= _links(here, variant, names, {c.object: c.fingerprint for c in compiles})
    used = {
        value for one in actions.values() for value in one.parts.values() if isinstance(value, str)
    }
    known = here.runtimes.of(variant.label.app).dialect.keys
    details = {**shared, **dict(own_details(variant, known))}
    return ActionLog(actions, {digest: details[digest] for digest in details if digest in used})


def _logged(action: Compile) -> LoggedAction:
    if not action.members:
        return LoggedAction(action.fingerprint, _parts(action))
    names = tuple(member.unit for member in action.members)
    text = text_digest(str(action.identity.parts.get("unity")))
    return LoggedAction(action.fingerprint, {"members": names, "unity": text})


def _parts(action: Compile) -> dict[str, Value]:
    """An action's parts, with those of the action that it is another form of."""
    found = {**_flat(action.identity), "flags": action.flags}
    return {name: part for name, part in found.items() if part is not None}


def _flat(identity: Identity) -> dict[str, Value | None]:
    found = dict[str, Value | None]()
    for name, part in identity.parts.items():
        if isinstance(part, Identity):
            found |= _flat(part)
        elif part is None or isinstance(part, str | tuple):
            # a unit with threads reads a header of ours, whether it is in a shard or alone
            key = "threading" if name == "header" else name
            found |= {} if name in _NOT_LOGGED else {key: part}
    return found


def _links(
    here: Invocation, variant: Variant, names: Mapping[str, str], digests: Mapping[str, str]
) -> dict[str, LoggedAction]:
    """The variant's links, by the names of what they make."""
    toolchain = here.toolchains.of(variant.label.abi)
    environment = link_environment(here)
    links = {link.output: link for link in variant.links.all}
    known = dict(digests)
    shown = {**names, **{output: link_name(one) for output, one in links.items()}}

    def parts(link: Link) -> dict[str, Value]:
        of_link = link_parts(link, toolchain, environment)
        return {
            **{name: part for name, part in of_link.items() if part is not None},
            "toolchain": identity_with_headers(toolchain, own_native_files()),
            "wrapper": toolchain.cxx.parent.name,
            "flags": (*link.flags, *toolchain.link_flags),
            "objects": tuple(shown[path] for path in (*link.whole, *link.on_demand)),
            **{
                path: _sha256(Path(here.runtimes.fill(path)))
                for path in link.inputs
                if _is_ours(path)
            },
        }

    def digest(output: str) -> str:
        if output not in known:
            link = links[output]
            of = [digest(path) for path in (*link.whole, *link.on_demand)]
            known[output] = fingerprint({**parts(link), "objects": of})
        return known[output]

    return {link_name(link): LoggedAction(digest(o), parts(link)) for o, link in links.items()}


def _is_ours(path: str) -> bool:
    """True if an input is a source of ours; a file named by its content may not be written yet."""
    return not path.startswith("$cache/")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def link_name(link: Link) -> str:
    """A link's name in an action log: the base name of its output, without the folder of the
    variant."""
    return link.output.rpartition("/")[2]


def explain(here: Invocation, label: VariantLabel, name: str) -> tuple[Explanation, ...]:
    """Explain what the next build of a variant does with a unit, or, for `link`, with each of its
    links.

    Raises UnknownActionError, and what reading traces and planning raise.
    """
    (variant,) = plan_variants(here, [label], generate=False)
    now = action_log(here, variant, shared_details(here, [label.abi]))
    logs = read_logs(log_path(here, label))
    if logs == "damaged":
        here.log(f"warning: the log of what {label} was built from is damaged: it counts as none")
    if not isinstance(logs, BuildLogs):
        logs = None
    links = tuple(link_name(link) for link in variant.links.all)
    names = links if name == LINK else (_action_of(variant, now, name),)
    cached = _cached(here, variant)
    files = {link_name(one): Path(here.runtimes.fill(one.output)) for one in variant.links.all}
    return tuple(
        explanation(
            str(label),
            one,
            now,
            logs,
            cached=one in cached,
            # a build takes objects from the cache alone
            made=files[one].is_file() if one in files else one in cached,
            is_link=one in files,
        )
        for one in names
    )


def changes_of(
    here: Invocation, variant: Variant, compiled: Iterable[str]
) -> tuple[Explanation, ...]:
    """Why units were compiled in this build, against the log of the build before: call it before
    `log_actions`."""
    units = sorted(set(compiled))
    if not units:
        return ()
    now = action_log(here, variant, shared_details(here, [variant.label.abi]))
    logs = read_logs(log_path(here, variant.label))
    before = logs if isinstance(logs, BuildLogs) else None
    label = str(variant.label)
    return tuple(
        explanation(label, unit, now, before, cached=False, made=False, is_link=False)
        for unit in units
        if unit in now.actions
    )


def _cached(here: Invocation, variant: Variant) -> frozenset[str]:
    """The units whose objects the cache has, and the links whose files it has."""
    objects = {here.runtimes.stored_name(one.object): one for one in compiles_of(variant)}
    digests = here.store.named_digests(objects)
    known = {objects[name].object: digest for name, digest in digests.items()}
    links = stored_links(here, variant.links.all, Path(), known, variant.objects.texts).listed()
    names = {link.output: link_name(link) for link in variant.links.all}
    units = {objects[name].unit for name in digests}
    return frozenset({*units, *(names[output] for output in links)})


def _action_of(variant: Variant, now: ActionLog, name: str) -> str:
    """The action that makes a unit's object: the unit's own, or its shard's."""
    if name not in now.actions:
        inside = sorted(one for one in now.actions if one.endswith(f"/{name}"))
        like = inside[0] if inside else nearest(name, now.actions)
        raise UnknownActionError(
            f"{variant.label} has no unit `{name}`",
            expected="a unit's path, the name of a file that is linked, or `link`",
            hint=f"did you mean `{like}`?" if like else None,
        )
    shard = now.actions[name].parts.get("shard")
    return shard if isinstance(shard, str) else name
