"""Programs that some tests run and a machine may lack: from PATH, else from Debian's packages; and
Java libraries, always from there.

The packages are unpacked in the user's cache folder, without root, and stay there. The lists name
the libraries of Debian 12 too; where they cannot be got, the test fails and says what to install.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.load.workspace import cache_folder, load_config
from orchestrator.source.debian import binary_packages

ROOT = Path(__file__).parents[1]
FOLDERS = ("usr/bin", "usr/sbin", "bin")
LIBRARIES = ("usr/lib", "lib")

# program -> its package, and the libraries that a small Debian lacks
CCACHE = ("ccache", "libhiredis0.14")
REDIS = ("redis-server", "redis-tools", "libatomic1", "libjemalloc2", "liblzf1", "libssl3")
KERBEROS = ("libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0", "libkeyutils1")
AVAHI = ("libavahi-client3", "libavahi-common3", "libdbus-1-3")
SCCACHE = ("sccache", "libzstd1")
DISTCC = ("distcc", "libpopt0", "libcom-err2", *KERBEROS, *AVAHI)
# Maven's resolver and what reads its POMs, 3 MB
MAVEN = (
    "libmaven3-core-java",
    "libmaven-resolver-java",
    "libplexus-utils2-java",
    "libplexus-interpolation-java",
    "libcommons-lang3-java",
    "libslf4j-java",
)


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """The folder of packages for tests, below the user's cache."""
    config, places = load_config(ROOT)
    folder = cache_folder(config, places, ROOT, os.environ) / "debian" / f"tests-{name}"
    return binary_packages(packages, folder, os.environ, print)


def java_libraries(*packages: str) -> list[Path]:
    """The jars of Debian's packages: a class path."""
    name = hashlib.sha256(" ".join(sorted(packages)).encode()).hexdigest()[:8]
    folder = unpacked(f"java-{name}", packages) / "usr/share/java"
    return sorted(folder.glob("*.jar"))


def environment_with(programs: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """This process's environment, in which all `programs` (name -> packages) are on PATH."""
    env = dict(os.environ)
    if all(shutil.which(name) for name in programs):
        return env
    names = [name for packages in programs.values() for name in packages]
    folder = unpacked("-".join(sorted(programs)), names)
    paths = [folder / name for name in FOLDERS]
    libraries = [path for name in LIBRARIES for path in sorted((folder / name).glob("*-linux-gnu"))]
    env["PATH"] = os.pathsep.join([*map(str, paths), env["PATH"]])
    env["LD_LIBRARY_PATH"] = os.pathsep.join(
        [*map(str, libraries), *filter(None, [env.get("LD_LIBRARY_PATH")])]
    )
    for name in programs:
        assert shutil.which(name, path=env["PATH"]), f"{name} is not in {', '.join(names)}"
    return env
