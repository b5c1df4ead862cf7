"""From linked libraries to what a developer adds to an app.

`deliver` makes a variant's folder, `PACKAGERS` the packages of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from orchestrator.package import deb, tarball
from orchestrator.package.delivered import Packager

# By the words of `packages:` in app.yaml.
PACKAGERS: Final[Mapping[str, Packager]] = {"deb": deb, "tar": tarball}
