"""The machine's apt sources, said again for source packages; the real client on a small mirror."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from orchestrator.source.apt import AptClient, AptSource, machine_sources, parse_sources
from orchestrator.source.unpack import ArchiveMismatchError
from orchestrator.system.process import SourceUnavailableError
from orchestrator.values.config.workspace import DebianSource

ONE_LINE = """\
# deb http://mirror.test/off stable main
deb http://mirror.test/debian bookworm main contrib  # the base
  deb [arch=amd64 signed-by=/keys/a.gpg trusted=yes] https://other.test/ stable main
deb-src http://mirror.test/flat ./
rpm http://mirror.test/no this main
deb
"""

DEB822 = """\
# of the image
Types: deb
# an old snapshot
URIs: http://mirror.test/debian http://mirror2.test/debian
Suites: bookworm bookworm-updates
Components: main
Architectures: amd64
Signed-By: /keys/a.gpg

Types: deb
URIs: http://mirror.test/off
Suites: bookworm
Components: main
Enabled: no

types: deb deb-src
uris: http://mirror.test/security
suites: bookworm-security
components: main
signed-by:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEY
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
Suites: incomplete
"""


@pytest.fixture
def etc(tmp_path: Path) -> tuple[Path, Path]:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text(ONE_LINE)
    (parts / "image.sources").write_text(DEB822)
    (parts / "ignored.list.disabled").write_text("deb http://mirror.test/ignored sid main\n")
    return tmp_path / "sources.list", parts


def test_sources_of_both_kinds(etc: tuple[Path, Path]) -> None:
    base, other, flat, deb822, security = machine_sources(etc)
    assert base == AptSource(("http://mirror.test/debian",), ("bookworm",), ("main", "contrib"), ())
    assert other.options == (("Signed-By", "/keys/a.gpg"), ("Trusted", "yes"))
    assert flat == AptSource(("http://mirror.test/flat",), ("./",), (), ())
    assert deb822.uris == ("http://mirror.test/debian", "http://mirror2.test/debian")
    assert deb822.suites == ("bookworm", "bookworm-updates")
    assert deb822.options == (("Signed-By", "/keys/a.gpg"),)
    assert security.suites == ("bookworm-security",)
    assert "mDMEY" in dict(security.options)["Signed-By"]


def test_no_sources_at_all(tmp_path: Path) -> None:
    assert machine_sources((tmp_path / "none", tmp_path / "none.d")) == ()


def test_a_source_said_again_for_source_packages(etc: tuple[Path, Path]) -> None:
    _, other, flat, deb822, security = machine_sources(etc)
    assert deb822.as_stanza("deb-src", ["bookworm", "trixie"]) == (
        "Types: deb-src\n"
        "URIs: http://mirror.test/debian http://mirror2.test/debian\n"
        "Suites: bookworm bookworm-updates trixie\n"
        "Components: main\n"
        "Signed-By: /keys/a.gpg\n"
    )
    assert other.as_stanza("deb-src", []).endswith("Signed-By: /keys/a.gpg\nTrusted: yes\n")
    # other suites are asked only where plain suites are served
    assert "trixie" not in security.as_stanza("deb-src", ["trixie"])
    assert flat.as_stanza("deb-src", ["trixie"]) == (
        "Types: deb-src\nURIs: http://mirror.test/flat\nSuites: ./\n"
    )
    assert security.as_stanza("deb-src", []).splitlines()[4:] == [
        "Signed-By: ",
        " -----BEGIN PGP PUBLIC KEY BLOCK-----",
        " .",
        " mDMEY",
        " -----END PGP PUBLIC KEY BLOCK-----",
    ]


def test_what_showsrc_prints() -> None:
    text = (
        "Package: p\nVersion: 1.0-1\nFiles:\n 00 1 p_1.0.dsc\n"
        "Checksums-Sha256:\n aa 1 p_1.0.dsc\n bb 22 p_1.0.orig.tar.xz\nHomepage: x\n\n"
        "Package: p\nVersion: 2.0-1\nChecksums-Sha256:\n cc 1 p_2.0.orig.tar.xz\n\n"
    )
    assert parse_sources(text) == [
        ("1.0-1", {"p_1.0.dsc": "aa", "p_1.0.orig.tar.xz": "bb"}),
        ("2.0-1", {"p_2.0.orig.tar.xz": "cc"}),
    ]
    assert parse_sources("") == []


CONTENT = b"the upstream source"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PIN = DebianSource(package="demo", archive="demo_1.0.orig.tar.gz", sha256=SHA256)


class Mirror:
    """A flat apt repository on this disk, and an apt configuration that knows only it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        etc = folder / "etc"
        (etc / "sources.list.d").mkdir(parents=True)
        (etc / "sources.list").write_text(f"deb [trusted=yes] file:{folder}/repo ./\n")
        (etc / "apt.conf").write_text(
            f'Dir::Etc::sourcelist "{etc}/sources.list";\n'
            f'Dir::Etc::sourceparts "{etc}/sources.list.d";\n'
        )
        (folder / "repo").mkdir()
        (folder / "client").mkdir()

    def offer(self, version: str, content: bytes = CONTENT, sha256: str = SHA256) -> None:
        """Put a source package on the mirror; its .dsc is not there, as on some mirrors."""
        name = f"demo_{version}.orig.tar.gz"
        (self.folder / "repo" / name).write_bytes(content)
        with (self.folder / "repo/Sources").open("a") as sources:
            sources.write(
                f"Package: demo\nBinary: demo\nVersion: {version}-1\nFormat: 3.0 (quilt)\n"
                f"Directory: .\nFiles:\n {'0' * 32} 10 demo_{version}-1.dsc\n"
                f" {hashlib.md5(content).hexdigest()} {len(content)} {name}\n"
                f"Checksums-Sha256:\n {'0' * 64} 10 demo_{version}-1.dsc\n"
                f" {sha256} {len(content)} {name}\n\n"
            )

    def client(self, **env: str) -> AptClient:
        environment = {**os.environ, "APT_CONFIG": str(self.folder / "etc/apt.conf"), **env}
        return AptClient(self.folder / "client", environment, (), self.said.append)


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror(tmp_path)


