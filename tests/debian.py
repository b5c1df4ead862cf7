"""Programs that some tests run and a machine may lack: from PATH, else from Debian's packages.

The packages are unpacked in the user's cache folder, without root, and stay there. The lists name
the libraries of Debian 12 too; where they cannot be got, the test fails and says what to install.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
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


def environment_with(programs: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """This process's environment, in which all `programs` (name -> packages) are on PATH."""
    env = dict(os.environ)
    if all(shutil.which(name) for name in programs):
        return env
    config, places = load_config(ROOT)
    cache = cache_folder(config, places, ROOT, env)
    names = [name for packages in programs.values() for name in packages]
    folder = cache / "debian" / ("tests-" + "-".join(sorted(programs)))
    binary_packages(names, folder, env, print)
    paths = [folder / name for name in FOLDERS]
    libraries = [path for name in LIBRARIES for path in sorted((folder / name).glob("*-linux-gnu"))]
    env["PATH"] = os.pathsep.join([*map(str, paths), env["PATH"]])
    env["LD_LIBRARY_PATH"] = os.pathsep.join(
        [*map(str, libraries), *filter(None, [env.get("LD_LIBRARY_PATH")])]
    )
    for name in programs:
        assert shutil.which(name, path=env["PATH"]), f"{name} is not in {', '.join(names)}"
    return env
