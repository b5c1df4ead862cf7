"""A system of Debian's unstable packages, in a folder: for programs that a released Debian lacks.

Its programs run behind `chroot`, in mounts of their own: for this one needs root, as `apt` in
containers has it. No script of a package runs. The folder stays, below the user's cache, and is
unpacked again after it is removed: unstable's packages change from day to day.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

SUITE = (
    "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    " http://deb.debian.org/debian sid main\n"
)
# what a merged /usr has in place of folders
MERGED = ("bin", "lib", "lib64", "sbin")
DEVICES = ("full", "fuse", "null", "random", "urandom", "zero")


def debian_root(folder: Path, packages: Sequence[str]) -> Path:
    """The root folder of such a system with these packages and all that they depend on."""
    root, done = folder / "root", folder / "unpacked"
    wanted = " ".join(sorted(packages))
    if done.exists() and done.read_text() == wanted:
        return root
    apt = folder / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "sources.list").write_text(SUITE)
    (apt / "status").touch()
    options = {
        "Dir::Etc::SourceList": apt / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "APT::Install-Recommends": "0",
        "Debug::NoLocking": "1",
    }
    get = ["apt-get", "-qq", "-y", *(f"-o{name}={value}" for name, value in options.items())]
    subprocess.run([*get, "update"], check=True)
    subprocess.run([*get, "--download-only", "install", *sorted(packages)], check=True)
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (root / name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    for package in sorted((apt / "cache/archives").glob("*.deb")):
        unpack = ["tar", "-x", "-C", str(root), "--keep-directory-symlink"]
        data = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
        subprocess.run(unpack, stdin=data.stdout, check=True)
        assert data.wait() == 0, package
        package.unlink()
    for name in ("passwd", "group", "hosts"):
        (root / "etc" / name).write_bytes(Path("/etc", name).read_bytes())
    for name in DEVICES:
        (root / "dev" / name).touch()
    done.write_text(wanted)
    return root


def inside(
    root: Path, command: Sequence[str], *, shared: Path | None = None, machine: Path | None = None
) -> list[str]:
    """A command that runs `command` in the system.

    shared   a folder that it sees at the same path
    machine  a folder for a system of its own over `root`: with its own files, processes, and name
    """
    where = root if machine is None else machine / "root"
    steps = ["set -e", "mount --make-rprivate /"]
    if machine is not None:
        layers = ",".join(
            f"{kind}={path}"
            for kind, path in (
                ("lowerdir", root),
                ("upperdir", machine / "upper"),
                ("workdir", machine / "work"),
            )
        )
        steps += [
            f"hostname {machine.name}",
            f"mkdir -p {machine}/root {machine}/upper {machine}/work",
            f"mount -t overlay overlay -o {layers} {where}",
            f"mount -t tmpfs tmpfs {where}/tmp",
        ]
    steps += [
        f"mount -t proc proc {where}/proc",
        *(f"mount --bind /dev/{name} {where}/dev/{name}" for name in DEVICES),
    ]
    if shared is not None:
        steps += [f"mkdir -p {where}{shared}", f"mount --bind {shared} {where}{shared}"]
    steps.append(f'exec chroot {where} "$@"')
    spaces = ["--mount"]
    if machine is not None:
        spaces += ["--pid", "--fork", "--kill-child", "--uts", "--ipc"]
    return ["unshare", *spaces, "sh", "-c", "\n".join(steps), "sh", *command]
