"""Two builds compared: as values, as text, as a comment on a pull request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.build.explaining.kept_sizes import NoSizesError, sizes_in
from orchestrator.report.size_changes import MOST_CHARACTERS, budget_details, markdown, text
from orchestrator.size.attribution import UNATTRIBUTED, Asked, Attribution, Share
from orchestrator.size.changes import Comparison, compared, grown

BEFORE = Attribution(
    app="camera",
    abi="linux-x86_64",
    size=1000,
    packed=400,
    made={"compiler": "zig 0.16", "optimize": "balanced"},
    asked={"aten::relu": Asked({"m": ("forward at m.py:3",)}), "aten::add": Asked({"m": ()})},
    shares=(
        Share((), "c10/a.cpp", "code", 800),
        Share(("aten::add", "aten::relu"), "b.cpp", "code", 100),
        Share(("aten::relu",), "b.cpp", "code", 100),
    ),
)
AFTER = replace(
    BEFORE,
    size=7600,
    packed=2400,
    made={"compiler": "zig 0.17", "optimize": "balanced"},
    asked={**BEFORE.asked, "aten::hardswish": Asked({"detector": ("forward at detector.py:41",)})},
    shares=(
        Share((), "c10/a.cpp", "code", 900),
        Share(("aten::add", "aten::relu"), "b.cpp", "code", 100),
        Share(("aten::hardswish",), "d.cpp", "code", 6400),
        Share(("aten::relu",), "b.cpp", "code", 200),
    ),
)
KEY = ("camera", "linux-x86_64")


def test_what_grew() -> None:
    (one,) = compared({KEY: BEFORE}, {KEY: AFTER})
    assert sum(change.difference for change in one.operators()) == 6600
    assert text([one], top=2) == (
        "//apps/camera:linux-x86_64: 1,000 -> 7,600 bytes, +6,600 (+660.00 %); compressed +2,000\n"
        "  compiler: zig 0.16 -> zig 0.17\n"
        "  by operator:\n"
        "    +6,400: aten::hardswish, detector: forward at detector.py:41\n"
        "    +100: (in any library)\n"
        "    +100: 1 more\n"
        "  by model:\n"
        "    +6,400: detector\n"
        "    +100: (in any library)\n"
        "    +100: 1 more\n"
        "  by unit:\n"
        "    +6,400: d.cpp\n"
        "    +100: b.cpp\n"
        "    +100: 1 more\n"
        "0 libraries are the same\n"
    )
    assert grown([one], 6599) == (one,)
    assert grown([one], 6600) == ()
    assert grown([Comparison(None, AFTER)], 0) == ()


def test_of_a_library_that_was_not_attributed_the_whole_is_compared() -> None:
    whole = replace(
        BEFORE,
        packed=None,
        made={"compiler": "zig 0.16"},
        shares=(Share((), UNATTRIBUTED, "data", 1000),),
    )
    (same,) = compared({KEY: whole}, {KEY: BEFORE})
    assert text([same], top=2) == "1 library is the same\n"
    (grew,) = compared({KEY: whole}, {KEY: AFTER})
    assert text([grew], top=2) == (
        "//apps/camera:linux-x86_64: 1,000 -> 7,600 bytes, +6,600 (+660.00 %)\n"
        "  compiler: zig 0.16 -> zig 0.17\n"
        "  what its bytes are of is not known of both: run `./orchestrate size` after a build\n"
        "0 libraries are the same\n"
    )


def test_a_comment() -> None:
    found = compared(
        {KEY: BEFORE},
        {KEY: AFTER, ("camera", "ios-arm64"): replace(AFTER, abi="ios-arm64", packed=None)},
    )
    assert markdown(found, growth=5000) == (
        "## Library sizes\n\n"
        "2 of 2 libraries changed, +14,200 bytes in all.\n\n"
        "| library | before | after | difference | compressed | |\n"
        "|---|---:|---:|---:|---:|---|\n"
        "| `camera:ios-arm64` | new | 7,600 | +7,600 |  |  |\n"
        "| `camera:linux-x86_64` | 1,000 | 7,600 | +6,600 (+660.00 %) | +2,000 |"
        " :x: more than 5,000 bytes |\n"
        "\n### Why\n"
        "\n`//apps/camera:ios-arm64`\n"
        "- +6,400: aten::hardswish, detector: forward at detector.py:41\n"
        "- +900: (in any library)\n"
        "- +200: aten::relu, m: forward at m.py:3\n"
        "- +100: (for several operators)\n"
        "- most of it in +6,400 `d.cpp`, +900 `c10/a.cpp`, +300 `b.cpp`\n"
        "\n`//apps/camera:linux-x86_64`\n"
        "- compiler: zig 0.16 -> zig 0.17\n"
        "- +6,400: aten::hardswish, detector: forward at detector.py:41\n"
        "- +100: (in any library)\n"
        "- +100: aten::relu, m: forward at m.py:3\n"
        "- most of it in +6,400 `d.cpp`, +100 `b.cpp`, +100 `c10/a.cpp`\n"
    )
    same = compared({KEY: BEFORE}, {KEY: BEFORE})
    assert markdown(same, None) == "## Library sizes\n\nAll 1 libraries are as large as before.\n"


def test_a_comment_of_200_apps_fits() -> None:
    keys = [
        (f"application_{n:03}", abi)
        for n in range(200)
        for abi in ("linux-x86_64", "android-arm64-v8a", "ios-arm64")
    ]
    before = {(app, abi): replace(BEFORE, app=app, abi=abi) for app, abi in keys}
    after = {(app, abi): replace(AFTER, app=app, abi=abi) for app, abi in keys}
    said = markdown(compared(before, after), growth=5000)
    assert len(said) < MOST_CHARACTERS
    assert "600 of 600 libraries changed" in said
    rows = said.count("| :x: more than")
    assert said.count("most of it in") > 20
    assert f"{600 - rows} more that changed less are left out." in said


def test_the_details_of_a_budget() -> None:
    assert budget_details(AFTER, BEFORE) == (
        "what would be gone without it:\n"
        "  6,400: aten::hardswish, detector: forward at detector.py:41\n"
        "  200: aten::relu, m: forward at m.py:3\n"
        "since sizes were last kept: 1,000 -> 7,600 bytes, +6,600 (+660.00 %)\n"
        "  compiler: zig 0.16 -> zig 0.17\n"
        "  +6,400: aten::hardswish, detector: forward at detector.py:41\n"
        "  +100: (in any library)\n"
        "  +100: aten::relu, m: forward at m.py:3"
    )
    assert len(budget_details(AFTER, None).splitlines()) == 3


def test_where_sizes_are_kept(tmp_path: Path) -> None:
    kept = tmp_path / "dist/camera/sizes/linux-x86_64.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(BEFORE.text())
    (tmp_path / "dist/camera/linux-x86_64").mkdir()
    (tmp_path / "dist/camera/linux-x86_64/manifest.json").write_text("{}")
    for path in ("dist", "dist/camera", "dist/camera/sizes", "dist/camera/linux-x86_64"):
        assert sizes_in(tmp_path / path) == {KEY: BEFORE}, path
    assert sizes_in(kept) == {KEY: BEFORE}
    assert sizes_in(tmp_path / "dist/camera/linux-x86_64/manifest.json") == {KEY: BEFORE}
    (tmp_path / "other.json").write_text("[]")
    for nothing in ("other.json", "nowhere"):
        with pytest.raises(NoSizesError, match="there are no sizes of libraries here"):
            sizes_in(tmp_path / nothing)
