"""The names of an app's libraries and packages, also in Python's form."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping
from typing import Final

from orchestrator.values.config.app import PackageKind

# Kind -> what it has packages of: the library itself, and what else stands beside it.
PARTS: Final[Mapping[PackageKind, tuple[str, ...]]] = {
    "tar": ("",),
    "deb": ("", "-dev", "-dbgsym"),
    "aar": ("", "-native"),
    "xcframework": ("",),
    "wheel": ("",),  # what Python calls it: `python_name`
}


def library_name(app: str) -> str:
    """The stem of an app's libraries: `camera_torch` for `libcamera_torch.so` and its archives."""
    return f"{app}_torch"


def default_package_name(app: str) -> str:
    """The name of an app's packages where it gives none: `_`, which Debian's names may not have
    (Debian Policy, 5.6.1), becomes `-`."""
    return f"{app.lower().replace('_', '-')}-libtorch"


def artifact_name(package: str) -> str:
    """A package's name as Maven takes it, which knows no `+` (DefaultModelValidator)."""
    return re.sub(r"[^a-z0-9_.-]", "_", package)


def module_name(package: str) -> str:
    """`CameraLibtorch`: a package's name as Swift and C modules are called."""
    words = re.findall(r"[A-Za-z0-9]+", package)
    name = "".join(word[0].upper() + word[1:] for word in words)
    return name if name[0].isalpha() else f"Lib{name}"


def names_of(kind: PackageKind, package: str, maven_group: str | None) -> tuple[str, ...]:
    """Names under which packages of a kind are installed or fetched; empty if no other app's
    package can have the same."""
    if kind == "aar":
        if maven_group is None:  # the group is of the app alone
            return ()
        called = f"{maven_group}:{artifact_name(package)}"
    else:
        called = module_name(package) if kind == "xcframework" else package
    return tuple(called + part for part in PARTS[kind])


# The letters of PEP 440's pre-releases, and the spellings that mean them.
_PRE: Final = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
_PYTHON_VERSION: Final = re.compile(
    r"""
    (?P<release>\d+(?:\.\d+)*)
    (?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_number>\d*))?
    (?:-(?P<implicit>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_number>\d*))?
    (?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_number>\d*))?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
# https://packaging.python.org/en/latest/specifications/name-normalization/
_PYTHON_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", re.IGNORECASE | re.ASCII)

# What a wheel's name has to be, for messages.
PYTHON_NAME_WORDS: Final = (
    "letters, digits, `.`, `_` and `-`, with a letter first, and no word or module of Python's"
)
# And its version.
PYTHON_VERSION_WORDS: Final = "a version by PEP 440: `1.2.0`, `1.2.0-rc1` or `1.2.0+local`"


def python_name(package_name: str) -> str | None:
    """The name of an app's wheel, by which Python imports it: `camera_libtorch`.

    As wheels' files write names (PEP 427, and PEP 503 with `_`). None where it is no name of a
    package index, no word of Python's, or hides a module that the package needs or Python has.
    """
    if not _PYTHON_NAME.fullmatch(package_name):
        return None
    name = re.sub(r"[-_.]+", "_", package_name).lower()
    taken = keyword.iskeyword(name) or name in sys.stdlib_module_names or name == "numpy"
    return name if name.isidentifier() and not taken else None


def python_version(version: str) -> str | None:
    """A version as PEP 440 normalises it: `1.2.0rc1` of `1.2.0-rc1`; None of one that is none."""
    match = _PYTHON_VERSION.fullmatch(version)
    if match is None:
        return None
    text = ".".join(str(int(part)) for part in match["release"].split("."))
    if match["pre"]:
        letters = match["pre"].lower()
        text += f"{_PRE.get(letters, letters)}{int(match['pre_number'] or 0)}"
    if match["implicit"]:
        text += f".post{int(match['implicit'])}"
    elif match["post"]:
        text += f".post{int(match['post_number'] or 0)}"
    if match["dev"]:
        text += f".dev{int(match['dev_number'] or 0)}"
    if match["local"]:
        parts = re.split(r"[-_.]", match["local"].lower())
        text += "+" + ".".join(str(int(part)) if part.isdigit() else part for part in parts)
    return text
