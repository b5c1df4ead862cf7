"""Files that change while a clock of ours goes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from orchestrator.system.file_watcher import (
    EVERY,
    PATIENCE,
    SETTLED,
    Edge,
    State,
    Watcher,
    state_of,
)

MODEL, OTHER = Path("model.ptl"), Path("other.ptl")


class World:
    """Files by the time at which they get a state, and a clock that waiting moves."""

    def __init__(self, **histories: Mapping[float, State | None]) -> None:
        self.time = 0.0
        self.histories = {Path(f"{name}.ptl"): one for name, one in histories.items()}
        self.whole_from = {MODEL: 0.0, OTHER: 0.0}

    def state(self, path: Path) -> State | None:
        found = None
        for at, state in self.histories[path].items():
            found = state if at <= self.time else found
        return found

    def wait(self, seconds: float) -> None:
        self.time += seconds
        assert self.time < 100, "nothing changed"

    def watcher(self, *paths: Path) -> Watcher:
        edge = Edge(self.state, lambda: self.time, self.wait)
        made = Watcher(lambda path: self.time >= self.whole_from[path], edge)
        made.take(paths)
        return made


def test_a_saved_file_is_a_change_once_it_settled() -> None:
    world = World(model={0: (1, 10, 1), 7: (2, 12, 7)})
    watcher = world.watcher(MODEL)
    assert watcher.changed() == {MODEL}
    assert 7 + SETTLED <= world.time <= 7 + SETTLED + 2 * EVERY


def test_a_file_that_is_still_written_is_waited_for() -> None:
    """It grows more slowly than one looks, and more quickly than it would settle."""
    growing = {0.3 * n: (2, 100 * n, n) for n in range(1, 40)}
    world = World(model={0: (1, 10, 1), **growing})
    watcher = world.watcher(MODEL)
    assert watcher.changed() == {MODEL}
    assert world.time >= 0.3 * 39 + SETTLED
    assert world.state(MODEL) == (2, 3900, 39)


def test_half_of_a_file_that_rests_is_given_time() -> None:
    world = World(model={0: (1, 10, 1), 2: (2, 5, 2), 4: (2, 10, 4)})
    world.whole_from[MODEL] = 4
    assert world.watcher(MODEL).changed() == {MODEL}
    assert 4 + SETTLED <= world.time < 4 + 1


def test_a_file_that_is_followed_counts_from_when_it_was_taken() -> None:
    """Another is looked at from now on; one that is no longer asked for is not."""
    world = World(model={0: (1, 10, 1), 7: (2, 12, 7)}, other={0: (3, 9, 1), 7: (4, 9, 7)})
    watcher = world.watcher(MODEL)
    world.time = 8
    watcher.follow([MODEL, OTHER])
    assert watcher.changed() == {MODEL}
    watcher = world.watcher(MODEL, OTHER)
    world.histories[OTHER] = {0: (4, 9, 7), 20: (5, 9, 20)}
    world.histories[MODEL] = {0: (2, 12, 7), 15: (6, 1, 15)}
    watcher.follow([OTHER])
    assert watcher.changed() == {OTHER}
    assert world.time > 20


def test_a_file_that_is_made_while_it_is_waited_for_is_a_change() -> None:
    """One that was there when the files were taken is none, nor is one that does not stay."""
    world = World(model={0: (1, 10, 1)}, other={0: None, 7: (2, 1, 7), 7.3: None, 20: (3, 1, 20)})
    watcher = world.watcher(MODEL)
    assert watcher.changed(lambda: [MODEL, OTHER]) == {OTHER}
    assert 20 + SETTLED <= world.time < 21
    watcher.take([MODEL, OTHER])
    world.histories[MODEL] = {0: (1, 10, 1), 40: (1, 10, 40)}
    assert watcher.changed(lambda: [MODEL, OTHER]) == {MODEL}


def test_what_never_gets_whole_is_a_change_in_the_end() -> None:
    world = World(model={0: (1, 10, 1), 2: (2, 5, 2)})
    world.whole_from[MODEL] = 1000
    assert world.watcher(MODEL).changed() == {MODEL}
    assert 2 + PATIENCE <= world.time < 2 + PATIENCE + 1


def test_a_file_that_is_taken_away_and_written_anew_is_one_change() -> None:
    world = World(model={0: (1, 10, 1), 2: None, 3: (2, 5, 3)})
    world.whole_from[MODEL] = 3
    watcher = world.watcher(MODEL)
    assert watcher.changed() == {MODEL}
    assert world.time >= 3 + SETTLED
    assert world.state(MODEL) == (2, 5, 3)


def test_two_that_are_saved_together_are_one_change() -> None:
    world = World(model={0: (1, 1, 1), 2: (1, 1, 2)}, other={0: (2, 1, 1), 2.4: (2, 1, 2)})
    assert world.watcher(MODEL, OTHER).changed() == {MODEL, OTHER}


def test_what_changed_since_it_was_taken_is_found_at_once_and_once() -> None:
    world = World(model={0: (1, 1, 1), 2: (1, 1, 2), 50: (1, 1, 3)}, other={0: (2, 1, 1)})
    watcher = world.watcher(MODEL, OTHER)
    world.time = 20.0
    assert watcher.changed() == {MODEL}
    watcher.take([MODEL, OTHER])
    assert watcher.changed() == {MODEL}
    assert world.time >= 50


def test_a_change_that_is_undone_is_none() -> None:
    world = World(
        model={0: (1, 10, 1), 2: (2, 5, 2), 2.2: (1, 10, 1)}, other={0: (2, 1, 1), 9: (2, 1, 9)}
    )
    assert world.watcher(MODEL, OTHER).changed() == {OTHER}


def test_states_of_files(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert state_of(path) is None
    assert state_of(tmp_path) is None

    def differs(change: Callable[[], object]) -> bool:
        before = state_of(path)
        change()
        return state_of(path) != before

    assert differs(lambda: path.write_bytes(b"1"))
    assert not differs(lambda: path.read_bytes())
    assert differs(lambda: path.write_bytes(b"12"))
    assert differs(lambda: os.utime(path, (1, 1)))
    other = tmp_path / "b"
    other.write_bytes(b"34")
    os.utime(other, (1, 1))
    assert differs(lambda: other.replace(path))
