"""The benchmark of peers: what is parsed, and the text and picture; nothing is measured here."""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from benchmarks.peers import __main__ as peers
from benchmarks.peers import catalogue, convert, runtimes, sizes
from benchmarks.peers.__main__ import names
from benchmarks.peers.building import library_of, write_workspace
from benchmarks.peers.drawing import COLOURS, INK, LABELS, adapted, description, label_above
from benchmarks.peers.measuring import Bench, Key, difference, measured, once, reason
from benchmarks.peers.memory import added, peak, resident
from benchmarks.peers.report import render
from benchmarks.peers.results import Point, points, shipped
from benchmarks.peers.sampling import summary
from benchmarks.peers.setting_up import pins
from benchmarks.processes import Finished

ROOT = Path(__file__).parents[3]
BENCHMARKS = ROOT / "benchmarks"


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def finished(stdout: str = "", stderr: str = "", code: int = 1) -> Finished:
    return Finished(0.0, 0.0, code, stdout, stderr)


class TestWhatIsParsed:
    def test_pins(self) -> None:
        assert pins("# a\ntorch==2.13.0\n\nonnx==1 # why\n") == ("torch==2.13.0", "onnx==1")

    def test_every_distribution_is_pinned_exactly(self) -> None:
        text = (ROOT / "requirements/peers.in").read_text()
        found = {one.name: str(one.specifier) for one in map(Requirement, pins(text))}
        needed = {name for one in catalogue.RUNTIMES.values() for name in one.distributions}
        assert {"numpy", "matplotlib", *needed} == found.keys()
        assert all(pin.startswith("==") and "," not in pin for pin in found.values())

    def test_names(self) -> None:
        parse = names({"a": 1, "b": 2})
        assert parse("b,a") == ("b", "a")
        with pytest.raises(argparse.ArgumentTypeError, match=r"^c, d: none of a, b$"):
            parse("a,d,c")

    def test_the_difference_of_two_results(self) -> None:
        assert difference(floats(1, 2), floats(1, 2.5)) == 0.5
        assert difference(floats(1), floats(1, 2)) is None
        assert difference(floats(1), floats(float("nan"))) == float("inf")
        assert difference(floats(), floats()) == 0.0

    def test_why_a_process_failed(self) -> None:
        assert reason(finished("loading\n no such operator \n\n", "noise")) == "no such operator"
        assert reason(finished("", "first\nlast\n")) == "last"
        assert reason(finished(code=-11)) == "exit code -11"

    def test_samples_become_microseconds(self) -> None:
        one = {
            "wall": [9000, 3000, 6000],
            "cpu": [4000, 2000, 3000],
            "load": None,
            "load_cpu": None,
            "first": 8000,
            "first_cpu": 7000,
            "added": 50,
            "model_added": 20,
            "level": None,
        }
        two = {**one, "cpu": [2500, 2500], "wall": [5000, 5000], "first": 6000, "added": 40}
        two["model_added"] = 30
        assert summary([one, two]) == {
            "samples": [3, 2],
            "cpu": {"least": 2.0, "median": 2.5},
            "wall": {"least": 3.0, "median": 5.0},
            "load": None,
            "load_cpu": None,
            "first": 6.0,
            "first_cpu": 7.0,
            "added": 40,
            "model_added": 20,
            "level": None,
        }


class TestMemory:
    def test_what_loading_took_for_a_moment_is_not_the_models(self) -> None:
        assert added(100, 190, 150, 170) == {"added": 90, "model_added": 20}
        assert added(100, 150, 150, 170) == {"added": 70, "model_added": 20}

    def test_the_peak_is_that_of_what_follows(self) -> None:
        megabyte = 10**6

        def held() -> mmap.mmap:
            # the system's own: malloc may give memory that other tests freed, already resident
            block = mmap.mmap(-1, 64 * megabyte)
            for page in range(0, len(block), mmap.PAGESIZE):
                block[page] = 1
            return block

        held().close()
        before = resident()
        block = held()
        assert 60 * megabyte < resident() - before < 80 * megabyte
        block.close()
        after = resident()
        assert after - before < 30 * megabyte
        assert peak() - after < 30 * megabyte
        held().close()
        assert 60 * megabyte < peak() - after


