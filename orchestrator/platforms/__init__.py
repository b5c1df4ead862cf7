"""The platforms that variants are built for: one table of facts each.

`PLATFORMS` has them by the words of `system:` in toolchains/*.yaml. A new one is a module here, its
word in `values.config.System`, and its compiler in `compilers`; nothing else asks for its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from orchestrator.platforms.android import ANDROID
from orchestrator.platforms.ios import IOS, IOS_SIMULATOR
from orchestrator.platforms.linux import LINUX
from orchestrator.platforms.platform import Platform
from orchestrator.values.config import System

PLATFORMS: Final[Mapping[System, Platform]] = {
    platform.system: platform for platform in (LINUX, ANDROID, IOS, IOS_SIMULATOR)
}
