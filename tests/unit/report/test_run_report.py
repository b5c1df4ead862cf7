"""What `run` prints."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from test_output_schemas import faults

from orchestrator.report.run import EstimatedLibrary, MadeLibrary, MadeShard, RunReport, shown_value
from orchestrator.values.growth import Growth, NewDtypes
from orchestrator.verify.verdict import Failure, VerifyResult


def tensor(dtype: str, form: str, *values: object) -> dict[str, Any]:
    data = base64.b64encode(struct.pack(f"<{len(values)}{form}", *values)).decode()
    return {"tensor": {"dtype": dtype, "shape": [len(values)], "data": data}}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nothing"),
        ({"none": True}, "None"),
        ({"int": 3}, "int 3"),
        ({"string": "a\nb" * 60}, "string " + ("a\nb" * 60)[:80]),
        (tensor("float32", "f", 0.5, -1), "tensor float32 [2]: 0.5 -1"),
        (tensor("int64", "q", *range(9)), "tensor int64 [9]: 0 1 2 3 4 5 ..."),
        (tensor("float64", "d", *range(6)), "tensor float64 [6]: 0 1 2 3 4 5"),
        (tensor("bool", "?", True), "tensor bool [1]: True"),
        (tensor("float32", "f"), "tensor float32 [0]: "),
        ({"tensor": {"dtype": "complex64", "shape": [], "data": "AAAA"}}, "tensor complex64 []"),
        ({"tuple": [{"int": 1}, {"bool": True}]}, "tuple of 2 (int 1; bool True)"),
        ({"list": [{"int": n} for n in range(5)]}, "list of 5 (int 0; int 1; int 2; int 3; ...)"),
        ({"dict": [[{"string": "a"}, {"int": 1}]]}, "dict of 1 (string a: int 1)"),
    ],
)
def test_values_in_one_line(value: dict[str, Any] | None, text: str) -> None:
    assert shown_value(value) == text


def test_a_value_of_a_model_cannot_make_the_report_recurse_for_ever() -> None:
    value: dict[str, Any] = {"int": 1}
    for _ in range(90):
        value = {"list": [value]}
    assert shown_value(value).endswith("(list of 1))))))")


def report(**changes: Any) -> RunReport:
    run = {"method": "forward", "index": 0, "output": {"int": 3}, "error": None}
    values: dict[str, Any] = {
        "model": "classifier",
        "path": "classifier.ptl",
        "pytorch": "1.13.1",
        "roots": 2,
        "base_units": 102,
        "base_compiled": None,
        "shards": (
            MadeShard(3, 10, 20_000, ("Gcd.cpp", "Relu.cpp"), ("aten::gcd",), 4.25, 0.1),
            MadeShard(4, 11, 21_000, None, (), 0.25, 0.1),
        ),
        "result": {
            "runs": [{**run, "microseconds": 1500.0, "microseconds_min": 1250.0}],
            "operators": {
                "aten::relu": {"calls": 2, "microseconds": 10.0},
                "aten::gcd": {"calls": 1, "microseconds": 1234.5},
            },
        },
        "verdict": VerifyResult("classifier", "ok"),
        "growth": Growth(("aten::gcd",), (), 6400),
    }
    return RunReport(**(values | changes))


def test_a_report() -> None:
    assert report().text() == (
        "classifier: PyTorch 1.13.1, 2 operators named\n"
        "  base: 102 units, from the store\n"
        "  shard: 3 operators, 10 units, 20 kB, 2 compiled in 4.2 s\n"
        "    missing when it ran: aten::gcd\n"
        "  shard: 4 operators, 11 units, 21 kB, from the store in 0.2 s\n"
        "  forward[0]: int 3\n"
        "    1.500 ms a run, 1.250 ms at least\n"
        "  2 operators ran\n"
        "        1.234 ms      1 call  aten::gcd\n"
        "        0.010 ms     2 calls  aten::relu\n"
        "  as it was traced\n"
        "  not in the app's traces: aten::gcd; with them its library grows by 6.4 kB at most\n"
    )


def test_times_are_of_a_library_as_it_is_delivered() -> None:
    lines = report(timed=MadeLibrary(294, ("a.cpp", "b.cpp"), 3.125)).text().splitlines()
    assert lines[5] == "  timed in a library as delivered: 294 units, 2 compiled in 3.1 s"
    lines = report(timed=MadeLibrary(294, (), 1.0)).text().splitlines()
    assert lines[5] == "  timed in a library as delivered: 294 units, 0 compiled in 1.0 s"


def test_about_how_large_a_library_would_be() -> None:
    lines = report(library=EstimatedLibrary("linux-x86_64", 1_380_000, True)).text().splitlines()
    assert lines[-2] == "  the app's library for linux-x86_64 would have about 1.38 MB"
    alone = report(library=EstimatedLibrary("linux-x86_64", 1_380_000, False), growth=None)
    assert alone.text().splitlines()[-1] == (
        "  a library of this model alone for linux-x86_64 would have about 1.38 MB"
    )
    value = alone.to_value()
    assert faults("run", json.dumps({"format": 1, "models": [value]})) == []
    assert value["library"] == {
        "abi": "linux-x86_64",
        "estimated_bytes": 1_380_000,
        "of_app": False,
    }


def test_what_differs_is_told() -> None:
    failure = Failure("classifier", "forward[0]", "OTHER_OUTPUT", "int: expected 4, seen 3")
    differs = VerifyResult("classifier", "failed", failures=(failure,))
    text = report(verdict=differs, growth=None).text()
    assert text.endswith(
        "  not as it was traced: classifier, forward[0]: int: expected 4, seen 3\n"
    )


@pytest.mark.parametrize(
    ("growth", "told"),
    [
        (
            Growth((), (NewDtypes("add_stub", ("Double", "Half"), 2100),), 2100),
            "add_stub for Double, add_stub for Half; with them its library grows by 2.1 kB at most",
        ),
        (
            Growth(
                ("aten::gcd",),
                (NewDtypes("gcd_cpu", ("Long",), 0), NewDtypes("made_up", ("Int",), None)),
                6400,
            ),
            "aten::gcd, gcd_cpu for Long, made_up for Int; with them its library grows by 6.4 kB at"
            " most, without made_up, of which the index does not tell",
        ),
        (
            Growth((), tuple(NewDtypes(f"k{n:02}", ("Half",), 1000) for n in range(14)), 14_000),
            ", ".join(f"k{n:02} for Half" for n in range(12))
            + ", 2 other dtypes of kernels; with them its library grows by 14 kB at most",
        ),
    ],
)
def test_what_the_library_would_grow_by(growth: Growth, told: str) -> None:
    value = report(growth=growth)
    assert value.text().splitlines()[-1] == f"  not in the app's traces: {told}"
    assert faults("run", json.dumps({"format": 1, "models": [value.to_value()]})) == []


def test_a_library_that_would_not_grow_is_not_told_of() -> None:
    value = report(growth=Growth())
    assert "not in the app's traces" not in value.text()
    assert value.to_value()["growth"] == {"operators": [], "kernel_dtypes": [], "bytes": 0}


def test_control_characters_of_a_model_do_not_reach_the_terminal() -> None:
    run = {"method": "forward", "index": 0, "output": {"string": "a\x1b[2Jb"}, "error": None}
    assert "\x1b" not in report(result={"runs": [run]}).text()


def test_as_json() -> None:
    value = report().to_value()
    timed = report(timed=MadeLibrary(294, ("a.cpp",), 3.125), base_compiled=("b.cpp",)).to_value()
    made = {"units": 294, "compiled": 1, "compiled_units": ["a.cpp"], "made_seconds": 3.125}
    assert timed["timed"] == made
    assert timed["base"] == {"units": 102, "compiled": 1, "compiled_units": ["b.cpp"]}
    assert value["base"] == {"units": 102, "compiled": None, "compiled_units": []}
    assert [(one["compiled"], one["compiled_units"]) for one in value["shards"]] == [
        (2, ["Gcd.cpp", "Relu.cpp"]),
        (None, []),
    ]
    every = [value, timed, report(verdict=None, growth=None).to_value()]
    assert faults("run", json.dumps({"format": 1, "models": every})) == []
    assert value["shards"][0]["missing"] == ["aten::gcd"]
    assert value["as_recorded"] == "ok"
    grown = report(growth=Growth((), (NewDtypes("add_stub", ("Half",), None),), 0)).to_value()
    assert grown["growth"] == {
        "operators": [],
        "kernel_dtypes": [{"kernel_tag": "add_stub", "dtypes": ["Half"], "bytes": None}],
        "bytes": 0,
    }
    assert value["runs"][0]["output"] == {"int": 3}
    assert report(verdict=None, growth=None).to_value()["growth"] is None
