"""Links whose outputs the user's cache keeps, so that another checkout does not link again.

A link's identity is a digest over all that decides its output: its command, the contents of what it
links in order, the scripts that it reads, its toolchain, our own steps in it, and the environment.
The store (`cache/store.py`) keeps the output under it as it keeps objects: checked at each use.
Unlike the digests of action logs, by which `explain` compares builds, it holds contents: of an
object that is to be compiled nothing is known, and so nothing of what is linked of it.

A link has no identity where it reads something of which no digest is known: a compiler that does
not tell all of it (`Driver.link_inputs`), or flags of a toolchain's own. Such links are ninja's
alone. No link sees a variable that leads it to other files (`compilers/environment.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from orchestrator.build.executing.linked import Known, as_noted
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.cache.store import ObjectStore
from orchestrator.compilers.own_steps import own_steps
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.execute.ninja_file import link_commands
from orchestrator.system.reading import readable_sha256
from orchestrator.values.action import Link
from orchestrator.values.fingerprint import Identity, text_digest

_FORMAT: Final = "1"
# Variables that zig, clang and lld read, and that are no more than their value.
VALUES: Final = (
    *("IPHONEOS_DEPLOYMENT_TARGET", "MACOSX_DEPLOYMENT_TARGET"),
    *("SOURCE_DATE_EPOCH", "ZERO_AR_DATE"),
)


def deciding(env: Mapping[str, str]) -> tuple[str, ...]:
    """`NAME=value` of the variables that may decide what a link makes, sorted."""
    return tuple(f"{name}={env[name]}" for name in sorted(env) if name in VALUES)


def link_identity(
    link: Link,
    toolchain: ResolvedToolchain,
    environment: Iterable[str],
    digests: Mapping[str, str],
) -> Identity | None:
    """All that decides what a link makes; None where something of it is not known.

    environment  `deciding`
    digests      sha256 of what the link reads, as far as it is known
    """
    read = (*link.whole, *link.on_demand, *link.inputs)
    if (
        toolchain.driver.link_inputs is None
        or toolchain.config.link_flags
        or not all(digests.get(path) for path in read)
    ):
        return None
    return Identity(
        {
            **link_parts(link, toolchain, environment),
            "format": _FORMAT,
            "toolchain": toolchain.identity,
            # an archive holds the names of its members
            "output": _base_name(link.output),
            "objects": [_named(path, digests) for path in (*link.whole, *link.on_demand)],
            "inputs": [_named(path, digests) for path in link.inputs],
        }
    )


def link_parts(
    link: Link, toolchain: ResolvedToolchain, environment: Iterable[str]
) -> dict[str, str | tuple[str, ...] | None]:
    """Parts of a link's identity besides its compiler and the files that it is given; the logs by
    which `explain` compares builds have the same."""
    commands = link_commands(link.abi, " ".join(toolchain.link_flags))
    return {
        "kind": link.kind,
        "command": commands[link.kind],
        "flags": link.flags,
        "brought": toolchain.driver.link_inputs,
        "steps": own_steps(link.kind),
        "environment": tuple(environment),
    }


def _named(path: str, digests: Mapping[str, str]) -> tuple[str, str]:
    return _base_name(path), digests[path]


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]


def stored_link(identity: Identity) -> str:
    """Name in the store of a link's output."""
    digest = identity.digest
    return f"links/{digest[:2]}/{digest}.link"


def in_rounds(links: Iterable[Link]) -> Iterator[tuple[Link, ...]]:
    """Links, each in a later round than those whose outputs it reads."""
    waiting = {link.output: link for link in links}
    while waiting:
        ready = tuple(
            link
            for link in waiting.values()
            if waiting.keys().isdisjoint((*link.whole, *link.on_demand, *link.inputs))
        )
        assert ready, "links read each other's outputs"
        yield ready
        for link in ready:
            del waiting[link.output]


