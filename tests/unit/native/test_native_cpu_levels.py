"""The model runner tells which CPU levels a library may choose from: the header, as it is compiled.

That an emulator's processor is asked, and not this machine's, is tested with real libraries
(tests/integration/test_verified_levels.py).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import package_toy as toy
import pytest
from cpu_levels import processor_levels, used_levels
from zig_tool import zig

PROGRAM = """\
#include "cpu_levels.h"
#include <stdio.h>
int main() {
  for (const driver::CpuLevel& level : driver::kCpuLevels) {
    if (level.usable()) puts(level.name);
  }
}
"""
DRIVER = toy.ROOT / "orchestrator/native/driver"
# As libraries/cpuinfo.h limits them: the last that may be used, in the order of the table.
ORDER = ("baseline", "avx2", "avxvnni", "avx512", "avx512vnni")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("levels")
    source, out = folder / "levels.cpp", folder / "levels"
    source.write_text(PROGRAM)
    warnings = ("-Wall", "-Wextra", "-Werror")
    zig("c++", "-O2", "-std=gnu++17", *warnings, f"-I{DRIVER}", source, "-nostdlib++", "-o", out)
    return out


@pytest.mark.parametrize("level", [None, *ORDER, "no such level"])
def test_the_processors_own_up_to_the_one_that_is_named(program: Path, level: str | None) -> None:
    env = {**os.environ, **({} if level is None else {"LTA_CPU_LEVEL": level})}
    done = subprocess.run([str(program)], env=env, capture_output=True, text=True, check=True)
    highest = ORDER.index(level) if level in ORDER else len(ORDER)
    has = processor_levels() if level in ("avx512", "avx512vnni") else used_levels()
    expected = [one for one in has if ORDER.index(one) <= highest]
    assert done.stdout.split() == expected
