"""The platforms that variants are built for: one table of facts each.

`PLATFORMS` maps the values of `system:` in toolchains/*.yaml to them. A new platform takes a module
here, its name in `values.config.toolchain.System`, and its compiler in `compilers`; nothing else
tests for its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from orchestrator.platforms.android import ANDROID
from orchestrator.platforms.ios import IOS, IOS_SIMULATOR
from orchestrator.platforms.linux import LINUX
from orchestrator.platforms.platform import Platform
from orchestrator.values.config.toolchain import System

PLATFORMS: Final[Mapping[System, Platform]] = {
    platform.system: platform for platform in (LINUX, ANDROID, IOS, IOS_SIMULATOR)
}
