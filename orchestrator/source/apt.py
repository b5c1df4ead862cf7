"""Gets Debian packages through the machine's apt client, without root: here a source package's
upstream archive, in `debian.py` binary packages.

The mirror, its keys and its options are those of the machine's own apt sources (one-line files and
deb822 files): each is written once more, for one type of packages, into a private list; the index
files and apt's caches live in a private folder, and packages installed on the machine are
ignored. Suites that are known to hold the wanted version of a source package are added to every
mirror that serves plain suites, so that a newer release of the distribution finds it too.

Formats: sources.list(5), and the `Sources` paragraphs that `apt-cache showsrc` prints (deb822(5)).
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from orchestrator.source.unpack import ArchiveMismatchError
from orchestrator.system.process import (
    LOCAL,
    Command,
    CommandRunner,
    Finished,
    SourceUnavailableError,
)
from orchestrator.values.config.workspace import DebianSource

UPDATE_SECONDS: Final = 300
DOWNLOAD_SECONDS: Final = 1800

Type = Literal["deb-src", "deb"]

# Options of a source that also hold for its twin in the private list; the rest (architectures,
# languages, targets) says what is read of it.
_KEPT: Final = ("Signed-By", "Trusted", "Check-Valid-Until", "Check-Date", "By-Hash")


@dataclass(frozen=True)
class AptSource:
    """One stanza of sources: every uri x suite; `options` are (name, value) as deb822 has them."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    options: tuple[tuple[str, str], ...]

    def as_stanza(self, type_: Type, more_suites: Sequence[str]) -> str:
        """This stanza for one type, also for `more_suites` where it serves plain suites."""
        plain = any(not re.search(r"[-/]", suite) for suite in self.suites)
        extra = [s for s in more_suites if plain and self.components and s not in self.suites]
        lines = [f"Types: {type_}", "URIs: " + " ".join(self.uris)]
        lines.append("Suites: " + " ".join([*self.suites, *extra]))
        if self.components:
            lines.append("Components: " + " ".join(self.components))
        lines += [f"{name}: {value}" for name, value in self.options]
        return "\n".join(lines) + "\n"


class PrivateApt:
    """The machine's apt client with lists, state and caches of its own in `folder` (ours alone).

    Subclasses ask for one type of packages; `suites` are asked besides those of the machine.
    """

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str],
        type_: Type,
        suites: Sequence[str],
        progress: Callable[[str], None],
        runner: CommandRunner = LOCAL,
    ) -> None:
        self._folder = folder
        self._runner = runner
        self._env = {**env, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
        self._type: Type = type_
        self._suites = suites
        self._progress = progress
        self._updated: Finished | None = None

    def _update(self) -> Finished:
        """Read the package indexes, once. A failed mirror shows in what is then missing."""
        if self._updated is None:
            for name in ("lists/partial", "cache/archives/partial"):
                (self._folder / name).mkdir(parents=True, exist_ok=True)
            (self._folder / "status").touch()
            sources = machine_sources(self._etc())
            if not sources:
                raise SourceUnavailableError("apt has no sources on this machine")
            text = "\n".join(source.as_stanza(self._type, self._suites) for source in sources)
            (self._folder / "private.sources").write_text(text, encoding="utf-8")
            what = "source" if self._type == "deb-src" else "binary"
            self._progress(f"apt: reading the indexes of {what} packages")
            self._updated = self._run(["apt-get", *self._options(), "update"], UPDATE_SECONDS)
        return self._updated

    def _etc(self) -> tuple[Path, Path]:
        """The machine's sources.list and sources.list.d."""
        values = self._config(MAIN="Dir::Etc::sourcelist/f", PARTS="Dir::Etc::sourceparts/d")
        return Path(values["MAIN"]), Path(values["PARTS"])

    def _config(self, **wanted: str) -> dict[str, str]:
        """Values of the machine's apt configuration: name -> what the wanted option is."""
        words = [word for pair in wanted.items() for word in pair]
        done = self._run(["apt-config", "shell", *words], 30)
        values = dict(word.split("=", 1) for word in shlex.split(done.out))
        if done.code != 0 or set(values) != set(wanted):
            raise SourceUnavailableError(f"apt-config: {done.reason()}")
        return values

    def _options(self) -> list[str]:
        options = {
            "Dir::Etc::SourceList": self._folder / "private.sources",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": self._folder / "lists",
            "Dir::State::Status": self._folder / "status",
            "Dir::Cache": self._folder / "cache",
            "Acquire::Retries": 1,
            "Acquire::http::Timeout": 20,
            "Acquire::https::Timeout": 20,
            "Acquire::Languages": "none",
        }
        if os.geteuid() == 0:
            # root's apt drops its privileges for downloads, and could not write here
            options["APT::Sandbox::User"] = "root"
        return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]

    def _run(self, argv: Sequence[str], seconds: float) -> Finished:
        try:
            return self._runner.run(Command(argv, self._env, self._folder, seconds))
        except FileNotFoundError:
            raise SourceUnavailableError(f"{argv[0]} is not installed") from None


def update_fault(update: Finished) -> str:
    """The first thing that reading the indexes complained about, ` (in parentheses)`."""
    lines = (update.err + update.out).splitlines()
    faults = [line for line in lines if re.match(r"[EW]: ", line)]
    return f" ({faults[0]})" if faults else ""


