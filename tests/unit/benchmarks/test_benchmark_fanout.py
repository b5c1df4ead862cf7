"""The simulation of a build on several machines: crafted graphs, exact seconds."""

from __future__ import annotations

import pytest

from benchmarks.fanout import (
    Fanout,
    Step,
    logged_seconds,
    longest_ways,
    render,
    results_of,
    simulated,
)

# two objects with one header, and a link
DIAMOND = (
    Step("header", 4, size=100),
    Step("a", 2, size=10, reads=("header",)),
    Step("b", 3, size=20, reads=("header",)),
    Step("link", 1, size=5, reads=("a", "b")),
)


def test_a_step_is_as_urgent_as_what_waits_for_it_takes() -> None:
    assert longest_ways(DIAMOND) == {"header": 8, "a": 3, "b": 4, "link": 1}


@pytest.mark.parametrize(("workers", "seconds"), [(1, 10), (2, 8), (8, 8)])
def test_no_number_of_workers_is_faster_than_the_longest_way(workers: int, seconds: float) -> None:
    assert simulated(DIAMOND, workers, None).wall_seconds == seconds


def test_a_worker_fetches_what_another_made_and_sends_what_it_makes() -> None:
    # the first: sources 50, header sent 100 | b sent 20 | a fetched 10, link sent 5
    # the second, beside b: sources 50, header fetched 100, a sent 10
    assert simulated(DIAMOND, 2, 10.0, sources=50) == Fanout(
        workers=2,
        # header until 19, b until 24, a until 37, link until 39.5
        wall_seconds=39.5,
        transfer_seconds=34.5,
        moved_bytes=345,
    )


def test_one_worker_fetches_its_sources_once_and_nothing_that_it_made() -> None:
    one = simulated(DIAMOND, 1, 10.0, sources=50)
    assert (one.moved_bytes, one.wall_seconds) == (50 + 135, 10 + 18.5)


def test_what_has_the_longest_way_goes_first() -> None:
    steps = [*(Step(f"s{n}", 1) for n in range(4)), Step("long", 3), Step("end", 1, 0, ("long",))]
    # in the order of names, `end` would begin after 5 seconds
    assert simulated(steps, 2, None).wall_seconds == 4


def test_a_free_worker_takes_what_it_has_the_inputs_of() -> None:
    chains = [
        Step("x1", 1, size=1000),
        Step("y1", 1, size=1000),
        Step("x2", 1, reads=("x1",)),
        Step("y2", 1, reads=("y1",)),
    ]
    # each of the two sends its 1,000 bytes and fetches none
    assert simulated(chains, 2, 1000.0).moved_bytes == 2000


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (
            [Step("a", 1, 0, ("b",)), Step("b", 1, 0, ("a",))],
            "steps read each other in a circle: a",
        ),
        ([Step("a", 1, 0, ("b",))], "a reads b, which no step makes"),
    ],
)
def test_what_is_no_graph_is_refused(steps: list[Step], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        simulated(steps, 2, None)


def tabbed(line: str) -> str:
    return line.replace(" ", "\t")


def test_the_last_time_of_an_output_counts() -> None:
    lines = ("0 1500 9 /o/a.o dead", "100 350 9 /o/b.o beef", "7 2007 9 /o/a.o 1")
    log = "".join(f"{line}\n" for line in ("# ninja log v6", *map(tabbed, lines)))
    assert logged_seconds(log) == {"/o/a.o": 2.0, "/o/b.o": 0.25}


def test_the_page_has_a_row_for_each_number_of_workers() -> None:
    page = render(results_of(DIAMOND, ["//apps/x"]), {"cores": "2"})
    assert "- actions: 4, 10 s in all\n- the longest way through the graph: 8.0 s:" in page
    assert "| no transfer | 1 | 10 | 1.0 | 0 s | 0.48 GB |\n" in page
    assert "| no transfer | 8 | 8 | 1.2 | 0 s | 0.96 GB |\n" in page
    assert "| 1 Gbit/s | 1 | 14 | 1.0 | 4 s | 0.48 GB |\n" in page