@dataclass
class StoredLinks:
    """The links of a graph, and the store that keeps what they make.

    note     what is known of linked files of the workspace: see `build.linked`
    digests  sha256 of objects that are there, by output; of linked files too once they are
    texts    files that links read and that may not be written yet -> their text
    """

    here: Invocation
    links: tuple[Link, ...]
    store: ObjectStore
    environment: tuple[str, ...]
    note: Path
    digests: dict[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)

    def restore(self) -> tuple[dict[str, Known], tuple[str, ...]]:
        """Put the outputs of links that the store holds into the workspace, checked.

        Returns what is there now, by output, and the store's damaged entries, which are removed. An
        output that the store has lost and that the workspace's note vouches for stays, and is
        stored again. Raises OSError.
        """
        present, damaged = dict[str, Known](), list[str]()
        for ready in in_rounds(self.links):
            identities = self._identities(ready)
            for batch in _batches(identities, self.store):
                wanted = {stored_link(identities[out]): self._path(out) for out in batch}
                restored = self.store.restore(wanted)
                damaged += restored.damaged
                for output in batch:
                    identity = identities[output]
                    digest = restored.digests.get(stored_link(identity))
                    if digest is not None:
                        present[output] = Known(digest, identity.digest)
            present |= self._left(
                {out: one for out, one in identities.items() if out not in present}
            )
            for link in ready:
                if link.output in present:
                    self.digests[link.output] = present[link.output].sha256
                    if link.kind == "executable":
                        _allow_execution(self._path(link.output))
        return present, tuple(damaged)

    def keep(self, made: Mapping[Path, str], stay: Mapping[Path, str]) -> dict[Path, Known]:
        """Store what ninja has linked; returns it, with the identities of its links.

        made, stay: sha256 of the files that ninja has made, and of those that it left
        """
        known = {path: Known(digest) for path, digest in made.items()}
        files = {**stay, **made}
        for link in (link for ready in in_rounds(self.links) for link in ready):
            path = self._path(link.output)
            if path in files:
                self.digests[link.output] = files[path]
            if path not in made:
                continue
            for output in (*link.whole, *link.on_demand):
                if output not in self.digests:
                    self.digests[output] = readable_sha256(self._path(output))
            identity = self._identities([link]).get(link.output)
            if identity is not None:
                self.store.put(stored_link(identity), path)
                known[path] = Known(made[path], identity.digest)
        return known

    def listed(self) -> frozenset[str]:
        """Outputs of links that the store has, by the names of its entries only."""
        found = set[str]()
        for ready in in_rounds(self.links):
            names = {out: stored_link(one) for out, one in self._identities(ready).items()}
            digests = self.store.named_digests(names.values())
            for output, name in names.items():
                if name in digests:
                    self.digests[output] = digests[name]
                    found.add(output)
        return frozenset(found)

    def _left(self, identities: Mapping[str, Identity]) -> dict[str, Known]:
        outputs = {self._path(out): out for out in identities}
        noted = as_noted(self.note, {p: identities[out].digest for p, out in outputs.items()})
        for path in noted:
            self.store.put(stored_link(identities[outputs[path]]), path)
        return {outputs[path]: known for path, known in noted.items()}

    def _identities(self, links: Iterable[Link]) -> dict[str, Identity]:
        found = dict[str, Identity]()
        for link in links:
            for path in link.inputs:
                # what lies where a link of this graph is not made yet is an earlier build's
                if path not in self.digests and path not in self._outputs:
                    self.digests[path] = self._digest(path)
            toolchain = self.here.toolchains.of(link.abi)
            identity = link_identity(link, toolchain, self.environment, self.digests)
            if identity is not None:
                found[link.output] = identity
        return found

    @cached_property
    def _outputs(self) -> frozenset[str]:
        return frozenset(link.output for link in self.links)

    def _digest(self, path: str) -> str:
        text = self.texts.get(path)
        return readable_sha256(self._path(path)) if text is None else text_digest(text)

    def _path(self, output: str) -> Path:
        return Path(self.here.runtimes.fill(output))


def _batches(identities: Mapping[str, Identity], store: ObjectStore) -> Iterator[list[str]]:
    """The outputs of which the store has an entry; equal links, of several variants, one after the
    other."""
    names = {output: stored_link(identity) for output, identity in identities.items()}
    listed = store.listed(names.values())
    waiting = [output for output, name in names.items() if name in listed]
    while waiting:
        batch = list({names[output]: output for output in reversed(waiting)}.values())
        yield batch
        waiting = [output for output in waiting if output not in batch]


def _allow_execution(path: Path) -> None:
    """The store vouches for a file's content, not for its mode."""
    mode = path.stat().st_mode
    if mode & 0o111 != 0o111:
        path.chmod(mode | 0o111)