class AptClient(PrivateApt):
    """Gets source packages' upstream archives."""

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str],
        suites: Sequence[str],
        progress: Callable[[str], None],
        runner: CommandRunner = LOCAL,
    ) -> None:
        super().__init__(folder, env, "deb-src", suites, progress, runner)

    def download(self, source: DebianSource) -> Path:
        """The upstream archive of `source`, in this client's folder, its sha256 verified.

        Raises `SourceUnavailableError`, `ArchiveMismatchError`.
        """
        update = self._update()
        version, sha256 = self._find(source, update)
        if sha256 != source.sha256:
            raise _mismatch(source, sha256, "the distribution's index lists a different archive")
        self._progress(f"apt: downloading {source.archive}")
        wanted = f"{source.package}={version}"
        options = [*self._options(), "--download-only", "--tar-only"]
        argv = ["apt-get", *options, "source", "--", wanted]
        done = self._run(argv, DOWNLOAD_SECONDS)
        archive = self._folder / source.archive
        if done.code != 0 or not archive.is_file():
            raise SourceUnavailableError(f"apt-get source {wanted}: {done.reason()}")
        with archive.open("rb") as stream:
            seen = hashlib.file_digest(stream, "sha256").hexdigest()
        if seen != source.sha256:
            raise _mismatch(source, seen, "the downloaded archive does not match the pinned digest")
        return archive

    def _find(self, source: DebianSource, update: Finished) -> tuple[str, str]:
        """(package version, sha256) of the source package that has the archive."""
        argv = ["apt-cache", *self._options(), "--only-source", "showsrc", "--", source.package]
        offered = parse_sources(self._run(argv, UPDATE_SECONDS).out)
        for version, archives in offered:
            if source.archive in archives:
                return version, archives[source.archive]
        if offered:
            seen = ", ".join(sorted({version for version, _ in offered}))
            raise SourceUnavailableError(
                f"the mirror has {source.package} {seen}, without {source.archive}"
            )
        why = update_fault(update)
        raise SourceUnavailableError(f"the mirror has no source package {source.package}{why}")


def machine_sources(etc: tuple[Path, Path]) -> tuple[AptSource, ...]:
    """The sources of this machine: sources.list, then the folder's files in apt's order."""
    main, parts = etc
    files = [main] if main.is_file() else []
    if parts.is_dir():
        files += sorted(f for f in parts.iterdir() if f.suffix in (".list", ".sources"))
    found: list[AptSource] = []
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        found += _deb822_sources(text) if file.suffix == ".sources" else _one_line_sources(text)
    return tuple(dict.fromkeys(found))


def parse_sources(text: str) -> list[tuple[str, Mapping[str, str]]]:
    """(version, {archive: sha256}) of each paragraph that `apt-cache showsrc` printed."""
    found: list[tuple[str, Mapping[str, str]]] = []
    for fields in _paragraphs(text):
        if "version" in fields:
            lines = [line.split() for line in fields.get("checksums-sha256", "").splitlines()]
            archives = {words[2]: words[0] for words in lines if len(words) == 3}
            found.append((fields["version"], archives))
    return found


def _paragraphs(text: str) -> list[dict[str, str]]:
    """deb822: fields by lower-case name; the lines of a field that goes on are kept."""
    paragraphs: list[dict[str, str]] = [{}]
    name = ""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.strip():
            paragraphs.append({})
        elif line[0] in " \t":
            if name in paragraphs[-1]:
                paragraphs[-1][name] += "\n" + line
        elif ":" in line:
            key, _, value = line.partition(":")
            name = key.lower()
            paragraphs[-1][name] = value.strip()
    return [fields for fields in paragraphs if fields]


def _deb822_sources(text: str) -> list[AptSource]:
    found = []
    for fields in _paragraphs(text):
        enabled = fields.get("enabled", "yes").lower() not in ("no", "false", "off", "0")
        if enabled and {"deb", "deb-src"} & set(fields.get("types", "").split()):
            uris, suites = fields.get("uris", "").split(), fields.get("suites", "").split()
            parts = fields.get("components", "").split()
            options = [(name, fields[name.lower()]) for name in _KEPT if name.lower() in fields]
            found.append(AptSource(tuple(uris), tuple(suites), tuple(parts), tuple(options)))
    return [source for source in found if source.uris and source.suites]


# deb [ options ] uri suite [component1] [component2] [...]
_ONE_LINE: Final = re.compile(
    r"deb(?:-src)?\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)((?:\s+[^#\s]\S*)*)"
)


def _one_line_sources(text: str) -> list[AptSource]:
    found = []
    for line in text.splitlines():
        match = _ONE_LINE.match(line.strip())
        if match:
            words = (word.partition("=") for word in (match[1] or "").split())
            given = {name.lower(): value for name, _, value in words}
            options = [(name, given[name.lower()]) for name in _KEPT if name.lower() in given]
            parts = tuple(match[4].split())
            found.append(AptSource((match[2],), (match[3],), parts, tuple(options)))
    return found


def _mismatch(source: DebianSource, seen: str, what: str) -> ArchiveMismatchError:
    return ArchiveMismatchError(
        f"{source.archive}: {what}",
        expected=f"sha256 {source.sha256}",
        seen=f"sha256 {seen}",
        hint="check the pin in WORKSPACE; if it is right, do not use this mirror",
    )
