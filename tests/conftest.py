"""What every test may count on."""

from __future__ import annotations

import difflib
import hashlib
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

# A shell starts its background jobs with SIGINT ignored, and an ignored signal stays ignored in
# children: tests of Ctrl-C would wait for nothing where CI runs in the background.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


ROOT = Path(__file__).parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    """How much of the campaigns to run (tests/campaigns/harness.py); whether texts are renewed."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write expected texts that differ, and show how",
    )
    parser.addoption(
        "--share",
        type=Path,
        metavar="FOLDER",
        help="leave out the modules that another run with this folder has begun",
    )
    parser.addoption(
        "--brief",
        action="store_true",
        help="leave out what is marked `ci_only`",
    )
    group = parser.getgroup("campaigns")
    group.addoption("--campaigns", action="store_true", help="campaigns in full, not in short")
    group.addoption("--seed", type=int, default=1, help="of all random numbers (1)")
    group.addoption("--only", type=int, default=None, help="repeat this one try")
    group.addoption("--seconds", type=float, default=3600.0, help="the most for one campaign")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Campaigns without a short form are part of full runs; what only CI runs, of no brief one."""
    left_out = {
        "full_only": not config.getoption("--campaigns"),
        "ci_only": config.getoption("--brief"),
    }
    markers = [name for name, is_left_out in left_out.items() if is_left_out]
    deselected = {item for item in items if any(map(item.get_closest_marker, markers))}
    if deselected:
        items[:] = [item for item in items if item not in deselected]
        config.hook.pytest_deselected(items=list(deselected))


class _Share:
    """Runs at once that divide the modules: each goes to the run that comes to it first.

    So both cores are busy to the end, whatever a module takes. The modules that use the fixture
    `built` (tests/integration/conftest.py) go to one run together: it builds in this checkout.

    folder    has a file for each module that a run has begun
    checkout  the modules that go together
    """

    def __init__(self, folder: Path, checkout: frozenset[Path]) -> None:
        self._folder = folder
        self._checkout = checkout
        self._ours = dict[str, bool]()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """As pytest's own, with this run's tests alone. What comes next decides what is torn down,
        folders' fixtures too: so the next module is taken with the last test of the one before."""
        ours = (item for item in session.items if self._is_ours(item))
        item = next(ours, None)
        while item is not None:
            following = next(ours, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            item = following
        return True

    def _is_ours(self, item: pytest.Item) -> bool:
        key = "checkout" if item.path in self._checkout else str(item.path)
        if key not in self._ours:
            self._ours[key] = self._claim(key)
        return self._ours[key]

    def _claim(self, key: str) -> bool:
        try:
            (self._folder / hashlib.sha256(key.encode()).hexdigest()).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def pytest_collection_finish(session: pytest.Session) -> None:
    folder = session.config.getoption("--share")
    if folder is not None:
        functions = (item for item in session.items if isinstance(item, pytest.Function))
        checkout = {item.path for item in functions if "built" in item.fixturenames}
        session.config.pluginmanager.register(_Share(folder, frozenset(checkout)))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a file of the tree with the text that it must have.

    With `--update-golden` a file that differs is written, and the difference printed: for a change
    that is meant, and to be read before it is committed.
    """
    update = request.config.getoption("--update-golden")
    again = f"./check {request.path.relative_to(ROOT).as_posix()} --update-golden"
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def compare(file: Path, text: str) -> None:
        before = file.read_text(encoding="utf-8") if file.is_file() else ""
        name = file.relative_to(ROOT).as_posix()
        lines = before.splitlines(keepends=True), text.splitlines(keepends=True)
        difference = "".join(difflib.unified_diff(*lines, name, f"{name}, now"))
        if not update:
            assert before == text, f"{difference}\nmeant so? {again}"
        elif before != text:
            file.write_text(text, encoding="utf-8")
            with capture.global_and_fixture_disabled():
                print(f"\n{difference}", end="")

    return compare