class FakeBench(Bench):
    """Every case prints a sample and gives two floats, of which the second is 1."""

    def case(self, key: Key, output: Path) -> Finished:
        output.write_bytes(floats(0, 1) if key.threads == 1 else floats(0))
        return finished('noise\n{"wall": [1]}\n', code=3 if key.model == "reader" else 0)


@pytest.mark.parametrize(
    ("key", "expected", "found"),
    [
        (
            Key("ncnn", "camera", 1),
            1.0005,
            {"wall": [1], "difference": pytest.approx(0.0005, 0.01)},
        ),
        (
            Key("ncnn", "camera", 1),
            1.25,
            {"not_measured": "its result differs by 0.25 from eager torch's"},
        ),
        (
            Key("ncnn", "camera", 2),
            1.0,
            {"not_measured": "its result has another size than eager torch's"},
        ),
        (Key("ncnn", "reader", 1), 1.0, {"not_measured": '{"wall": [1]}'}),
        # of the spread of float32's result, from 0 to what is expected
        (
            Key("ncnn", "mobilenet_int8", 1),
            1.04,
            {"wall": [1], "difference": pytest.approx(0.04 / 1.04)},
        ),
        (
            Key("ncnn", "mobilenet_int8", 1),
            1.25,
            {
                "not_measured": "its result differs by 20% of the spread of eager torch's float32"
                " one"
            },
        ),
    ],
)
def test_a_wrong_result_is_no_measurement(
    key: Key, expected: float, found: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / key.model).mkdir()
    (tmp_path / key.model / "expected.bin").write_bytes(floats(0, expected))
    assert once(FakeBench(ROOT, tmp_path, Path("python")), key) == found


TIMES = {"wall": [1], "cpu": [1], "load": 1, "load_cpu": 1, "first": 1, "first_cpu": 1}
SAMPLE = {**TIMES, "added": 1, "model_added": 1, "level": "avx2"}


class TestRounds:
    KEYS = (Key("ours", "camera", 1), Key("ncnn", "camera", 1), Key("mnn", "camera", 1))

    def test_rounds_are_interleaved_and_a_failure_is_not_tried_again(self) -> None:
        order: list[str] = []

        def run_once(key: Key) -> Mapping[str, Any]:
            order.append(key.runtime)
            if key.runtime == "ncnn":
                return {"not_measured": "no such layer"}
            return {**SAMPLE, "difference": 0.1 * len(order)}

        found = measured(self.KEYS, {"mnn/camera": "not converted: x"}, 2, run_once)
        assert order == ["ours", "ncnn", "ours"]
        assert [one.get("not_measured") for one in found] == [
            None,
            "no such layer",
            "not converted: x",
        ]
        assert found[0]["runtime"] == "ours"
        assert found[0]["difference"] == pytest.approx(0.3)
        assert found[0]["samples"] == [1, 1]


def test_a_run_without_ours_builds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Path] = []
    monkeypatch.setattr(peers, "build", lambda root, workspace, jobs: built.append(workspace))
    monkeypatch.setattr(Bench, "peers", lambda *arguments: finished(code=0))
    bench = Bench(ROOT, tmp_path, Path("python"))
    for named in (("torch", "ncnn"), ("torch", "ours")):
        chosen = argparse.Namespace(runtimes=named, models=(), jobs=None)
        assert peers.prepared(bench, chosen) == {}
    assert built == [tmp_path / "workspace"]


