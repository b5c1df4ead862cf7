"""On x86-64 a tensor's contents begin a cache line: the memory that PyTorch allocates and frees."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from zig_tool import zig

from orchestrator.build.workshop.native import NATIVE

# What the header includes of PyTorch's: of it it needs one number.
C10 = {
    "core/alignment.h": "namespace c10 { constexpr unsigned long gAlignment = 16; }\n",
    **dict.fromkeys(("core/impl/alloc_cpu.h", "util/Flags.h", "util/Logging.h"), ""),
    **dict.fromkeys(("util/irange.h", "util/numa.h"), ""),
}
# As alloc_cpu.cpp and CPUAllocator.cpp do: the contents begin 16 bytes into the memory.
PROGRAM = """\
#include "runtime_library/cache_lines.h"
#include <cstdint>
#include <cstring>
int main() {
  void* memory[3000];
  for (size_t size = 0; size < 3000; ++size) {
    if (posix_memalign(&memory[size], 16, size) != 0) return 1;
    if ((uintptr_t(memory[size]) + 16) % 64 != 0) return 2;
    memset(memory[size], int(size), size);
  }
  for (size_t size = 0; size < 3000; ++size) {
    const char* bytes = static_cast<const char*>(memory[size]);
    for (size_t i = 0; i < size; ++i) if (bytes[i] != char(size)) return 3;
    free(memory[size]);
  }
  // huge pages
  if (posix_memalign(&memory[0], 4096, 100000) != 0) return 4;
  if (uintptr_t(memory[0]) % 4096 != 0) return 5;
  memset(memory[0], 1, 100000);
  free(memory[0]);
  free(nullptr);
  const size_t beyond[] = {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX - 64, SIZE_MAX / 2 + 1};
  for (const size_t size : beyond) {
    if (posix_memalign(&memory[0], 16, size) != ENOMEM) return 6;
  }
  return 0;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    for name, text in C10.items():
        header = tmp_path / "c10" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(text)
    (tmp_path / "lines.cpp").write_text(PROGRAM)
    out = tmp_path / "lines"
    flags = ("-O2", "-std=gnu++17", "-Wall", "-Wextra", "-Werror")
    include = (f"-I{tmp_path}", f"-I{NATIVE}")
    target = ("-target", "x86_64-linux-gnu.2.28")
    zig("c++", *target, *flags, *include, tmp_path / "lines.cpp", "-o", out)
    return out


def test_memory_of_every_size(program: Path) -> None:
    # glibc ends a program that frees what it did not give, or writes where it keeps its own
    assert subprocess.run([program]).returncode == 0
