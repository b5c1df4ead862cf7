"""The page of `report --html`, as a parser of HTML reads it: a browser has tests/campaigns."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from page_toy import EVENTS, HOSTILE, RECORDED, library, toy_page

import orchestrator.report.page
from orchestrator.report.events import Event
from orchestrator.report.page.document import page
from orchestrator.report.page.history import lines_of
from orchestrator.report.page.timeline import timeline
from orchestrator.report.page.views import libraries_of, shared_by
from orchestrator.size.attribution import Asked

FILES = Path(orchestrator.report.page.__file__).parent / "files"
# The file of the package d3-hierarchy 3.1.2 at npm: dist/d3-hierarchy.min.js.
D3_HIERARCHY = "a8771380454be89ec5ffe9a6396ba7c247081e348ae740dc9cb9629abd4c0e43"


class Read(HTMLParser):
    """The elements of a page in order, and the text of each kind."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, Mapping[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("wbr", "meta", "br", "input", "polyline"):
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        if tag != "polyline":
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in {*self._open}:
            self.texts[tag][-1] += data

    def all(self, tag: str) -> list[Mapping[str, str]]:
        return [attributes for name, attributes in self.found if name == tag]


def test_names_that_are_not_utf8_are_written_as_they_are_escaped() -> None:
    """As sizes have them that a model's own bytes went into."""
    one = library("camera", "linux-x86_64")
    name = next(iter(one.asked))
    asked = {**one.asked, name: Asked({"net\udcff": ()})}
    text = page([replace(one, asked=asked)], {}, (), ())
    assert "net\\udcff" in text
    assert text.encode()


def test_names_stay_text() -> None:
    read = Read(toy_page())
    assert not read.all("img")
    assert len(read.all("script")) == 1
    assert any(text == HOSTILE for text in read.texts["th"])
    assert any(HOSTILE in text for text in read.texts["td"])
    assert any(HOSTILE in text for text in read.texts["pre"])
    # attributes too: the title of a bar
    assert any(HOSTILE in one.get("title", "") for one in read.all("div"))
    assert not [name for _, of in read.found for name in of if name.startswith("on")]


def test_the_page_is_one_file_and_runs_one_script() -> None:
    text = toy_page()
    read = Read(text)
    (script,) = read.texts["script"]
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert read.all("meta")[1]["content"] == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    )
    ids = {of["id"] for _, of in read.found if "id" in of}
    links = [of["href"] for _, of in read.found if "href" in of]
    assert {link[0] for link in links} == {"#"}
    assert {link[1:] for link in links} <= ids
    assert not [of for _, of in read.found if {"src", "srcset", "data"} & of.keys()]
    assert "url(" not in text
    assert "@import" not in text


def test_a_treemap_s_layout_is_the_published_one() -> None:
    assert hashlib.sha256((FILES / "d3-hierarchy.min.js").read_bytes()).hexdigest() == D3_HIERARCHY
    assert "Mike Bostock" in (FILES / "d3-hierarchy.LICENSE.txt").read_text()
    assert "PERFORMANCE OF THIS SOFTWARE" in toy_page()


def test_everything_has_a_name_for_those_who_do_not_see_it() -> None:
    read = Read(toy_page())
    ids = Counter(of["id"] for _, of in read.found if "id" in of)
    assert max(ids.values()) == 1
    for tag, of in read.found:
        if "role" in of and of["role"] in ("listbox", "region"):
            assert of.get("aria-label") or ids[of["aria-labelledby"]], (tag, of)
        if tag == "svg":
            assert of.get("role") or of.get("aria-hidden") == "true"
        if tag == "th":
            assert of["scope"] in ("row", "col")
        if tag == "section":
            assert ids[of["aria-labelledby"]] == 1


@pytest.mark.parametrize("count", [1, 41], ids=["few", "many"])
def test_each_table_adds_up_to_its_library(count: int) -> None:
    found = [library("camera", f"linux-{number}", 100) for number in range(count)]
    for one in libraries_of(found):
        assert [view.by for view in one.views] == [
            "part",
            "operator",
            "dtype",
            "model",
            "source file",
        ]
        for view in one.views:
            assert sum(row.bytes for row in view.rows) == one.bytes
            assert all(len(row.cells) == len(view.columns) for row in view.rows)
            # the rest is one row in each part
            assert len(view.rows) <= (40 if count == 1 else 12) + 2


def test_what_apps_share() -> None:
    one, other = shared_by([library("camera", "a"), library("vad", "a"), library("vad", "b")])
    assert (one.app, one.abi, one.alone, one.some, one.all) == (
        "camera",
        "a",
        5000,
        0,
        one.total - 5000,
    )
    assert one.largest == (("c10/core/own of camera", 5000),)
    assert other.app == "vad"


def test_sizes_over_commits() -> None:
    (line,) = lines_of(RECORDED)
    assert [(step.commit[:2], step.bytes, step.difference) for step in line.steps] == [
        ("01", 1000, None),
        ("23", 1250, 250),
    ]
    assert line.points == "4.0,32.0 120.0,32.0 236.0,4.0"
    assert lines_of(RECORDED[:1])[0].points == "4.0,18.0 236,18.0"
    assert lines_of([]) == ()


def test_what_the_build_waited_for() -> None:
    found = timeline(EVENTS)
    assert found is not None
    assert [(bar.name, bar.left, bar.width) for bar in found.path] == [
        ("b.cpp", 0, 75),
        ("link", 75, 25),
    ]
    assert (found.lanes, found.left_out) == (3, 0)
    many = [Event("action", float(n), f"{n}.cpp", 0.5) for n in range(1, 1001)]
    long = timeline([*many, Event("stage", 1000.0, "all", 1000.0)])
    assert long is not None
    assert (len(long.bars), long.left_out) == (600, 401)
    assert timeline([]) is None


def test_a_page_of_nothing_says_so() -> None:
    text = page([], {}, [], [])
    for said in ("No commit keeps sizes", "no second app", "Nothing is known of a last build"):
        assert said in text


def test_a_budget_that_is_passed_is_told() -> None:
    assert '<small class="over">over the budget of 1 kB</small>' in toy_page(1, 1)


def test_many_apps_fit() -> None:
    """A real library has 300 source files and 30 operators."""
    assert len(toy_page(8, 3, 300).encode()) < 2_000_000
    assert len(toy_page(200, 3, 300).encode()) < 10_000_000


def test_the_script_reads_what_the_page_has() -> None:
    """Selectors of page.js are found in the page."""
    script = (FILES / "page.js").read_text()
    text = toy_page()
    for name in re.findall(r'find\("#(\w+)', script):
        assert f'id="{name}"' in text, name
