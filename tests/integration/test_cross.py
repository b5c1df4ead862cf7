"""Libraries for other processors and C libraries: they run their models here, in an emulator."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from real import (
    CMAKE,
    CONSUMERS,
    ROOT,
    consumer_environment,
    models_of,
    orchestrator,
    workspace_copy,
)

from orchestrator.binary.elf_pages import fault

# What each library may need: (app, ABI) -> its NEEDED entries. The guard of arm64's stack is the
# loader's.
GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-aarch64.so.1"}
PAGES = (4096, 16384, 65536)
VARIANTS = {("camera", "linux-arm64"): GLIBC, ("reader", "linux-arm64-musl"): {"libc.so"}}


@pytest.mark.parametrize(("app", "abi"), VARIANTS)
def test_it_runs_its_models_here(built: Path, app: str, abi: str) -> None:
    ran = orchestrator("verify", f"//apps/{app}:{abi}", "--quiet")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert len(lines) == len(models_of(app))
    assert all(": ok, " in line for line in lines), ran.out


@pytest.mark.parametrize(("app", "abi"), VARIANTS)
def test_it_is_of_its_abi_and_needs_only_the_system(built: Path, app: str, abi: str) -> None:
    folder = built / app / abi
    manifest = json.loads((folder / "manifest.json").read_text())
    with (folder / manifest["library"]["file"]).open("rb") as file:
        elf = ELFFile(file)
        dynamic = elf.get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        needed = {getattr(entry, "needed", None) for entry in dynamic.iter_tags("DT_NEEDED")}
        assert elf["e_machine"] == "EM_AARCH64"
    assert needed == VARIANTS[app, abi]


def emulator(abi: str) -> list[str]:
    """What runs programs of an ABI here."""
    shown = json.loads(orchestrator("toolchain", "show", abi, "--json").out)
    return list(shown["toolchains"][0]["runs"].removeprefix("with ").split())


def whole_pages(path: Path, folder: Path, page: int) -> Path:
    """A copy that ends with a page, of zeros: qemu maps nothing behind a file's end, where a
    kernel's last page of it goes on with them."""
    copy = Path(shutil.copy(path, folder))
    with copy.open("r+b") as file:
        file.truncate(-(-path.stat().st_size // page) * page)
    return copy


def misplace(library: Path) -> None:
    """Let the last segment of a library lie elsewhere in the file, by a page of 4 KB."""
    with library.open("r+b") as file:
        elf = ELFFile(file)
        loads = [
            (elf["e_phoff"] + number * elf["e_phentsize"], segment["p_offset"])
            for number, segment in enumerate(elf.iter_segments())
            if segment["p_type"] == "PT_LOAD"
        ]
        header, offset = loads[-1]
        file.seek(header + 8)
        file.write((offset + PAGES[0]).to_bytes(8, "little"))


@pytest.mark.parametrize(("app", "abi"), VARIANTS)
def test_it_runs_on_systems_with_larger_pages(
    built: Path, app: str, abi: str, tmp_path: Path
) -> None:
    """Of 16 KB as on newer phones and Macs, and of 64 KB as on some servers."""
    model, *_ = models_of(app)
    run_here = emulator(abi)
    (library,) = (built / app / abi / "lib").glob("*.so")
    driver = whole_pages(ROOT / f".orchestrator/variants/{app}/{abi}/driver", tmp_path, PAGES[-1])
    copy = whole_pages(library, tmp_path, PAGES[-1])

    def ran(page: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*run_here, driver, "--model", model, "--output", tmp_path / f"{page}.json"],
            env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "QEMU_PAGESIZE": str(page)},
            capture_output=True,
            text=True,
            check=False,
        )

    for page in PAGES:
        done = ran(page)
        assert done.returncode == 0, (page, done.stderr)
        with library.open("rb") as file:
            assert fault(ELFFile(file), page) is None
    outputs = {(tmp_path / f"{page}.json").read_text() for page in PAGES}
    assert len(outputs) == 1
    if "musl" not in abi:  # whose loader does not look
        misplace(copy)
        refused = ran(PAGES[1])
        assert refused.returncode == 127
        assert "driver: error while loading shared libraries: " in refused.stderr


def test_musls_programs_are_position_independent(built: Path) -> None:
    """zig's others copy the stack protector's guard, and musl's dynamic linker crashes on that."""
    folder = built / "reader/linux-arm64-musl/lib/cmake/reader_libtorch"
    text = (folder / "toolchain.cmake").read_text()
    assert "set(CMAKE_POSITION_INDEPENDENT_CODE ON)\n# zig turns" in text


def test_camera_is_small_on_arm64(built: Path) -> None:
    """With libc++ inside."""
    library = built / "camera/linux-arm64/lib/libcamera_torch.so"
    assert library.stat().st_size <= 1_600_000


@pytest.mark.ci_only
def test_pytorchs_neon_kernel_computes_depthwise_convolutions(tmp_path: Path) -> None:
    """Which clang hides on Linux (decision 0085); with its own kernels alone, PyTorch takes it."""
    root = workspace_copy(tmp_path, "camera")
    with (root / "apps/camera/app.yaml").open("a") as app:
        app.write("kernels: native\n")
    ran = orchestrator("build", "//apps/camera:linux-arm64", "--json", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    (variant,) = json.loads(ran.out)["variants"]
    assert variant["verified"] == "ok"
    (symbols,) = (root / "dist/camera/linux-arm64/symbols").glob("*.debug")
    with symbols.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        (size,) = {
            one["st_size"]
            for one in table.iter_symbols()
            if "_convolution_depthwise3x3_winograd" in one.name and one["st_size"]
        }
    assert size > 1500  # hidden, it is 848: checks of sizes, and an error


@pytest.mark.parametrize(
    ("app", "abi", "consumer"),
    [
        ("camera", "linux-arm64", "c_shared"),
        # the host's is static too: zig takes a minute for the C++ library of each
        *(
            pytest.param("reader", "linux-arm64-musl", name, marks=pytest.mark.ci_only)
            for name in ("c_shared", "cpp_static")
        ),
    ],
)
def test_cmake_consumers_with_the_toolchain_file(
    built: Path, app: str, abi: str, consumer: str, tmp_path: Path
) -> None:
    """Configured, built, and run by the emulator that the toolchain file names."""
    written = orchestrator("toolchain", "cmake", abi, "--quiet")
    assert written.code == 0, written.err
    configure = [CMAKE, "-G", "Ninja", "-S", str(CONSUMERS / consumer), "-B", str(tmp_path)]
    configure += [f"-DAPP={app}", f"-DCMAKE_PREFIX_PATH={built / app / abi}"]
    configure += [f"-DCMAKE_TOOLCHAIN_FILE={written.out.strip()}"]
    for argv in (configure, [CMAKE, "--build", str(tmp_path)]):
        done = subprocess.run(
            argv, env=consumer_environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(
        [*emulator(abi), str(tmp_path / "consumer"), str(models_of(app)[0])],
        env=os.environ | {"LD_LIBRARY_PATH": str(built / app / abi / "lib")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("forward 0: ")
