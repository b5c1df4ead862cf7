"""The page of `report --html` in a real browser: drawn, with keys alone, in the dark, without
scripts. A browser is a large download (apt-get install chromium-headless-shell)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from page_toy import HOSTILE, toy_page

pytestmark = pytest.mark.full_only
# Seconds of the page's own thread until the chart is drawn: beside other processes it takes longer.
_MOST = 2.0
_CELLS = 'document.querySelectorAll("#treemap [role=option]")'


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as one:
        yield one


def opened(browser: Browser, tmp_path: Path, text: str) -> None:
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    browser.open((tmp_path / "page.html").as_uri())


def colours(png: bytes) -> set[bytes]:
    """Colours of every fourth pixel of an 8-bit RGB or RGBA image (PNG, 9.2: filters undone)."""
    width, height, _, kind = struct.unpack(">IIBB", png[16:26])
    step = {2: 3, 6: 4}[kind]
    at, packed = 8, b""
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at : at + 8])
        packed += png[at + 8 : at + 8 + length] if name == b"IDAT" else b""
        at += 12 + length
    raw, found, before = zlib.decompress(packed), set[bytes](), bytearray(width * step)
    for row in range(height):
        start = row * (width * step + 1)
        line = bytearray(raw[start + 1 : start + 1 + width * step])
        _unfilter(raw[start], line, before, step)
        found |= {bytes(line[x : x + 3]) for x in range(0, len(line), 4 * step)}
        before = line
    return found


def _unfilter(kind: int, line: bytearray, above: bytearray, step: int) -> None:
    for n in range(len(line)):
        left = line[n - step] if n >= step else 0
        corner = above[n - step] if n >= step else 0
        up, near = above[n], left + above[n] - corner
        nearest = min((left, up, corner), key=lambda one: abs(near - one))
        line[n] = (line[n] + (0, left, up, (left + up) // 2, nearest)[kind]) & 255


@pytest.mark.parametrize(("apps", "abis"), [(8, 3), (200, 3)])
def test_it_is_drawn_in_time_and_reads_nothing(
    browser: Browser, tmp_path: Path, apps: int, abis: int
) -> None:
    browser.send("Performance.enable", timeDomain="threadTicks")
    opened(browser, tmp_path, toy_page(apps, abis, 300))
    assert int(browser.run("document.documentElement.dataset.drawn")) > 0
    metrics = browser.send("Performance.getMetrics")["metrics"]
    assert next(one["value"] for one in metrics if one["name"] == "TaskDuration") < _MOST, metrics
    assert browser.requests == [(tmp_path / "page.html").as_uri()]
    assert browser.complaints == []
    # each row of the table that is shown is a cell
    assert browser.run(f"{_CELLS}.length") == browser.run(
        'document.querySelectorAll(".libraries .on .on tbody tr").length'
    )
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")


def test_keys_alone(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, toy_page())
    for _ in range(30):
        browser.press("Tab")
        if browser.run('document.activeElement.id == "library"'):
            break
    browser.press("Tab")
    browser.press("ArrowRight")
    assert browser.run('document.querySelector("input[name=by]:checked").value') == "operator"
    browser.press("Tab")
    assert browser.run('document.activeElement.getAttribute("role")') == "option"
    seen = set()
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "End", "Home"):
        browser.press(key)
        said = browser.run('document.querySelector("#said").textContent')
        assert said == browser.run('document.activeElement.getAttribute("aria-label")')
        seen.add(said)
    assert len(seen) > 2
    assert browser.run("document.querySelectorAll(\"#treemap [tabindex='0']\").length") == 1
    # the row of what was chosen is marked
    row = browser.run('document.querySelector("tr.on th").textContent')
    assert said.startswith(row)
    browser.run("document.querySelector(\"#timeline [tabindex='0']\").focus()")
    browser.press("ArrowDown")
    assert browser.run('document.querySelector("#ran").textContent').endswith(" s")


def test_names_run_nothing(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, toy_page())
    assert browser.run("document.images.length") == 0
    assert browser.run(f"[...{_CELLS}].length") > 0
    browser.run('document.querySelector("input[value=operator]").click()')
    labels = browser.run(f'[...{_CELLS}].map((one) => one.getAttribute("aria-label")).join("\\n")')
    assert HOSTILE in labels
    # the policy refuses another script
    browser.run(
        'document.body.append(Object.assign(document.createElement("script"), {text: "x=1"}))'
    )
    assert browser.run("typeof x") == "undefined"


def test_by_day_and_by_night(browser: Browser, tmp_path: Path) -> None:
    """A loose look: the page's colours and its cells' are there, and dark is dark."""
    opened(browser, tmp_path, toy_page())
    browser.run('document.querySelector("#inside").scrollIntoView({behavior: "instant"})')
    cells = {bytes.fromhex("77aadd"), bytes.fromhex("99ddff")}
    browser.colours("light")
    light = colours(browser.screenshot())
    browser.colours("dark")
    dark = colours(browser.screenshot())
    assert cells <= light
    assert cells <= dark
    assert bytes.fromhex("ffffff") in light
    assert bytes.fromhex("1c1f25") in dark
    assert bytes.fromhex("1c1f25") not in light


def test_tables_need_no_script(browser: Browser, tmp_path: Path) -> None:
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    opened(browser, tmp_path, toy_page())
    shown = "getComputedStyle(document.querySelector('{}')).display"
    assert browser.run(shown.format("#treemap")) == "none"
    assert browser.run(shown.format(".libraries details")) == "block"
    assert browser.run(shown.format(".nojs")) == "block"
    opens = "(() => { const one = document.querySelector('.libraries details'); one.open = true; "
    assert browser.run(opens + "return one.querySelector('table').offsetHeight > 100 })()")
