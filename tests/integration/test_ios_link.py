"""An app's linker keeps every registration: LLVM's ld64, with no flag for our library.

The linker comes from Debian packages, unpacked in the user's cache (`runtime.debian`); a machine
that cannot get them fails this test, and the error says why.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))

from ios_toy import ABIS, ZIG, Built, build, toolchain  # noqa: E402
from package_toy import TOY  # noqa: E402

from orchestrator.binary.macho import parse_image  # noqa: E402
from orchestrator.binary.macho_live import linked_bytes  # noqa: E402
from orchestrator.compilers.resolve import ResolvedToolchain, compiler_environment  # noqa: E402
from orchestrator.load.workspace import load_workspace  # noqa: E402
from orchestrator.source.debian import binary_packages  # noqa: E402

# bookworm's; a linker and the libraries that a bare machine lacks
_PACKAGES = (
    *("lld-19", "libllvm19", "libicu72", "libxml2", "libz3-4"),
    *("libedit2", "libbsd0", "libmd0", "libffi8"),
)
_MAIN = '#include "libtorch_app.h"\nint main(void) { return lta_add(1, 2); }\n'


@pytest.fixture(scope="module")
def ld64() -> tuple[Path, dict[str, str]]:
    """LLVM's Mach-O linker and the environment that it runs in."""
    cache = load_workspace(ROOT, os.environ).cache
    root = binary_packages(_PACKAGES, cache / "debian/ld64", os.environ, print)
    libraries = root / "usr/lib/x86_64-linux-gnu"
    return root / "usr/lib/llvm-19/bin/ld64.lld", {"LD_LIBRARY_PATH": str(libraries)}


def link(
    folder: Path,
    tools: ResolvedToolchain,
    library: Path,
    ld64: tuple[Path, dict[str, str]],
    *flags: str,
) -> set[str]:
    """An app that calls one function of the C API; the functions that run before `main`."""
    program, env = ld64
    (folder / "main.c").write_text(_MAIN)
    compiler = compiler_environment(load_workspace(ROOT, os.environ).cache, os.environ)
    argv: list[str | Path] = [tools.cc, f"-I{TOY}"]
    argv += ["-c", folder / "main.c", "-o", folder / "main.o"]
    subprocess.run(argv, env=compiler, check=True)
    subprocess.run(
        [
            *(program, "-arch", tools.config.processor),
            *("-platform_version", tools.config.system, "15.0", "18.2"),
            # the system's libraries are not here
            *("-undefined", "dynamic_lookup", *flags),
            *("-o", folder / "app", folder / "main.o", library),
        ],
        env=env,
        check=True,
    )
    image = parse_image((folder / "app").read_bytes())
    assert image is not None
    return {name for symbol in image.symbols if "_GLOBAL__sub_I_" in (name := str(symbol.name))}


@pytest.mark.parametrize("flags", [(), ("-dead_strip",)], ids=["debug", "release"])
@pytest.mark.parametrize("abi", ABIS)
def test_registrations_are_in_the_app(
    abi: str, flags: tuple[str, ...], tmp_path: Path, ld64: tuple[Path, dict[str, str]]
) -> None:
    tools = toolchain(abi, tmp_path / "tools")
    built = build(tmp_path / "build", tools)
    seen = link(tmp_path, tools, built.library, ld64, *flags)
    assert seen == {"__GLOBAL__sub_I_registrations.cpp"}
    app = (tmp_path / "app").read_bytes()
    # what nothing refers to is not there, and nothing that is there misses code of ours
    assert b"this text must not be in an app" not in app
    image = parse_image(app)
    assert image is not None
    missing = [s.name for s in image.symbols if s.numberof_sections == 0 and "gone" in s.name]
    assert missing == []


def test_an_ordinary_archive_would_lose_them(
    tmp_path: Path, ld64: tuple[Path, dict[str, str]]
) -> None:
    tools = toolchain("ios-arm64", tmp_path / "tools")
    built = build(tmp_path / "build", tools, anchors=False)
    assert link(tmp_path, tools, _ordinary(tmp_path, built), ld64) == set()


def _ordinary(folder: Path, built: Built) -> Path:
    library = folder / "libordinary.a"
    env = compiler_environment(load_workspace(ROOT, os.environ).cache, os.environ)
    members = built.objects.values()
    argv: list[str | Path] = [ZIG, "ar", "--format=darwin", "rcsD", library, *members]
    subprocess.run(argv, env=env, check=True)
    return library


def test_the_size_in_the_report_is_what_the_linker_takes(
    tmp_path: Path, ld64: tuple[Path, dict[str, str]]
) -> None:
    tools = toolchain("ios-arm64", tmp_path / "tools")
    built = build(tmp_path / "build", tools)
    program, env = ld64
    subprocess.run(
        [
            *(program, "-arch", "arm64", "-platform_version", "ios", "15.0", "18.2", "-dylib"),
            *("-undefined", "dynamic_lookup", "-dead_strip"),
            *("-exported_symbol", "_lta_*", "-u", "_lta_add", "-u", "_lta_version"),
            *("-o", tmp_path / "image", built.library),
        ],
        env=env,
        check=True,
    )
    image = parse_image((tmp_path / "image").read_bytes())
    assert image is not None
    # the linker's own: unwinding tables, stubs and their pointers, offsets in place of pointers
    own = {"__unwind_info", "__eh_frame", "__stubs", "__got", "__init_offsets"}
    taken = sum(section.size for section in image.sections if section.name not in own)
    counted = linked_bytes(built.library)
    pointers = 8 * len([s for s in image.sections if s.name == "__init_offsets"])
    assert abs(counted - pointers - taken) <= 0.02 * taken
