"""Two builds compared: as values, as text, as a comment on a pull request."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from package_toy import quick_inputs

from orchestrator.build.explaining import kept_sizes
from orchestrator.build.explaining.kept_sizes import NoSizesError, UnreadableSizesError, sizes_in
from orchestrator.deliver.manifest import read_manifest
from orchestrator.deliver.variant import deliver
from orchestrator.packagers.contents import Packaged
from orchestrator.report.size_changes import MOST_CHARACTERS, budget_details, markdown, text
from orchestrator.size.attribution import UNATTRIBUTED, Asked, Attribution, Share
from orchestrator.size.changes import Comparison, compared, grown

BEFORE = Attribution(
    app="camera",
    abi="linux-x86_64",
    library=hashlib.sha256(b"library").hexdigest(),
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
        "  asked for now: aten::hardswish\n"
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
        "- +6,400: `aten::hardswish`, `detector: forward at detector.py:41`\n"
        "- +900: (in any library)\n"
        "- +200: `aten::relu`, `m: forward at m.py:3`\n"
        "- +100: (for several operators)\n"
        "- most of it in +6,400 `d.cpp`, +900 `c10/a.cpp`, +300 `b.cpp`\n"
        "\n`//apps/camera:linux-x86_64`\n"
        "- compiler: `zig 0.16 -> zig 0.17`\n"
        "- asked for now: `aten::hardswish`\n"
        "- +6,400: `aten::hardswish`, `detector: forward at detector.py:41`\n"
        "- +100: (in any library)\n"
        "- +100: `aten::relu`, `m: forward at m.py:3`\n"
        "- most of it in +6,400 `d.cpp`, +100 `b.cpp`, +100 `c10/a.cpp`\n"
    )
    verified = {
        "//apps/camera:ios-arm64": "not run here",
        "//apps/camera:linux-x86_64": "ok",
    }
    assert (
        "\nVerified: the models of 1 library ran in it here.\n"
        "\nOf the others: `camera:ios-arm64` (not run here).\n"
        "\n### Why\n"
    ) in markdown(found, 5000, verified)
    same = compared({KEY: BEFORE}, {KEY: BEFORE})
    assert markdown(same, None) == "## Library sizes\n\n1 library is as large as before.\n"


def test_what_models_no_longer_ask_for() -> None:
    names = [f"aten::op{n:02}" for n in range(12)]
    before = replace(BEFORE, asked={**BEFORE.asked, **dict.fromkeys(names, Asked({"m": ()}))})
    found = compared({KEY: before}, {KEY: BEFORE})
    assert f"  no longer asked for: {', '.join(names)}\n" in text(found, top=1)
    shown = ", ".join(f"`{name}`" for name in names[:10])
    assert f"- no longer asked for: {shown} and 2 more\n" in markdown(found, None)


def test_names_in_a_comment_are_shown_as_they_are() -> None:
    """They are from models, which anyone may send."""
    name = "aten::__getitem__.t"
    sites = ("forward at a`|b@team\n## Approved\x1b.py:1",)
    after = replace(
        BEFORE,
        size=1007,
        asked={**BEFORE.asked, name: Asked({"m": sites})},
        shares=(*BEFORE.shares, Share((name,), "e.cpp", "code", 7)),
    )
    found = compared({KEY: BEFORE}, {KEY: after})
    shown = "m: forward at a'\u00a6b@team\\n## Approved\\x1b.py:1"
    assert f"\n- +7: `{name}`, `{shown}`\n" in markdown(found, None)
    assert "\x1b" not in text(found, top=9)


def test_a_comment_of_200_apps_fits() -> None:
    keys = [
        (f"application_{n:03}", abi)
        for n in range(200)
        for abi in ("linux-x86_64", "android-arm64-v8a", "ios-arm64")
    ]
    before = {(app, abi): replace(BEFORE, app=app, abi=abi) for app, abi in keys}
    after = {(app, abi): replace(AFTER, app=app, abi=abi) for app, abi in keys}
    verified = {f"//apps/{app}:{abi}": "not run here" for app, abi in keys}
    said = markdown(compared(before, after), growth=5000, verified=verified)
    assert "(not run here) and 590 more.\n" in said
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
    folder = deliver(quick_inputs(tmp_path / "parts"), tmp_path / "dist").folder
    manifest = read_manifest(folder)
    key = (manifest.app, manifest.abi)
    digest = manifest.files[manifest.library.file].sha256
    now = replace(BEFORE, app=key[0], abi=key[1], library=digest)
    kept = folder.parent / f"sizes/{folder.name}.json"
    other = tmp_path / "dist/camera/sizes/linux-x86_64.json"
    for path in (kept, other):
        path.parent.mkdir(parents=True)
    other.write_text(BEFORE.text())
    # kept: none, those of an earlier build, today's
    for text_kept, attributed in (None, False), (BEFORE.text(), False), (now.text(), True):
        if text_kept is not None:
            kept.write_text(text_kept.replace("camera", key[0]))
        for path in (folder, folder / "manifest.json", tmp_path / "dist"):
            found = sizes_in(path)
            assert (not found[key].is_total) == attributed, path
            assert found[key].library == digest
            assert (KEY in found) == (path.name == "dist")
    assert sizes_in(kept) == sizes_in(kept.parent) == {key: now}


def test_what_holds_no_sizes(tmp_path: Path) -> None:
    with pytest.raises(NoSizesError, match="there are no sizes of libraries here"):
        sizes_in(tmp_path / "nowhere")
    kept = tmp_path / "camera/sizes/linux-x86_64.json"
    kept.parent.mkdir(parents=True)
    whole = BEFORE.text()
    for damaged, seen in (
        ("[]", "no sizes of a library"),
        (whole[:-9], "Expecting value"),
        (whole.replace('"format":2', '"format":3'), "format 3, where 2 is known"),
        (whole.replace('"size":1000', '"size":1e999'), "no sizes of a library"),
        (whole.replace('"size":1000', '"size":1001'), "its shares do not add up to its size"),
        (whole.replace(",800,0]", ",-800,0]"), "it has negative numbers"),
    ):
        kept.write_text(damaged)
        # what cannot be read is no library that is gone
        for path in (kept, tmp_path):
            with pytest.raises(UnreadableSizesError) as raised:
                sizes_in(path)
            assert str(raised.value.place) == str(kept)
            assert str(raised.value.seen).startswith(seen)


def test_what_an_app_links_of_a_static_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = deliver(quick_inputs(tmp_path / "parts"), tmp_path / "dist").folder
    manifest = read_manifest(folder)
    monkeypatch.setattr(kept_sizes, "linked_bytes", lambda path: {"libtoy.a": 7}[path.name])
    packaged = [Packaged(folder, manifest, "lib/libtoy.a")]
    monkeypatch.setattr(kept_sizes, "read_packages", lambda _: packaged)
    (found,) = sizes_in(folder).values()
    assert found.size == 7
    packaged[0] = replace(packaged[0], path=tmp_path / "toy.xcframework.zip")
    with pytest.raises(NoSizesError) as raised:
        sizes_in(folder)
    assert raised.value.what == (
        "a package with a static library does not tell what an app links of it"
    )
