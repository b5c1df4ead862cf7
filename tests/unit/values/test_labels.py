"""Labels and patterns: round trips, resolution, and errors in full."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import OrchestratorError
from orchestrator.values.labels import (
    AppLabel,
    LabelSyntaxError,
    Pattern,
    UnknownAbiError,
    UnknownAppError,
    VariantLabel,
    meant_app,
    resolve,
)
from orchestrator.values.names import nearest_abi

TARGETS = {
    "reader": ("linux-x86_64",),
    "camera": ("linux-x86_64", "android-arm64-v8a"),
}
APPS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]*", fullmatch=True)
ABIS = st.none() | st.from_regex(r"[a-z0-9][a-z0-9._-]*", fullmatch=True)


@given(APPS, ABIS)
def test_a_label_prints_what_names_it(app: str, abi: str | None) -> None:
    label = AppLabel(app) if abi is None else VariantLabel(app, abi)
    assert Pattern.parse(str(label)) == Pattern(app, abi)


@given(APPS)
def test_an_app_label_prints_what_it_parses(app: str) -> None:
    assert AppLabel.parse(str(AppLabel(app))) == AppLabel(app)


@given(st.none() | APPS, ABIS)
def test_a_pattern_prints_what_it_parses(app: str | None, abi: str | None) -> None:
    pattern = Pattern(app, abi)
    assert Pattern.parse(str(pattern)) == pattern


def test_both_wildcards_mean_every_app() -> None:
    assert Pattern.parse("//...") == Pattern.parse("//apps/...") == Pattern()


def test_labels_sort_by_app_then_abi() -> None:
    first, second, third = VariantLabel("a", "y"), VariantLabel("b", "x"), VariantLabel("b", "z")
    assert sorted([third, second, first]) == [first, second, third]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["//apps/camera:linux-x86_64"], ["//apps/camera:linux-x86_64"]),
        (
            ["//apps/camera"],
            ["//apps/camera:android-arm64-v8a", "//apps/camera:linux-x86_64"],
        ),
        (
            ["//..."],
            [
                "//apps/camera:android-arm64-v8a",
                "//apps/camera:linux-x86_64",
                "//apps/reader:linux-x86_64",
            ],
        ),
        (["//...:android-arm64-v8a"], ["//apps/camera:android-arm64-v8a"]),
        (
            ["//apps/reader", "//apps/...:linux-x86_64"],
            ["//apps/camera:linux-x86_64", "//apps/reader:linux-x86_64"],
        ),
        ([], []),
    ],
)
def test_resolve(patterns: list[str], expected: list[str]) -> None:
    assert [str(label) for label in resolve(patterns, TARGETS)] == expected


@pytest.mark.parametrize(
    ("pattern", "kind", "text"),
    [
        (
            "camera",
            LabelSyntaxError,
            "error: `camera` is not a label\n"
            "  expected: //apps/<app>:<abi>, //apps/<app>, //apps/... or //...\n"
            "  do:       write //apps/camera",
        ),
        (
            "apps/camera/",
            LabelSyntaxError,
            "error: `apps/camera/` is not a label\n"
            "  expected: //apps/<app>:<abi>, //apps/<app>, //apps/... or //...\n"
            "  do:       write //apps/camera",
        ),
        (
            "//apps/camera:",
            LabelSyntaxError,
            "error: `//apps/camera:` is not a label\n"
            "  expected: //apps/<app>:<abi>, //apps/<app>, //apps/... or //...\n"
            "  do:       write //apps/camera",
        ),
        (
            "//apps/camra",
            UnknownAppError,
            "error: `//apps/camra` names an app that the workspace does not have\n"
            "  expected: camera, reader\n"
            "  seen:     camra\n"
            "  do:       did you mean //apps/camera?",
        ),
        (
            "//apps/zzz",
            UnknownAppError,
            "error: `//apps/zzz` names an app that the workspace does not have\n"
            "  expected: camera, reader\n"
            "  seen:     zzz\n"
            "  do:       run ./orchestrate new-app zzz --model MODEL.ptl, or write"
            " apps/zzz/app.yaml",
        ),
        (
            "//apps/camera:linux-x86-64",
            UnknownAbiError,
            "error: //apps/camera is not built for linux-x86-64\n"
            "  expected: android-arm64-v8a, linux-x86_64\n"
            "  seen:     //apps/camera:linux-x86-64\n"
            "  do:       did you mean //apps/camera:linux-x86_64?",
        ),
        (
            "//...:ios",
            UnknownAbiError,
            "error: no app is built for ios\n"
            "  expected: android-arm64-v8a, linux-x86_64\n"
            "  seen:     //...:ios\n"
            "  do:       take one of these; no toolchain for ios",
        ),
        (
            "//...:ios-arm64",
            UnknownAbiError,
            "error: no app is built for ios-arm64\n"
            "  expected: android-arm64-v8a, linux-x86_64\n"
            "  seen:     //...:ios-arm64\n"
            "  do:       add ios-arm64 to the targets in an app.yaml",
        ),
        (
            "//apps/reader:linux-armv7",
            UnknownAbiError,
            "error: //apps/reader is not built for linux-armv7\n"
            "  expected: linux-x86_64\n"
            "  seen:     //apps/reader:linux-armv7\n"
            "  do:       add linux-armv7 to the targets in its app.yaml",
        ),
        (
            "//apps/camera:all",
            UnknownAbiError,
            "error: //apps/camera is not built for all\n"
            "  expected: android-arm64-v8a, linux-x86_64\n"
            "  seen:     //apps/camera:all\n"
            "  do:       write //apps/camera, which is every ABI",
        ),
        (
            "//apps/camera:windows-x64",
            UnknownAbiError,
            "error: //apps/camera is not built for windows-x64\n"
            "  expected: android-arm64-v8a, linux-x86_64\n"
            "  seen:     //apps/camera:windows-x64\n"
            "  do:       take one of these; no toolchain for windows-x64",
        ),
    ],
)
def test_bad_patterns(pattern: str, kind: type[OrchestratorError], text: str) -> None:
    with pytest.raises(kind) as caught:
        resolve([pattern], TARGETS, offered=("ios-arm64", "linux-armv7"))
    assert caught.value.render() == text


def test_an_app_that_cannot_be_loaded_may_be_meant() -> None:
    with pytest.raises(UnknownAppError) as caught:
        resolve(["//apps/vadd"], {}, broken=("vad",))
    assert caught.value.render() == (
        "error: `//apps/vadd` names an app that the workspace does not have\n"
        "  expected: vad\n"
        "  seen:     vadd\n"
        "  do:       did you mean //apps/vad?"
    )


@pytest.mark.parametrize("text", [".", "./", "..", "...", "/", "//", "apps", "./apps/", "//apps/"])
def test_a_folder_of_all_apps(text: str) -> None:
    with pytest.raises(LabelSyntaxError) as caught:
        Pattern.parse(text)
    assert caught.value.hint == "write //..., which is every app"


def test_an_empty_text_means_nothing() -> None:
    with pytest.raises(LabelSyntaxError) as caught:
        Pattern.parse("")
    assert caught.value.hint is None


@pytest.mark.parametrize(
    "text", ["vad", "vad/", "./vad", "apps/vad", "./apps/vad/app.yaml", "dist/vad/packages/vad.deb"]
)
def test_the_app_that_is_meant(text: str) -> None:
    assert meant_app(text) == "vad"


def test_a_workspace_without_apps() -> None:
    with pytest.raises(UnknownAppError) as caught:
        resolve(["//..."], {})
    assert caught.value.render() == (
        "error: `//...` names nothing: the workspace has no apps\n"
        "  do:       add one: ./orchestrate new-app NAME --model MODEL.ptl"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "//...",
            "error: `//...` names every app, but one is required\n  expected: //apps/<app>",
        ),
        (
            "//apps/vad:linux-x86_64",
            "error: `//apps/vad:linux-x86_64` names one ABI, but an app is required\n"
            "  expected: //apps/<app>\n"
            "  do:       write //apps/vad",
        ),
    ],
)
def test_what_is_no_label_of_an_app(text: str, error: str) -> None:
    with pytest.raises(LabelSyntaxError) as caught:
        AppLabel.parse(text)
    assert caught.value.render() == error


def test_a_name_that_stands_for_several_abis() -> None:
    targets = {"a": ("ios-arm64", "sim-arm64", "sim-x86_64"), "b": ("sim-arm64",), "c": ("linux",)}
    groups = {"sim": ("sim-arm64", "sim-x86_64")}
    assert resolve(["//...:sim"], targets, groups) == (
        VariantLabel("a", "sim-arm64"),
        VariantLabel("a", "sim-x86_64"),
        VariantLabel("b", "sim-arm64"),
    )
    with pytest.raises(UnknownAbiError) as caught:
        resolve(["//apps/a:sym"], targets, groups)
    assert caught.value.hint == "did you mean //apps/a:sim?"
    with pytest.raises(UnknownAbiError):
        resolve(["//apps/c:sim"], targets, groups)


KNOWN = ("android-arm64-v8a", "ios-arm64", "linux-arm64", "linux-arm64-musl", "linux-x86_64")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("linux-x64", "linux-x86_64"),
        ("Linux-AMD64", "linux-x86_64"),
        ("linux-aarch64", "linux-arm64"),
        ("linus-x86_64", "linux-x86_64"),
        ("linux-x86_46", "linux-x86_64"),
        ("linux-arm64-msul", "linux-arm64-musl"),
        ("android-arm64", "android-arm64-v8a"),
        ("ios", "ios-arm64"),
        ("linux_x86_64", "linux-x86_64"),
        ("linux_x64", "linux-x86_64"),
        ("amd64", "linux-x86_64"),
        ("arm64-v8a", "android-arm64-v8a"),
        # another system, or another processor
        ("windows-x64", None),
        ("linux-armv7", None),
        ("linux-arm65", None),
        ("ios-x86_64", None),
        # of two ABIs neither is more likely
        ("linux", None),
        ("arm64", None),
        ("nope", None),
    ],
)
def test_the_abi_that_is_meant(name: str, meant: str | None) -> None:
    assert nearest_abi(name, KNOWN) == meant
