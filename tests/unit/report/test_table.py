from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

from orchestrator.report.packages import MissingAbi, PackageFile, PackageReport
from orchestrator.report.table import (
    BuildReport,
    Engine,
    Exported,
    VariantReport,
    human_bytes,
    plain,
    show,
)

REPORT = BuildReport(
    (
        VariantReport("keyboard", "linux-x86_64", 31, 12, 140, 1_523_000, 16_738_312, "failed"),
        VariantReport("camera", "linux-x86_64", 27, 173, 0, 1_317_024, 16_738_312, "ok"),
        VariantReport(
            *("camera", "ios-arm64", 27, 170, 0, 1_400_000, None, "not run here"),
            same_structure_as="linux-x86_64",
        ),
        VariantReport(
            "camera", "android-arm64-v8a", 27, 9, 161, problem="1 unit failed", for_release=False
        ),
    ),
    actions_run=380,
    seconds=181.23456,
)

PLAIN = """\
app       ABI                operators  compiled  reused  stripped  all operators   saved  verified
camera    android-arm64-v8a         27         9     161         -              -       -  \
1 unit failed, NOT FOR RELEASE
camera    ios-arm64                 27       170       0    1.4 MB              -       -  \
not run here, same structure as linux-x86_64
camera    linux-x86_64              27       173       0   1.32 MB        16.7 MB  92.1 %  ok
keyboard  linux-x86_64              31        12     140   1.52 MB        16.7 MB  90.9 %  failed
"""


PACKAGES = (
    PackageReport(
        "camera",
        "deb",
        ("linux-x86_64",),
        (
            PackageFile("dist/camera/packages/camera-libtorch_0.1.0_amd64.deb", 796_080),
            PackageFile("dist/camera/packages/camera-libtorch-dev_0.1.0_amd64.deb", 3_374_546),
            PackageFile("dist/camera/packages/camera-libtorch-dbgsym_0.1.0_amd64.deb", 930_936),
        ),
    ),
    PackageReport(
        "camera",
        "aar",
        ("android-arm64-v8a",),
        (PackageFile("dist/camera/packages/camera-libtorch-0.1.0.aar", 1_000_000, "ab" * 32),),
    ),
    PackageReport(
        "keyboard",
        "xcframework",
        ("ios-arm64", "ios-simulator-arm64"),
        missing=(MissingAbi("ios-simulator-arm64", "is not built"),),
    ),
)


def test_packages_stand_below_the_table() -> None:
    assert plain(replace(REPORT, packages=PACKAGES)) == PLAIN + (
        "\n"
        "package                                                 size  with\n"
        "dist/camera/packages/camera-libtorch_0.1.0_amd64.deb  796 kB  2 more, 5.1 MB in all\n"
        "dist/camera/packages/camera-libtorch-0.1.0.aar          1 MB\n"
        "//apps/keyboard: no xcframework: ios-simulator-arm64 is not built;"
        " build //apps/keyboard to make it\n"
    )


def test_the_checksum_of_a_binary_target() -> None:
    archive = PackageFile("dist/camera/packages/C-0.1.0.xcframework.zip", 1_000_000, "cd" * 32)
    package = PackageReport("camera", "xcframework", ("ios-arm64",), (archive,))
    text = plain(replace(REPORT, packages=(package,)))
    assert text.endswith(f"checksum of dist/camera/packages/C-0.1.0.xcframework.zip: {'cd' * 32}\n")


def test_packages_as_json() -> None:
    seen = json.loads(replace(REPORT, packages=PACKAGES).to_json())["packages"]
    assert seen[1:] == [
        {
            "app": "camera",
            "kind": "aar",
            "abis": ["android-arm64-v8a"],
            "files": [
                {
                    "path": "dist/camera/packages/camera-libtorch-0.1.0.aar",
                    "bytes": 1_000_000,
                    "sha256": "ab" * 32,
                }
            ],
            "missing": [],
        },
        {
            "app": "keyboard",
            "kind": "xcframework",
            "abis": ["ios-arm64", "ios-simulator-arm64"],
            "files": [],
            "missing": [{"abi": "ios-simulator-arm64", "why": "is not built"}],
        },
    ]


SECTIONS = {".gnu.version": 3_018, ".dynsym": 36_216, ".dynstr": 15_090, ".gnu.hash": 10_164}


def test_what_a_library_exports_for_add_ons_stands_below_the_table() -> None:
    first, second, *rest = REPORT.variants
    second = replace(second, extensible=Exported(1_509, SECTIONS))
    report = BuildReport((first, second, *rest), packages=PACKAGES)
    below = plain(report).removeprefix(PLAIN)
    assert below.startswith(
        "//apps/camera:linux-x86_64 exports 1,509 names for add-ons:"
        " 64,488 bytes of its symbol table, 4.9 % of the library\n\npackage "
    )
    told = [row["extensible"] for row in json.loads(report.to_json())["variants"]]
    assert told == [
        None,
        None,
        {"names": 1_509, "bytes": 64_488, "sections": dict(sorted(SECTIONS.items()))},
        None,
    ]
    assert list(told[2]["sections"]) == sorted(SECTIONS)


