"""What is told reaches a terminal as text and as nothing else, wherever its words come from."""

from __future__ import annotations

import pytest
from rich.console import Console

from orchestrator.build.explaining.explain import Answer
from orchestrator.commands.views import stderr_logger
from orchestrator.errors import OrchestratorError, Place, visible
from orchestrator.report.table import BuildReport, VariantReport, plain, show
from orchestrator.values.labels import VariantLabel

TITLE = "\x1b]0;owned\x07"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, é, 名, a\ttab", "plain text, é, 名, a\ttab"),
        (TITLE, r"\x1b]0;owned\x07"),
        ("a\nb\r\x00\x7f", r"a\nb\r\x00\x7f"),
        ("\x9b2J\x85", r"\x9b2J\x85"),
        ("\u202egpj.exe\u2066\u200f\u2028", r"\u202egpj.exe\u2066\u200f\u2028"),
        ("/home/\udcff", r"/home/\udcff"),
    ],
)
def test_what_a_terminal_would_act_upon_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_no_part_of_an_error_reaches_the_terminal_raw() -> None:
    error = OrchestratorError(
        f"what {TITLE}",
        place=Place(f"file{TITLE}", 3, 4),
        expected=f"expected {TITLE}",
        seen=f"seen {TITLE}\nerror: all is well",
        hint=f"hint {TITLE}",
        details=f"one {TITLE}\n  two\u202e\n",
    )
    own = r"\x1b]0;owned\x07"
    assert error.render() == (
        f"file{own}:3:4: error: what {own}\n"
        f"  expected: expected {own}\n"
        f"  seen:     seen {own}\\nerror: all is well\n"
        f"  do:       hint {own}\n"
        f"  | one {own}\n"
        "  |   two\\u202e"
    )


def test_a_failure_is_told_in_a_table_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """rich would take `[red]` for a colour, and raise for `[/x]`."""
    problem = f"failed: `forward[0]` is not [red] or [/x]{TITLE}"
    report = BuildReport((VariantReport("camera", "linux-x86_64", 3, 1, 2, problem=problem),))
    told = "failed: `forward[0]` is not [red] or [/x]\\x1b]0;owned\\x07"
    assert plain(report).splitlines()[1].endswith(told)
    show(report, Console(force_terminal=True, width=300, color_system=None))
    assert told in capsys.readouterr().out


def test_other_words_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    stderr_logger(False)(f"tracing {TITLE}")
    assert capsys.readouterr().err == "tracing \\x1b]0;owned\\x07\n"
    absent = Answer(VariantLabel("camera", "a"), "aten::relu", (), absent=(f"who: {TITLE}",))
    assert absent.text() == (
        "aten::relu is not in //apps/camera:a: nothing that is selected needs it\n"
        "  who: \\x1b]0;owned\\x07\n"
    )
    answer = Answer(VariantLabel("camera", "linux-x86_64"), "aten::relu", (f"who: {TITLE}",))
    assert (
        answer.text() == "aten::relu is in //apps/camera:linux-x86_64\n  who: \\x1b]0;owned\\x07\n"
    )
