"""Binary packages: the real apt client and dpkg-deb, on a small mirror on this disk."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.source.debian import MARKER, PackagesUnavailableError, binary_packages

CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: test <test@localhost>
Depends: never-asked-for
Description: test
"""


class Mirror:
    """A flat apt repository, and an apt configuration that knows only it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.into = folder / "user" / "tools"
        etc = folder / "etc"
        (etc / "sources.list.d").mkdir(parents=True)
        (etc / "sources.list").write_text(f"deb [trusted=yes] file:{folder}/repo ./\n")
        (etc / "apt.conf").write_text(
            f'Dir::Etc::sourcelist "{etc}/sources.list";\n'
            f'Dir::Etc::sourceparts "{etc}/sources.list.d";\n'
            'APT::Architecture "amd64";\n'
        )
        (folder / "repo").mkdir()

    def offer(self, name: str, version: str = "1.0", architecture: str = "amd64") -> Path:
        """Put a package on the mirror, with one file /usr/bin/<name> and a link to it."""
        control = CONTROL.format(name=name, version=version, architecture=architecture)
        tree = self.folder / "tree" / f"{name}-{version}-{architecture}"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "usr/bin").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(control)
        (tree / "usr/bin" / name).write_text(f"{name} {version} {architecture}")
        (tree / "usr/bin" / f"{name}-link").symlink_to(name)
        deb = self.folder / "repo" / f"{name}_{version}_{architecture}.deb"
        subprocess.run(
            ["dpkg-deb", "--build", "--root-owner-group", tree, deb],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        content = deb.read_bytes()
        with (self.folder / "repo/Packages").open("a") as packages:
            packages.write(
                f"{control}Filename: ./{deb.name}\nSize: {len(content)}\n"
                f"SHA256: {hashlib.sha256(content).hexdigest()}\n\n"
            )
        return deb

    def get(self, *names: str, **env: str) -> Path:
        environment = {**os.environ, "APT_CONFIG": str(self.folder / "etc/apt.conf"), **env}
        return binary_packages(names, self.into, environment, self.said.append)

    def left(self) -> list[str]:
        """What lies beside the folder, which must be its lock file alone."""
        return sorted(path.name for path in self.into.parent.iterdir() if path != self.into)


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror(tmp_path)


def test_packages_are_unpacked_once(mirror: Mirror) -> None:
    mirror.offer("one", "1.0")
    mirror.offer("one", "2.0")
    mirror.offer("two")
    folder = mirror.get("two", "one")
    assert folder == mirror.into
    assert (folder / "usr/bin/one").read_text() == "one 2.0 amd64"
    assert (folder / "usr/bin/two").read_text() == "two 1.0 amd64"
    assert (folder / "usr/bin/two-link").readlink() == Path("two")
    assert (folder / MARKER).read_text() == (
        '{\n "packages": [\n  "one",\n  "two"\n ],\n'
        ' "archives": [\n  "one_2.0_amd64.deb",\n  "two_1.0_amd64.deb"\n ]\n}\n'
    )
    assert mirror.said == [
        "apt: reading the indexes of binary packages",
        "apt: downloading one, two",
    ]
    assert mirror.left() == [".tools.lock"]
    mirror.said.clear()
    assert mirror.get("one", "two") == folder
    assert mirror.said == []


def test_a_package_of_another_architecture(mirror: Mirror) -> None:
    mirror.offer("one")
    mirror.offer("libc", architecture="arm64")
    folder = mirror.get("one", "libc:arm64")
    assert (folder / "usr/bin/libc").read_text() == "libc 1.0 arm64"


def test_other_packages_take_the_folder_over(mirror: Mirror) -> None:
    mirror.offer("one")
    mirror.offer("two")
    mirror.get("one")
    folder = mirror.get("two")
    assert sorted(path.name for path in (folder / "usr/bin").iterdir()) == ["two", "two-link"]
    assert mirror.left() == [".tools.lock"]


def test_files_that_are_not_ours_stay(mirror: Mirror) -> None:
    mirror.offer("one")
    mirror.into.mkdir(parents=True)
    (mirror.into / "mine").write_text("kept")
    with pytest.raises(PackagesUnavailableError) as caught:
        mirror.get("one")
    assert caught.value.render() == (
        "error: packages would be unpacked over existing files\n"
        f"  seen:     {mirror.into}\n"
        "  do:       remove that folder"
    )
    assert (mirror.into / "mine").read_text() == "kept"


def test_a_package_that_the_mirror_lacks(mirror: Mirror) -> None:
    mirror.offer("one")
    with pytest.raises(PackagesUnavailableError) as caught:
        mirror.get("one", "other")
    assert caught.value.render() == (
        "error: apt cannot provide Debian packages here: one, other\n"
        "  seen:     apt-get download: E: Unable to locate package other\n"
        "  do:       install them yourself: apt-get install one other"
    )
    assert not mirror.into.exists()
    assert mirror.left() == [".tools.lock"]


def test_the_mirror_serves_another_content_than_its_index(mirror: Mirror) -> None:
    deb = mirror.offer("one")
    deb.write_bytes(bytes(reversed(deb.read_bytes())))
    with pytest.raises(PackagesUnavailableError) as caught:
        mirror.get("one")
    assert "Hash Sum mismatch" in str(caught.value.seen) or "Failed to fetch" in str(
        caught.value.seen
    )
    assert not mirror.into.exists()


def test_what_an_interrupted_process_left_is_removed(mirror: Mirror) -> None:
    mirror.offer("one")
    stale = mirror.into.with_name(".tools.staging-1-00000000")
    (stale / "root").mkdir(parents=True)
    mirror.get("one")
    assert mirror.left() == [".tools.lock"]


def test_ctrl_c_leaves_nothing(mirror: Mirror) -> None:
    mirror.offer("one")

    def stop(text: str) -> None:
        if "downloading" in text:
            raise KeyboardInterrupt

    environment = {**os.environ, "APT_CONFIG": str(mirror.folder / "etc/apt.conf")}
    with pytest.raises(KeyboardInterrupt):
        binary_packages(["one"], mirror.into, environment, stop)
    assert not mirror.into.exists()
    assert mirror.left() == [".tools.lock"]


def test_a_machine_without_apt_or_dpkg(mirror: Mirror) -> None:
    mirror.offer("one")
    with pytest.raises(PackagesUnavailableError) as caught:
        mirror.get("one", PATH=str(mirror.folder))
    assert caught.value.seen == "apt-config is not installed"
    tools = mirror.folder / "bin"
    tools.mkdir()
    for name in ("apt-get", "apt-config", "dpkg"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    with pytest.raises(PackagesUnavailableError) as caught:
        mirror.get("one", PATH=str(tools))
    assert caught.value.seen == "dpkg-deb is not installed"


def _get(mirror: Mirror, said: multiprocessing.Queue[list[str]]) -> None:
    mirror.get("one")
    said.put(mirror.said)


def test_two_processes_at_once(mirror: Mirror) -> None:
    mirror.offer("one")
    said: multiprocessing.Queue[list[str]] = multiprocessing.Queue()
    both = [multiprocessing.Process(target=_get, args=(mirror, said)) for _ in range(2)]
    for process in both:
        process.start()
    texts = [text for _ in both for text in said.get(timeout=60)]
    for process in both:
        process.join()
        assert process.exitcode == 0
    assert texts.count("apt: downloading one") == 1
    assert (mirror.into / "usr/bin/one").is_file()
    assert mirror.left() == [".tools.lock"]


def test_a_name_is_never_an_option(mirror: Mirror) -> None:
    mirror.offer("one")
    with pytest.raises(PackagesUnavailableError) as caught:
        mirror.get("--help")
    assert caught.value.seen == "apt-get download: E: Unable to locate package --help"