def test_the_pinned_version_is_found_below_a_newer_one(mirror: Mirror) -> None:
    mirror.offer("1.0")
    mirror.offer("2.0", b"newer", hashlib.sha256(b"newer").hexdigest())
    archive = mirror.client().download(PIN)
    assert archive.read_bytes() == CONTENT
    assert archive.parent == mirror.folder / "client"
    assert mirror.said == [
        "apt: reading the indexes of source packages",
        "apt: downloading demo_1.0.orig.tar.gz",
    ]


def test_the_indexes_are_read_once(mirror: Mirror) -> None:
    mirror.offer("1.0")
    client = mirror.client()
    client.download(PIN)
    client.download(PIN)
    assert len([text for text in mirror.said if "indexes" in text]) == 1


def test_another_version_than_the_pinned_one(mirror: Mirror) -> None:
    mirror.offer("2.0")
    mirror.offer("3.0")
    with pytest.raises(SourceUnavailableError) as caught:
        mirror.client().download(PIN)
    assert str(caught.value) == "the mirror has demo 2.0-1, 3.0-1, without demo_1.0.orig.tar.gz"


def test_a_mirror_without_the_package(mirror: Mirror) -> None:
    mirror.offer("1.0")
    with pytest.raises(SourceUnavailableError) as caught:
        mirror.client().download(PIN.model_copy(update={"package": "other"}))
    assert str(caught.value) == "the mirror has no source package other"


def test_a_name_is_never_an_option(mirror: Mirror) -> None:
    tools, asked = mirror.folder / "bin", mirror.folder / "asked"
    tools.mkdir()
    script = f'#!/bin/sh\necho "$*" > {asked}\nexec /usr/bin/apt-cache "$@"\n'
    (tools / "apt-cache").write_text(script)
    (tools / "apt-cache").chmod(0o755)
    client = mirror.client(PATH=f"{tools}:{os.environ['PATH']}")
    with pytest.raises(SourceUnavailableError):
        client.download(PIN.model_copy(update={"package": "-oDir::Bin=x"}))
    assert asked.read_text().endswith(" --only-source showsrc -- -oDir::Bin=x\n")


def test_a_mirror_that_is_not_there(mirror: Mirror) -> None:
    (mirror.folder / "repo").rmdir()
    with pytest.raises(SourceUnavailableError) as caught:
        mirror.client().download(PIN)
    assert "the mirror has no source package demo (" in str(caught.value)


def test_the_index_names_another_content(mirror: Mirror) -> None:
    mirror.offer("1.0", b"evil", hashlib.sha256(b"evil").hexdigest())
    with pytest.raises(ArchiveMismatchError) as caught:
        mirror.client().download(PIN)
    assert caught.value.render() == (
        "error: demo_1.0.orig.tar.gz: the distribution's index lists a different archive\n"
        f"  expected: sha256 {SHA256}\n"
        f"  seen:     sha256 {hashlib.sha256(b'evil').hexdigest()}\n"
        "  do:       check the pin in WORKSPACE; if it is right, do not use this mirror"
    )


def test_the_mirror_serves_another_content_than_its_index(mirror: Mirror) -> None:
    mirror.offer("1.0", b"x" * len(CONTENT))
    with pytest.raises(SourceUnavailableError, match=r"^apt-get source demo=1\.0-1: ") as caught:
        mirror.client().download(PIN)
    assert "Hash Sum mismatch" in str(caught.value) or "Failed to fetch" in str(caught.value)


def test_a_client_that_lets_another_content_pass(mirror: Mirror) -> None:
    """apt checks what it downloads; we check it again. A client that does not is put before it."""
    mirror.offer("1.0")
    tools = mirror.folder / "bin"
    tools.mkdir()
    (tools / "apt-get").write_text(
        '#!/bin/sh\n/usr/bin/apt-get "$@" || exit\n'
        'case "$*" in *--download-only*) echo evil > demo_1.0.orig.tar.gz;; esac\n'
    )
    (tools / "apt-get").chmod(0o755)
    with pytest.raises(ArchiveMismatchError) as caught:
        mirror.client(PATH=f"{tools}:{os.environ['PATH']}").download(PIN)
    assert (
        caught.value.what
        == "demo_1.0.orig.tar.gz: the downloaded archive does not match the pinned digest"
    )


def test_a_machine_without_apt(mirror: Mirror) -> None:
    with pytest.raises(SourceUnavailableError) as caught:
        mirror.client(PATH=str(mirror.folder)).download(PIN)
    assert str(caught.value) == "apt-config is not installed"


def test_a_machine_without_sources(mirror: Mirror) -> None:
    (mirror.folder / "etc/sources.list").unlink()
    with pytest.raises(SourceUnavailableError) as caught:
        mirror.client().download(PIN)
    assert str(caught.value) == "apt has no sources on this machine"
