"""Which toolchain is this machine's own."""

from __future__ import annotations

import pytest

from orchestrator.compilers.host import host_abi, required_host
from orchestrator.errors import OrchestratorError
from orchestrator.values.config.toolchain import ToolchainConfig


def toolchain(abi: str, system: str, processor: str, target: str) -> ToolchainConfig:
    return ToolchainConfig.model_validate(
        {
            "abi": abi,
            "system": system,
            "processor": processor,
            "format": "elf",
            "compiler": {"zig": {"target": target}},
            "run": "native",
        }
    )


DECLARED = {
    config.abi: config
    for config in (
        toolchain("android-x86_64", "android", "x86_64", "x86_64-linux-android.24"),
        toolchain("linux-arm64", "linux", "arm64", "aarch64-linux-gnu.2.28"),
        toolchain("linux-alpine", "linux", "arm64", "aarch64-linux-musl"),
        toolchain("linux-x86_64", "linux", "x86_64", "x86_64-linux-gnu.2.28"),
    )
}


@pytest.mark.parametrize(
    ("machine", "abi"),
    [
        (("Linux", "x86_64"), "linux-x86_64"),
        (("Linux", "aarch64"), "linux-arm64"),
        (("Linux", "riscv64"), None),
        (("Darwin", "x86_64"), None),
    ],
)
def test_host(machine: tuple[str, str], abi: str | None) -> None:
    assert host_abi(DECLARED, machine) == abi
    if abi is not None:
        assert required_host(DECLARED, machine) == abi


def test_no_toolchain_for_this_machine() -> None:
    with pytest.raises(OrchestratorError) as caught:
        required_host(DECLARED, ("Linux", "riscv64"))
    assert caught.value.render() == (
        "error: no toolchain compiles for this machine, Linux on riscv64\n"
        "  expected: one in toolchains/ whose binaries run here: tracers do\n"
        "  seen:     android-x86_64, linux-alpine, linux-arm64, linux-x86_64\n"
        "  do:       add one: docs/guide/add-an-abi.md"
    )
