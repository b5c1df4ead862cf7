"""How binaries run here: tried for real, with emulators that are toys or not here."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from orchestrator.compilers.resolve import ResolvedToolchain, resolve_toolchain
from orchestrator.compilers.run_prefix import Running
from orchestrator.errors import Place
from orchestrator.source.debian import PackagesUnavailableError
from orchestrator.values.config.toolchain import ToolchainConfig

# An emulator for an ABI that the machine cannot run: a compiler whose programs are shell scripts
# with a first line of their own.
COMPILER = """\
#!/bin/sh
for argument in "$@"; do
  case "$argument" in --version) echo "toy 1.0" && exit ;; esac
  [ "$last" = -o ] && output=$argument
  last=$argument
done
[ "$output" = asks ] && printf '#!/no/such/loader\\nexit 0\\n' > asks && chmod +x asks
: >> "$output"
"""
EMULATOR = (
    '#!/bin/sh\n[ -e "$1/libc.so" ] || { echo "no libc.so below $1" >&2; exit 9; }\nsh "$2"\n'
)


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def toys(tmp_path: Path) -> Path:
    for name in ("toy-c++", "toy-cc", "toy-ar"):
        program(tmp_path / "bin" / name, COMPILER)
    return tmp_path


def resolved(toys: Path, run: object, cache: str = "cache") -> ResolvedToolchain:
    values = {
        "abi": "linux-arm64",
        "system": "linux",
        "processor": "arm64",
        "format": "elf",
        "compiler": {"command": {"cxx": "toy-c++", "cc": "toy-cc", "ar": "toy-ar"}},
        "run": run,
    }
    config = ToolchainConfig.model_validate(values)
    env = os.environ | {"PATH": f"{toys / 'bin'}:{os.environ['PATH']}"}
    return resolve_toolchain(config, Place("toolchains/linux-arm64.yaml"), toys / cache, env)


def running(toys: Path, run: object, cache: str = "cache") -> Running:
    return resolved(toys, run, cache).running(toys / cache, lambda line: None)


def test_nothing_runs_where_nothing_is_declared(toys: Path) -> None:
    assert running(toys, "none") == Running(None, "nothing on this machine runs its binaries")


def test_a_program_of_another_abi_does_not_run_as_it_is(toys: Path) -> None:
    assert running(toys, "native") == Running(None, "as it is: No such file or directory")


def test_the_machines_own_abi(tmp_path: Path) -> None:
    config = ToolchainConfig.model_validate(
        {
            "abi": "linux-x86_64",
            "system": "linux",
            "processor": "x86_64",
            "format": "elf",
            "compiler": {"command": {"cxx": "g++", "cc": "gcc"}},
            # an emulator that nobody has: the binaries run without
            "run": {"emulator": ["qemu-of-nobody"]},
        }
    )
    toolchain = resolve_toolchain(config, Place("x"), tmp_path, os.environ)
    assert toolchain.running(tmp_path, lambda line: None) == Running(())


def test_the_machines_emulator(toys: Path) -> None:
    program(toys / "bin/toy-qemu", EMULATOR)
    sysroot = toys / "sysroot"
    run = {"emulator": ["toy-qemu", "$sysroot"], "sysroot": str(sysroot)}
    # without the folder there is nothing to try
    assert running(toys, run) == Running(
        None, "as it is: No such file or directory; by the machine's emulator: there is none"
    )
    sysroot.mkdir()
    assert running(toys, run) == Running(
        None,
        "as it is: No such file or directory;"
        f" by the machine's emulator: no libc.so below {sysroot}",
    )
    program(sysroot / "libc.so", "")
    found = Running((str(toys / "bin/toy-qemu"), str(sysroot)))
    assert running(toys, run) == found
    # remembered, as long as the emulator is there
    (kept,) = resolved(toys, run).cc.parent.glob("running-*.json")
    assert json.loads(kept.read_text())["prefix"] == list(found.prefix or ())
    (sysroot / "libc.so").unlink()
    assert running(toys, run) == found
    (toys / "bin/toy-qemu").unlink()
    assert running(toys, run).prefix is None


@pytest.mark.parametrize("cache", ["cache", "a:b"])
def test_an_emulator_from_packages(cache: str, toys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def unpack(
        names: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        progress: object,
        runner: object,
    ) -> Path:
        asked.append(tuple(names))
        if names == ["libc6-toy"]:
            program(folder / "usr/toy/libc.so", "")
        else:
            program(folder / "usr/bin/toy-qemu", EMULATOR)
        return folder

    monkeypatch.setattr("orchestrator.compilers.run_prefix.binary_packages", unpack)
    run = {
        "emulator": ["toy-qemu", "$sysroot"],
        "sysroot": "/usr/toy",
        "debian": ["libc6-toy", "qemu:arm64", "never-asked"],
    }
    packages = toys / cache / "debian"
    assert running(toys, run, cache) == Running(
        (str(packages / "qemu_arm64/usr/bin/toy-qemu"), str(packages / "libc6-toy/usr/toy"))
    )
    assert asked == [("libc6-toy",), ("qemu:arm64",)]


def test_packages_that_cannot_be_got(toys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> Path:
        raise PackagesUnavailableError("no packages here", seen="apt-get is not installed")

    monkeypatch.setattr("orchestrator.compilers.run_prefix.binary_packages", refuse)
    run = {"emulator": ["toy-qemu"], "debian": ["qemu"]}
    assert running(toys, run) == Running(
        None,
        "as it is: No such file or directory; by the machine's emulator: there is none;"
        " no packages here (apt-get is not installed)",
    )


def test_a_toolchain_that_links_nothing(toys: Path) -> None:
    program(toys / "bin/toy-cc", "#!/bin/sh\necho 'ld: no' >&2\nexit 1\n")
    assert running(toys, "native") == Running(None, "no program could be linked to try it: ld: no")