def test_a_file_of_two_runtimes_is_stripped_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stripped: list[str] = []

    def strip(path: Path) -> bytes:
        stripped.append(path.name)
        return path.read_bytes()[1:]

    monkeypatch.setattr(sizes, "_stripped", strip)
    for name in ("a.so", "b.so"):
        (tmp_path / name).write_bytes(b"x" * 1000)
    first = sizes.sizes([tmp_path / "a.so"])
    assert (first["files"], first["delivered"], first["stripped"]) == (["a.so"], 1000, 999)
    assert first["gzip"] == len(gzip.compress(b"x" * 999, 9))
    both = sizes.sizes([tmp_path / "a.so", tmp_path / "b.so"])
    assert both == {
        "files": ["a.so", "b.so"],
        "delivered": 2000,
        "stripped": 1998,
        "gzip": 2 * first["gzip"],
    }
    assert stripped == ["a.so", "b.so"]


def test_ours_are_apps_of_a_workspace(tmp_path: Path) -> None:
    made = tmp_path / "made"
    (made / "reader").mkdir(parents=True)
    (made / "reader/model.ptl").write_bytes(b"model")
    workspace = tmp_path / "workspace"
    for _ in range(2):  # a second time over the first
        write_workspace(ROOT, workspace, made, ["ours", "ours-avx512"], ["reader"])
    assert sorted(path.name for path in (workspace / "apps").iterdir()) == [
        "reader_ours",
        "reader_ours_avx512",
    ]
    folder = workspace / "apps/reader_ours_avx512"
    assert (folder / "model.ptl").read_bytes() == b"model"
    assert yaml.safe_load((folder / "app.yaml").read_text()) == {
        "models": [{"file": "model.ptl"}],
        "targets": ["linux-x86_64"],
        "kernels": "auto",
        "cpu": {"x86_64": ["avx2", "avx512vnni", "avx512"]},
    }
    library = library_of(workspace, "ours", "reader").relative_to(workspace)
    assert str(library) == "dist/reader_ours/linux-x86_64/lib/libreader_ours_torch.so"


def test_an_int8_model_has_a_float32_one_and_is_exported() -> None:
    for model in catalogue.MODELS.values():
        if model.float32:
            assert catalogue.MODELS[model.float32].float32 is None
            assert model.committed is None


def test_every_runtime_has_a_module_a_label_and_a_colour() -> None:
    everyone = catalogue.RUNTIMES.keys()
    assert runtimes._MODULES.keys() == everyone
    drawn = {name for name in everyone if not name.startswith("ours-")}
    assert LABELS.keys() == COLOURS.keys() == drawn
    for name in everyone:
        module = runtimes.runtime_module(name)
        assert all(callable(getattr(module, part)) for part in ("convert", "load", "open"))


def test_why_a_runtime_does_not_convert_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    convert.main(["ncnn", "mobilenet_int8", str(tmp_path)])
    assert codes == [1]
    assert capsys.readouterr().out == (
        "its wheel has no quantiser: ncnn2table and ncnn2int8 are built from source\n"
    )


def case(runtime: str, model: str, threads: int, cpu: float) -> dict[str, Any]:
    return {
        "runtime": runtime,
        "model": model,
        "threads": threads,
        "difference": 2.4e-7,
        "samples": [20, 20],
        "cpu": {"least": cpu, "median": 1.5 * cpu},
        "wall": {"least": 2 * cpu, "median": 3 * cpu},
        "load": None if runtime == "executorch" else 9000.0,
        "load_cpu": None if runtime == "executorch" else 4500.0,
        "first": 30000.0,
        "first_cpu": 15000.0,
        "added": 12_340_000,
        "model_added": 5_670_000,
        "level": "avx512" if runtime == "openvino" else None,
    }


