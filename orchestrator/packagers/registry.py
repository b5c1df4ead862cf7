"""The packagers of all kinds of packages: they make the packages of one app's folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from orchestrator.deliver.delivered import Packager
from orchestrator.packagers import aar, deb, tarball, wheel, xcframework
from orchestrator.values.config.app import PackageKind

# By the words of `packages:` in app.yaml.
PACKAGERS: Final[Mapping[PackageKind, Packager]] = {
    "tar": tarball,
    "deb": deb,
    "aar": aar,
    "xcframework": xcframework,
    "wheel": wheel,
}