def test_what_engines_take_stands_below_the_table() -> None:
    first, second, *rest = REPORT.variants
    engines = (Engine("XNNPACK", 87_412, ("classifier",)), Engine("QNNPACK", 1_200))
    second = replace(second, engines=engines)
    none = replace(rest[0], engines=())
    report = BuildReport((first, second, none, *rest[1:]))
    assert plain(report).removeprefix(PLAIN) == (
        "//apps/camera:ios-arm64 has no engine of kernels\n"
        "//apps/camera:linux-x86_64 has XNNPACK 87,412 bytes (classifier), QNNPACK 1,200 bytes\n"
    )
    told = [row["engines"] for row in json.loads(report.to_json())["variants"]]
    assert told == [
        None,
        [],
        [
            {"name": "XNNPACK", "bytes": 87_412, "models": ["classifier"]},
            {"name": "QNNPACK", "bytes": 1_200, "models": None},
        ],
        None,
    ]


def test_plain_table() -> None:
    assert plain(REPORT) == PLAIN


def test_away_from_a_terminal_the_table_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    target = io.StringIO()
    show(REPORT, Console(file=target, width=40))
    assert target.getvalue() == PLAIN


def test_on_a_terminal_it_has_colour_and_a_rule() -> None:
    target = io.StringIO()
    show(REPORT, Console(file=target, force_terminal=True, width=120, color_system="standard"))
    assert "\x1b[31m" in target.getvalue()
    assert "─" in target.getvalue()
    assert "92.1 %" in target.getvalue()


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        (50, "app        ABI                 stripped   verified"),
        (80, "app        ABI                 compiled   stripped    saved   verified"),
        (
            140,
            "app        ABI                 operators   compiled   reused   stripped"
            "   all operators    saved   verified",
        ),
    ],
)
def test_on_a_narrow_terminal_columns_leave_and_no_name_is_cut(width: int, heads: str) -> None:
    target = io.StringIO()
    console = Console(file=target, force_terminal=True, width=width, color_system=None)
    show(replace(REPORT, packages=PACKAGES), console)
    lines = [line.rstrip() for line in target.getvalue().splitlines()]
    assert lines[0] == heads
    assert width < 80 or max(map(len, lines)) <= width
    for variant in REPORT.variants:
        assert any(re.match(f"{variant.app} +{variant.abi} ", line) for line in lines)
    assert "…" not in target.getvalue()


@pytest.mark.parametrize("no_color", [True, False])
def test_verdicts_have_colour(no_color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    target = io.StringIO()
    show(REPORT, Console(file=target, force_terminal=True, width=140, color_system="standard"))
    text = target.getvalue()
    assert ("\x1b[32mok" in text, "\x1b[33mnot run here" in text) == (not no_color, not no_color)
    assert ("\x1b[31m" in text) == (not no_color)


def test_json_has_the_documented_shape() -> None:
    seen = json.loads(REPORT.to_json())
    assert {key: seen[key] for key in ("format", "actions_run", "seconds")} == {
        "format": 1,
        "actions_run": 380,
        "seconds": 181.235,
    }
    assert seen["variants"][2] == {
        "app": "camera",
        "abi": "linux-x86_64",
        "operators": 27,
        "units_compiled": 173,
        "units_reused": 0,
        "stripped_bytes": 1317024,
        "all_operators_bytes": 16738312,
        "saved_percent": 92.13,
        "verified": "ok",
        "problem": "",
        "levels_run": [],
        "levels_not_run": [],
        "flat": [],
        "for_release": True,
        "made_as": None,
        "extensible": None,
        "engines": None,
        "error": None,
    }
    assert seen["variants"][0]["stripped_bytes"] is None
    assert REPORT.to_json() == BuildReport(REPORT.variants[::-1], 380, 181.23456).to_json()


def test_what_ok_does_not_cover_stands_below_the_tables() -> None:
    """A library that was not run at each of its CPU levels, and no other; outputs that are flat."""
    row = VariantReport("listener", "linux-x86_64", 42, 0, 331, 1_600_000, verified="ok")
    every = ("baseline", "avx2", "avx512vnni")
    part = replace(row, abi="linux-arm64", levels_not_run=("baseline", "dotprod"))
    rows = (
        replace(row, levels_run=every, levels_not_run=("avxvnni",)),
        replace(row, app="words", levels_run=every, flat=("words forward output (all 0)",)),
        part,
    )
    report = replace(REPORT, variants=rows, packages=PACKAGES)
    lines = plain(report).split("\n\n")[1].splitlines()
    assert lines[3:] == [
        "//apps/listener:linux-arm64: not run here at baseline, dotprod",
        "//apps/listener:linux-x86_64: verified at CPU level baseline, avx2, avx512vnni;"
        " not run here at avxvnni",
        "//apps/words:linux-x86_64: numbers that are all the same prove nothing:"
        " words forward output (all 0)",
        "//apps/keyboard: no xcframework: ios-simulator-arm64 is not built;"
        " build //apps/keyboard to make it",
    ]
    told = json.loads(report.to_json())["variants"]
    assert [(one["levels_run"], one["levels_not_run"]) for one in told] == [
        ([], ["baseline", "dotprod"]),
        ([*every], ["avxvnni"]),
        ([*every], []),
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1317024, "1.32 MB"),
        (99_960, "100 kB"),
        (999_400, "999 kB"),
        (999_600, "1 MB"),
        (16738312, "16.7 MB"),
        (2_400_000_000_000, "2400 GB"),
    ],
)
def test_human_bytes(count: int, text: str) -> None:
    assert human_bytes(count) == text