def library(runtime: str, model: str | None, what: str, stripped: int) -> dict[str, Any]:
    sizes = {"delivered": stripped + 8, "stripped": stripped, "gzip": stripped // 2}
    return {"runtime": runtime, "model": model, "what": what, "files": ["x.so"], **sizes}


RESULTS: dict[str, Any] = {
    "format": 1,
    "machine": {"processor": "Some CPU", "cores": "2"},
    "load": [4.0, 9.5],
    "commit": "abcdef0",
    "versions": {"executorch": "1.5.1", "onnx": None},
    "rounds": 3,
    "cases": [
        case("ours", "camera", 1, 300.0),
        {**case("executorch", "camera", 1, 200.0), "cpu": {"least": 200.0, "median": 270.0}},
        case("openvino", "camera", 1, 60.04),
        case("ours-native", "camera", 1, 3000.0),
        {**{"runtime": "ours", "model": "camera", "threads": 2}, "not_measured": "one\n`thread`"},
        case("executorch", "camera", 2, 220.0),
    ],
    "ran_with": {"executorch/camera": "larger", "executorch/reader": "larger"},
    "libraries": [
        library("ours", "camera", "", 1_500_000),
        library("executorch", None, "smaller", 3_000_000),
        library("executorch", None, "larger", 14_000_000),
        library("openvino", None, "all", 91_000_000),
    ],
}
POINTS = (
    Point("camera", "ours", 1.5, 0.3),
    Point("camera", "executorch", 14.0, 0.2),
    Point("camera", "openvino", 91.0, 0.06004),
)


class TestText:
    def test_tables(self) -> None:
        text = render(RESULTS)
        for expected in (
            "| runtime | camera |\n| --- | ---: |\n| ours, `kernels: auto` | 300 / 450 |\n"
            "| ours, `kernels: native` | 3,000 / 4,500 |\n"
            "| ExecuTorch, XNNPACK | 200 / 270 |\n| OpenVINO | 60.0 / 90.1 |\n",
            "| ours, `kernels: native` | 0.10 / 0.10 |\n| ExecuTorch, XNNPACK | 1.50 / 1.67 |\n"
            "| OpenVINO | 5.00 / 5.00 |\n",
            "## Latency, 2 threads\n\nMicroseconds, least: wall time / CPU time of all of the"
            " process's threads.\n\n| runtime | camera |\n| --- | ---: |\n"
            "| ExecuTorch, XNNPACK | 440 / 220 |\n",
            "| ours, `kernels: native` | 4.5 / 9.0 |\n| ExecuTorch, XNNPACK | - |\n",
            "| ExecuTorch, XNNPACK | 15.0 / 30.0 |\n",
            "| ExecuTorch, XNNPACK | 12.3 |\n",
            "The same from when the runtime is in the process: the peak from opening the model on,"
            " less what the process had just before. Compare ExecuTorch here: above, its libraries"
            " are not counted and those of the others are.\n\n"
            "| runtime | camera |\n| --- | ---: |\n| ours, `kernels: auto` | 5.7 |\n",
            "| ours, `kernels: auto` | model camera | 1,500,008 | 1,500,000 | 750,000 |\n"
            "| ExecuTorch, XNNPACK | smaller | 3,000,008 | 3,000,000 | 1,500,000 |\n",
            "\n- ExecuTorch, XNNPACK ran camera, reader with: larger\n",
            "## Not measured\n\n- ours, `kernels: auto`, threads: 2: camera: `one 'thread'`\n",
            "| ours, `kernels: auto` | 2.4e-07 |\n",
            "- load average while measuring: 4.0 to 9.5\n",
            "- ExecuTorch, XNNPACK: chosen by the processor; it does not tell which\n"
            "- OpenVINO: its own words: avx512\n",
            "- ours: abcdef0\n- executorch: 1.5.1\n- onnx: not installed\n",
        ):
            assert expected in text
        assert "| OpenVINO | - |" not in text.partition("## Latency, 2 threads")[2]

    def test_without_ours_there_is_no_ratio(self) -> None:
        results = copy.deepcopy(RESULTS)
        del results["cases"][0]
        assert "| ExecuTorch, XNNPACK | - |\n| OpenVINO | - |\n" in render(results)

    def test_an_int8_model_is_compared_with_its_float32_one(self) -> None:
        results = copy.deepcopy(RESULTS)
        assert "the int8 one" not in render(results)
        assert "For int8" not in render(results)
        results["cases"] += [
            case("ours", "mobilenet", 1, 8000.0),
            {**case("ours", "mobilenet_int8", 1, 4000.0), "difference": 0.0123},
            case("openvino", "mobilenet_int8", 1, 3000.0),
        ]
        text = render(results)
        for expected in (
            "The same weights in every runtime, float32, and for `mobilenet_int8` int8 by the"
            " runtimes' tools, on Some CPU; 3 interleaved rounds",
            "by the least / by the medians:\n\n| runtime | mobilenet_int8 / mobilenet |\n"
            "| --- | ---: |\n| ours, `kernels: auto` | 0.50 / 0.50 |\n\nWall time",
            "More than 0.001 is not measured.\n\nFor int8, the difference from eager torch's"
            " float32 result, in percent of that result's spread (largest less smallest output)."
            " More than 5% is not measured.\n\n"
            "| runtime | camera | mobilenet | mobilenet_int8 |\n",
            "| ours, `kernels: auto` | 2.4e-07 | 2.4e-07 | 1.2% |\n",
        ):
            assert expected in text

    def test_nothing_missing_is_not_mentioned(self) -> None:
        results = copy.deepcopy(RESULTS)
        del results["cases"][4]
        assert "Not measured" not in render(results)

    def test_results_from_before_memory_of_the_model_was_told(self) -> None:
        results = copy.deepcopy(RESULTS)
        for one in results["cases"]:
            one.pop("model_added", None)
        assert "The same from when" not in render(results)
        results["cases"][0]["model_added"] = 1_000_000
        rows = "| ours, `kernels: auto` | 1.0 |\n| ours, `kernels: native` | - |\n"
        assert rows in render(results)

    def test_the_committed_text_is_that_of_the_committed_results(self) -> None:
        results = json.loads((BENCHMARKS / "peers.json").read_text())
        assert (BENCHMARKS / "PEERS.md").read_text() == render(results)


class TestPicture:
    def test_points(self) -> None:
        assert points(RESULTS) == POINTS
        # a peer's first, where it is not told what ran
        assert (shipped(RESULTS, "executorch", "encoder") or {})["what"] == "smaller"

    def test_no_dot_without_a_size_or_a_time(self) -> None:
        results = copy.deepcopy(RESULTS)
        results["cases"][1] = {**results["cases"][4], "runtime": "executorch", "threads": 1}
        del results["libraries"][-1]
        assert points(results) == POINTS[:1]

    def test_labels_of_dots_over_each_other_do_not_meet(self) -> None:
        dots = [
            Point("camera", "litert", 14.2, 0.19),
            Point("camera", "executorch", 14.1, 0.20),
            Point("camera", "openvino", 91.0, 0.18),
            Point("mobilenet", "ncnn", 14.2, 7.0),
        ]
        assert [label_above(dot, dots) for dot in dots] == [False, True, True, True]

    def test_it_fits_its_page(self) -> None:
        drawn = (
            '<?xml version="1.0"?>\n<svg width="9">\n <metadata>\n  <date/>\n </metadata>\n'
            f' <g style="fill: {INK}"/>\n</svg>\n'
        )
        assert adapted(drawn, POINTS[:1]) == (
            '<?xml version="1.0"?>\n<svg width="9">\n'
            "<title>Bytes of the library against CPU time of a run</title>\n"
            "<desc>camera, ours: 1.500 MB, 0.300 ms</desc>\n"
            "<style>svg { color: #1f2328; font-family: system-ui, sans-serif }"
            " @media (prefers-color-scheme: dark) { svg { color: #e6edf3 } }</style>\n"
            ' <g style="fill: currentColor"/>\n</svg>\n'
        )

    def test_the_committed_picture_is_that_of_the_committed_results(self) -> None:
        svg = (BENCHMARKS / "peers.svg").read_text()
        results = json.loads((BENCHMARKS / "peers.json").read_text())
        assert f"<desc>{description(points(results))}</desc>\n" in svg
        assert INK not in svg
        assert "<dc:date>" not in svg
