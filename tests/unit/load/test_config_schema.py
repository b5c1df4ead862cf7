"""The declared values by themselves: defaults, sizes, what is strict and what is frozen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.load.schemas import MODELS, schema_text
from orchestrator.values.config.app import AppConfig, Budget, InputRun, MemoryBudget, TensorSpec
from orchestrator.values.config.forms import PACKAGE, PATTERN_WORDS, SIZE, parse_size
from orchestrator.values.config.toolchain import Compiler, Emulator, ToolchainConfig
from orchestrator.values.config.workspace import DebianSource, Launcher, Source, WorkspaceConfig
from orchestrator.values.packages import default_package_name

DIGEST = "0" * 64
WORKSPACE: dict[str, Any] = {
    "version": 1,
    "runtime": {"pytorch": "1.13.1", "tree": "0" * 64, "sources": [{"path": "here"}]},
}
APP: dict[str, Any] = {"models": [{"file": "models/small.ptl"}], "targets": ["linux-x86_64"]}


def _first_fault(model: Any, data: object) -> tuple[str, str]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(data)
    detail = caught.value.errors()[0]
    return detail["msg"], detail.get("ctx", {}).get("expected", "")


def test_an_app_gets_defaults() -> None:
    app = AppConfig.model_validate(APP)
    assert app.models[0].name == "small"
    assert app.models[0].inputs == "bundled"
    assert app.targets == ("linux-x86_64",)
    assert (app.optimize, app.selection, app.packages, app.package_name) == (None,) * 4
    assert app.version == "0.1.0"


def test_a_workspace_gets_defaults() -> None:
    config = WorkspaceConfig.model_validate(
        {
            "version": 1,
            "runtime": {"pytorch": "1.13.1", "tree": DIGEST, "sources": [{"path": "here"}]},
        }
    )
    assert config.defaults.optimize == "balanced"
    assert config.defaults.selection == "guarded"
    assert config.defaults.backends == ("CPU", "QuantizedCPU")
    assert config.pins["default"].third_party == {}
    assert (config.cache, config.jobs, config.launcher) == (None, None, None)


def test_arguments_keep_their_types() -> None:
    run = InputRun.model_validate(
        {"args": [{"shape": [1, 2], "fill": "zeros"}, 1, True, 2.5, "word"]}
    )
    assert run.method == "forward"
    assert run.args == (TensorSpec(shape=(1, 2), fill="zeros"), 1, True, 2.5, "word")
    assert [type(value) for value in run.args[1:]] == [int, bool, float, str]


def test_an_argument_may_be_none_or_a_list_but_no_list_of_lists() -> None:
    run = InputRun.model_validate({"args": [None, [{"shape": [1], "fill": "zeros"}, 1, None], []]})
    assert run.args == (None, (TensorSpec(shape=(1,), fill="zeros"), 1, None), ())
    with pytest.raises(ValidationError):
        InputRun.model_validate({"args": [[[1]]]})


def test_run_is_a_word_or_an_emulator() -> None:
    toolchain: dict[str, Any] = {
        "abi": "a",
        "system": "linux",
        "processor": "arm64",
        "format": "elf",
        "compiler": {"command": {"cxx": "g++", "cc": "gcc"}},
    }
    for run, value in [
        ("native", "native"),
        ({"emulator": ["qemu-aarch64-static"]}, Emulator(emulator=("qemu-aarch64-static",))),
    ]:
        assert ToolchainConfig.model_validate(toolchain | {"run": run}).run == value


def test_values_are_frozen() -> None:
    app = AppConfig.model_validate(APP)
    with pytest.raises(ValidationError, match="frozen"):
        app.version = "2"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0B", 0),
        ("1.5MB", 1_500_000),
        ("1.5 MiB", 1_572_864),
        ("3kB", 3000),
        ("1KiB", 1024),
        ("1GB", 10**9),
        ("1GiB", 2**30),
        ("0.0015kB", 1),
        (1_300_000, 1_300_000),
    ],
)
def test_sizes(text: object, size: int) -> None:
    assert parse_size(text) == size
    assert AppConfig.model_validate(APP | {"budgets": {"x": text}}).budgets == {
        "x": Budget(total=size)
    }


def test_memory() -> None:
    """A size is that of the peak."""
    for given, meant in (
        ("3MB", MemoryBudget(peak=3_000_000)),
        ({"peak": "3MB"}, MemoryBudget(peak=3_000_000)),
        (
            {"kept": "2MB", "models": {"x": "1MB"}},
            MemoryBudget(kept=2_000_000, models={"x": 1_000_000}),
        ),
    ):
        assert AppConfig.model_validate(APP | {"memory": given}).memory == meant
    assert _first_fault(AppConfig, APP | {"memory": "much"})[0] == "not a size"


@pytest.mark.parametrize("text", ["1.5", "MB", "1.5mb", "-1MB", "1,5MB", "1.5MB\n", -1, 1.5, True])
def test_not_sizes(text: object) -> None:
    assert _first_fault(AppConfig, APP | {"budgets": {"x": text}}) == (
        "not a size",
        "a number of bytes, or a number and a unit: B, kB, MB, GB, KiB, MiB or GiB",
    )


def test_the_size_of_the_cache() -> None:
    assert WorkspaceConfig.model_validate(WORKSPACE).cache_size == 10**10
    for text, size in (("100MB", 10**8), ("1.5GB", 1_500_000_000), (2 * 10**8, 2 * 10**8)):
        declared = WorkspaceConfig.model_validate(WORKSPACE | {"cache_size": text})
        assert declared.cache_size == size


@pytest.mark.parametrize("text", [5, 0, "99.9MB", "10kB"])
def test_a_cache_too_small_for_anything(text: object) -> None:
    assert _first_fault(WorkspaceConfig, WORKSPACE | {"cache_size": text}) == (
        "too small",
        "100MB or more, such as 10GB",
    )


@pytest.mark.parametrize(
    ("model", "data", "fault"),
    [
        (Source, {}, ("a key is missing", "one of path, git, archive, debian")),
        (
            Source,
            {"path": "x", "git": {"remote": "r", "tag": "t"}},
            ("exactly one key is allowed here", "one of path, git, archive, debian"),
        ),
        (Compiler, {}, ("a key is missing", "one of zig, command, ndk, xcode")),
    ],
)
def test_exactly_one_kind(model: Any, data: object, fault: tuple[str, str]) -> None:
    assert _first_fault(model, data) == fault


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (
            {"fill": "uniform", "dtype": "int64"},
            ("fill `uniform` cannot make int64", "a float dtype, or fill `randint`"),
        ),
        (
            {"fill": "randint", "high": 3},
            ("fill `randint` cannot make float32", "an integer dtype, or fill `uniform`"),
        ),
        (
            {"fill": "zeros", "high": 3},
            ("fill `zeros` takes no bounds", "low and high with `uniform` or `randint`"),
        ),
        (
            {"fill": "uniform", "low": 1},
            ("the range is empty", "low less than high"),
        ),
        (
            {"fill": "uniform", "high": float("inf")},
            ("a bound is not a number", "finite bounds"),
        ),
        ({"fill": "uniform", "high": 10**400}, ("a bound is not a number", "finite bounds")),
        ({"fill": "uniform", "low": float("nan")}, ("a bound is not a number", "finite bounds")),
        *(
            (
                {"fill": "zeros", "shape": shape},
                ("the tensor is too large", "at most 33,554,432 elements and 64 sizes"),
            )
            for shape in ([1000000, 1000000], [10**30], [0, 10**30], [1] * 65, [2**25 + 1])
        ),
        (
            {"fill": "randint", "dtype": "int64"},
            (
                "fill `randint` needs integer bounds",
                "an integer high, and low where it is not 0",
            ),
        ),
        (
            {"fill": "randint", "dtype": "int64", "low": 3, "high": 3},
            ("the range is empty", "low less than high"),
        ),
        (
            {"fill": "randint", "dtype": "uint8", "high": 257},
            ("the bounds do not fit uint8", "low >= 0 and high <= 256"),
        ),
        (
            {"fill": "randint", "dtype": "int8", "low": -129, "high": 3},
            ("the bounds do not fit int8", "low >= -128 and high <= 128"),
        ),
        (
            {"fill": "randint", "dtype": "bool", "high": 3},
            ("the bounds do not fit bool", "low >= 0 and high <= 2"),
        ),
    ],
)
def test_fills_that_do_not_fit(spec: dict[str, Any], fault: tuple[str, str]) -> None:
    assert _first_fault(TensorSpec, {"shape": [2]} | spec) == fault


def test_the_tensors_of_a_model_have_a_limit_together() -> None:
    half = {"shape": [2**24], "fill": "zeros"}
    model = {"file": "a.ptl", "inputs": [{"args": [half]}, {"args": [[half]]}]}
    AppConfig.model_validate(APP | {"models": [model]})
    model["inputs"] = [{"args": [half, [half]]}, {"args": [{"shape": [], "fill": "ones"}]}]
    assert _first_fault(AppConfig, APP | {"models": [model]}) == (
        "its inputs are too large together",
        "at most 33,554,432 elements in all tensors",
    )


def patterns(kind: Any) -> Iterator[str]:
    """All patterns in the schema of a model."""
    if isinstance(kind, dict):
        yield from (value for key, value in kind.items() if key == "pattern")
        for value in kind.values():
            yield from patterns(value)
    elif isinstance(kind, list):
        for value in kind:
            yield from patterns(value)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_pattern_has_words(name: str) -> None:
    found = set(patterns(json.loads(schema_text(name))))
    # a size's words are told by `parse_size`
    assert found - {SIZE} <= PATTERN_WORDS.keys()
    assert found


TOOLCHAIN: dict[str, Any] = {
    "abi": "a",
    "system": "linux",
    "processor": "arm64",
    "format": "elf",
    "compiler": {"command": {"cxx": "g++", "cc": "gcc"}},
    "run": "none",
}


@pytest.mark.parametrize("text", ["a\nid", "a\x00", "\x1b[0m", "\u2028", "\u202e"])
def test_texts_are_of_one_line(text: str) -> None:
    """They become arguments, paths, and lines of build files and scripts."""
    fault = ("it contains a control character", "text of one line")
    for changed in (
        {"compile_flags": [text]},
        {"link_flags": [text]},
        {"compiler": {"command": {"cxx": text, "cc": "gcc"}}},
        {"run": {"emulator": [text]}},
        {"run": {"emulator": ["qemu"], "sysroot": f"/{text}"}},
    ):
        assert _first_fault(ToolchainConfig, TOOLCHAIN | changed) == fault
    assert _first_fault(Source, {"path": text}) == fault
    assert _first_fault(AppConfig, APP | {"models": [{"file": f"{text}.ptl"}]}) == fault


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (Compiler, {"zig": {"target": "x86_64-linux-gnu\nid"}}),
        (Compiler, {"zig": {"target": "x86_64-linux-gnu; id"}}),
        (Compiler, {"zig": {"target": "-x"}}),
        (Compiler, {"xcode": {"sdk": "--find", "minimum": "15.0"}}),
        (Emulator, {"emulator": ["qemu"], "debian": ["../../x"]}),
        (Emulator, {"emulator": ["qemu"], "debian": ["--option"]}),
        (DebianSource, {"package": "-o", "archive": "a.orig.tar.gz", "sha256": DIGEST}),
        (DebianSource, {"package": "pkg", "archive": "../a", "sha256": DIGEST}),
        (Launcher, {"command": ["ccache"], "env": {"A=B": "x"}}),
        (Launcher, {"command": ["ccache"], "env": {"A": "x\0"}}),
        (InputRun, {"method": "a.b", "args": []}),
    ],
)
def test_names_that_go_into_commands_and_paths(model: Any, data: object) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(data)


def test_a_models_name_fits_in_a_files_name() -> None:
    model = {"file": "a.ptl", "name": "n" * 100}
    assert AppConfig.model_validate(APP | {"models": [model]}).models[0].name == "n" * 100
    for changed in ({"name": "n" * 101}, {"file": f"{'n' * 256}.ptl"}):
        with pytest.raises(ValidationError):
            AppConfig.model_validate(APP | {"models": [model | changed]})


@pytest.mark.parametrize(
    ("app", "name"),
    [
        ("camera", "camera-libtorch"),
        ("my_app", "my-app-libtorch"),
        ("My_App.2", "my-app.2-libtorch"),
        ("a" * 91, "a" * 91 + "-libtorch"),
    ],
)
def test_a_packages_name_is_one_that_debian_allows(app: str, name: str) -> None:
    assert default_package_name(app) == name
    assert re.fullmatch(PACKAGE, name)


@pytest.mark.parametrize("file", ["/a.ptl", "../a.ptl", "a/../b.ptl", "a.pt", ""])
def test_a_models_file_is_inside_its_app(file: str) -> None:
    assert _first_fault(AppConfig, APP | {"models": [{"file": file}]})[1] in (
        "a relative path to a .ptl or .pt2",
        "a relative path with `/` and without `..`",
    )
