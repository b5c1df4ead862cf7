"""The tables of `memory`."""

from __future__ import annotations

from dataclasses import replace

from memory_toy import FIRST, MEMORY

from orchestrator.report.memory import largest_text, memory_json, memory_text, peak_text
from orchestrator.values.labels import VariantLabel

LABEL = VariantLabel("camera", "linux-x86_64")


def test_the_tables() -> None:
    assert memory_text(LABEL, MEMORY, 3) == (
        "//apps/camera:linux-x86_64 net: 5,200,000 bytes in forward[0], aten::relu,"
        " forward at net.py:13\n"
        "when                    bytes  as loaded  kept by runs  of this run   inputs  reached by"
        "  where\n"
        "in the file           900,000\n"
        "while it is loaded  1,100,000\n"
        "loaded              1,000,000  1,000,000\n"
        "forward[0]          5,200,000  1,000,000             0    4,200,000  602,112  aten::relu"
        "  forward at net.py:13\n"
        "between runs        1,400,000    600,000       800,000\n"
        "at the peak of forward[0]      bytes  made by       where\n"
        "float32 [1, 64, 112, 112]  3,211,264  aten::conv2d  forward at net.py:12\n"
        "kept by kernels              800,000  aten::conv2d  forward at net.py:12\n"
        "float32 [64, 3, 7, 7]        600,000  (the model)\n"
        "(13 more)                    588,736\n"
    )


def test_a_model_that_takes_most_while_it_is_loaded() -> None:
    found = replace(MEMORY, loading=6_000_000)
    first, *_ = memory_text(LABEL, found, 1).splitlines()
    assert first == "//apps/camera:linux-x86_64 net: 6,000,000 bytes while it is loaded"
    assert largest_text(found).startswith("the largest at the peak of forward[0]:\n  3,211,264")


def test_a_model_without_runs() -> None:
    found = replace(MEMORY, runs=())
    assert memory_text(LABEL, found, 9) == (
        "//apps/camera:linux-x86_64 net: 1,100,000 bytes while it is loaded\n"
        "when                    bytes  as loaded  kept by runs  of this run  inputs  reached by"
        "  where\n"
        "in the file           900,000\n"
        "while it is loaded  1,100,000\n"
        "loaded              1,000,000  1,000,000\n"
    )
    assert largest_text(found) == ""


def test_names_are_a_models_and_shown_as_such() -> None:
    assert peak_text(replace(MEMORY, runs=(replace(FIRST, at=None),))) == (
        "5,200,000 bytes in forward[0]"
    )
    odd = replace(FIRST, method="a\x1b[2J")
    assert "\x1b" not in memory_text(LABEL, replace(MEMORY, runs=(odd,)), 3)


def test_the_numbers_add_up_for_machines() -> None:
    (run,) = memory_json(LABEL, MEMORY)["runs"]
    parts = run["loaded_bytes"] + run["earlier_bytes"] + run["own_bytes"]
    blocks = sum(one["bytes"] for one in run["blocks"]) + run["others"]["bytes"]
    assert parts == blocks == run["peak_bytes"]
