"""The platform in a wheel's name, by what its library needs; held against what pip takes."""

from __future__ import annotations

import pytest
from packaging import _manylinux, _musllinux, tags

from orchestrator.platforms.linux import wheel_platform


@pytest.mark.parametrize(
    ("machine", "target", "needed", "versions", "expected"),
    [
        ("x86_64", "", ["libc.so.6"], {"GLIBC": "2.27"}, "manylinux_2_27_x86_64"),
        ("x86_64", "", ["libc.so.6", "libm.so.6"], {"GLIBC": "2.2.5"}, "manylinux_2_5_x86_64"),
        ("x86_64", "", ["libc.so.6"], {}, "manylinux_2_5_x86_64"),
        ("aarch64", "", ["libc.so.6"], {"GLIBC": "2.9"}, "manylinux_2_17_aarch64"),
        ("armv7l", "", ["libc.so.6"], {"GLIBC": "2.28"}, "manylinux_2_28_armv7l"),
        ("x86_64", "", ["libc.so.6", "libstdc++.so.6"], {"GLIBC": "2.2"}, "linux_x86_64"),
        ("aarch64", "", ["libc.so"], {}, "musllinux_1_2_aarch64"),
        ("x86_64", "", ["libc.musl-x86_64.so.1"], {}, "musllinux_1_2_x86_64"),
        ("x86_64", "", ["libc.so", "libstdc++.so.6"], {}, "linux_x86_64"),
        ("x86_64", "x86_64-linux-gnu.2.28", [], {}, "manylinux_2_5_x86_64"),
        ("aarch64", "aarch64-linux-musl", [], {}, "musllinux_1_2_aarch64"),
    ],
)
def test_the_platform(
    machine: str,
    target: str,
    needed: list[str],
    versions: dict[str, str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert wheel_platform(machine, target, needed, versions) == expected
    monkeypatch.setattr(_manylinux, "_get_glibc_version", lambda: (2, 40))
    monkeypatch.setattr(_manylinux, "_have_compatible_abi", lambda *_: True)
    monkeypatch.setattr(_musllinux, "_get_musl_version", lambda _: _musllinux._MuslVersion(1, 2))
    monkeypatch.setattr("sysconfig.get_platform", lambda: f"linux-{machine}")
    assert expected in set(tags._linux_platforms(is_32bit=False))
