"""No template trusts its caller: what would end its place in the text is refused, in every one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jinja2
import pytest
from core_toy import ROOT
from test_render import manifest

from orchestrator.codegen.projection import projection_text
from orchestrator.deliver.app_samples import java_class, swift_function
from orchestrator.deliver.sample import c_program, python_call
from orchestrator.index.model import UnitFacts
from orchestrator.system.templates import FILTERS, Fit, UnfitTextError, environment
from orchestrator.values.selection import Selection

M = manifest().model_dump()
NAMES = {
    "m": M,
    "name": "camera_libtorch",
    "library_file": "libcamera_torch.so",
    "registrations": "libcamera_torch_registrations.a",
    "core": "libcamera_torch_core.a",
    "include_from_lib": "../include",
    "has_toolchain_file": True,
    "cxx_library_macro": "_LIBCPP_VERSION",
    "cmake_system": "Linux",
    "cmake_processor": "aarch64",
    "pointer_bytes": 8,
    "library_bytes": 1_234_567,
    "methods": {"classifier": ["forward(Tensor images) -> Tensor", "old(...)", "none() -> None"]},
    "program": c_program(manifest().models[0]),
    "sampled": "classifier",
    "is_known": True,
    "link_name": "camera_torch",
    "delivered": ["classifier"],
    "models_from_lib": "../share/camera/models",
}
IOS = {
    "m": M | {"cxx_api": "LibTorch-Lite"},
    "module": "CameraLibtorch",
    "minimums": [("ios-arm64", "15.0")],
    "minimum": "15.0",
    "for_release": True,
    "toolchains": ["zig 0.17.0"],
    "archive": "CameraLibtorch-1.2.0.xcframework.zip",
    "swift_archive": "CameraLibtorch-1.2.0-swift.zip",
    "pod_version": "1.2.0",
    "methods": {"classifier": ["forward(Tensor images) -> Tensor"]},
    "delivered": ["classifier"],
    "sampled": "classifier",
    "is_called": True,
    "swift": swift_function(manifest().models[0]),
    "program": c_program(manifest().models[0]),
}
PROJECTION = {
    "everything": False,
    "late": False,
    "names_tags": True,
    "lists_operators": True,
    "operators": ["aten::add.Tensor", "selected::nothing"],
    "lists_classes": True,
    "classes": ["quantized.Linear"],
    "lists_features": True,
    "features": ["FEATURE"],
}
WRAPPER = {
    "verb": "cxx",
    "target": "x86_64-linux-gnu.2.28",
    "command": ["/opt/zig", "c++"],
    "zig": "/opt/zig",
    "smallest": ["-Os"],
    "relink": ["/python", "-I", "/relink.py"],
    "archiver": "ar",
}
TOOLCHAIN = {
    "abi": "linux-arm64",
    "version": "0.17.0",
    "target": "aarch64-linux-gnu.2.28",
    "system": "Linux",
    "musl": False,
    "processor": "aarch64",
    "emulator": ["/opt/qemu", "-L"],
    "compile_flags": "-O1",
    "link_flags": "-Wl,-z,now",
}
# template -> values that it is rendered with
ELEMENTWISE = {
    "namespace": "ink",
    "name": "gcd",
    "inputs": ["x0", "x1"],
    "scalar_types": ["Int"],
    "promotes": True,
    "to_float": True,
    "functor": Fit("template <typename T> T gcd(T a, T b);"),
    "path": "apps/inker/kernels/gcd.elementwise",
    "line": 5,
}
CODEGEN: Mapping[str, Mapping[str, Any]] = {
    "elementwise_cpu.cpp.j2": ELEMENTWISE,
    "late_dispatch.h.j2": {},
    "named_tags.h.j2": {},
    "projection_head.h.j2": PROJECTION,
    "projection_tag.h.j2": {"tag": "slow_conv_dilated<>", "dtypes": ["Float"]},
    "projection_tail.h.j2": PROJECTION,
    "registrations.cpp.j2": {"keys": ["CPU"], "helpers": ["create_out"], "resolved": False},
    "resolved.h.j2": {},
    "selection.cpp.j2": {"digest": "5e" * 32, "left_out": ["aten::len.t"]},
    "stub.cpp.j2": {"number": 1, "symbol": "_ZN2at3addE", "libstdcxx": "_ZN2at3addEl"},
    "stubs.cpp.j2": {
        "symbols": [(1, "_ZN2at3addEl", None)],
        "elsewhere": [(2, "_ZN2at3addEx", "_ZN2at3addEm")],
    },
}
PACKAGERS: Mapping[str, Mapping[str, Any]] = {
    "App.java.j2": {
        "package": "libtorch.camera",
        "app": "camera",
        "library": "camera_torch",
        "abis": ["arm64-v8a"],
    },
    "prefab.cmake.j2": {
        "name": "camera_libtorch",
        "core": "camera_torch_core",
        "registrations": "camera_torch_registrations",
        "definitions": {"arm64-v8a": ["NAME", "LEVEL=2"]},
    },
}
DELIVER: Mapping[str, Mapping[str, Any]] = {
    "README-aar.md.j2": {
        **NAMES,
        "program": java_class(manifest().models[0], "libtorch.camera"),
        "package": "libtorch.camera",
        "group": "com.example",
        "artifact": "camera-libtorch",
        "version": "1.2.0",
        "abis": ["arm64-v8a", "x86_64"],
        "for_release": False,
    },
    **dict.fromkeys(
        (
            *("README-static.md.j2", "README.md.j2", "config-version.cmake.j2", "config.cmake.j2"),
            *("methods.md.j2", "shared.pc.j2", "static.pc.j2", "toolchain.cmake.j2"),
        ),
        NAMES,
    ),
}
XCFRAMEWORK = dict.fromkeys(
    (
        *("Delivered.swift.j2", "Package.swift.j2", "README.md.j2", "Model.swift.j2"),
        *("lite_podspec.j2", "module.modulemap.j2", "podspec.j2"),
    ),
    IOS,
)
WHEEL = {
    "m": M,
    "package": "camera_libtorch",
    "version": "1.2.0",
    "tag": "py3-none-manylinux_2_28_x86_64",
    "library": "libcamera_torch.so",
    "models": ["classifier"],
    "methods": {"classifier": ["forward(Tensor images) -> Tensor"]},
    "licence": "BSD-3-Clause",
    "licence_files": ["PyTorch/LICENSE"],
    "sample": python_call(manifest().models[0]),
}
PYTHON = dict.fromkeys(
    (
        *("METADATA.j2", "WHEEL.j2", "__init__.py.j2", "_app.py.j2", "_errors.py.j2"),
        *("_library.py.j2", "_model.py.j2", "_types.py.j2", "_values.py.j2"),
    ),
    WHEEL,
)
OURS: Mapping[str, Mapping[str, Any]] = {"toolchain.cmake.j2": TOOLCHAIN, "wrapper.sh.j2": WRAPPER}
FOLDERS = {
    ("orchestrator.codegen", "templates"): CODEGEN,
    ("orchestrator.compilers", "templates"): OURS,
    ("orchestrator.deliver", "templates"): DELIVER,
    ("orchestrator.packagers", "templates"): PACKAGERS,
    ("orchestrator.packagers", "templates/wheel"): PYTHON,
    ("orchestrator.packagers", "templates/xcframework"): XCFRAMEWORK,
}
CASES = [
    pytest.param(package, folder, template, id=f"{package.partition('.')[2]}-{template}")
    for (package, folder), templates in FOLDERS.items()
    for template in templates
]
# Where any text of one line may stand: it is quoted, or in a comment or a sentence.
ANY_LINE = {
    *("command", "zig", "smallest", "relink", "emulator", "compile_flags", "link_flags"),
    *("target", "version", "toolchains", "licence"),
}
# What no place holds; no literal; no word.
NEVER = ["x\ny", "x\r", "x\x00", "x\x1b]0;y", "x\x85y", "x\u2028y"]
NO_LITERAL = ['x"y', "x\\", "x??/", "x\u00e9"]
NO_WORD = ["x$(y)", "x`y`", "x;y", "x'y", "x */ y", "x y", "]=]"]


def render(package: str, folder: str, template: str, values: Mapping[str, Any]) -> str:
    blocks = package not in {"orchestrator.deliver", "orchestrator.packagers"}
    return environment(package, folder, blocks=blocks).get_template(template).render(values)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all texts in nested values."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, inner in enumerate(value):
            yield from leaves(inner, (*path, number))
    elif isinstance(value, str):
        yield path


def changed(value: Any, path: Sequence[Any], text: str) -> Any:
    """The value with another text at a path."""
    if not path:
        return text
    inner = changed(value[path[0]], path[1:], text)
    if isinstance(value, Mapping):
        return {**value, path[0]: inner}
    return [inner if n == path[0] else entry for n, entry in enumerate(value)]


def test_every_template_is_here() -> None:
    found = {
        path.relative_to(ROOT / "orchestrator").as_posix()
        for path in (ROOT / "orchestrator").rglob("*.j2")
    }
    # it escapes whatever it is given: tests/unit/report
    found.remove("report/page/files/page.html.j2")
    assert found == {
        f"{package.partition('.')[2]}/{folder}/{template}"
        for (package, folder), templates in FOLDERS.items()
        for template in templates
    }


@pytest.mark.parametrize(("package", "folder", "template"), CASES)
def test_hostile_values_are_refused(package: str, folder: str, template: str) -> None:
    values = FOLDERS[package, folder][template]
    honest = render(package, folder, template, values)
    for path in leaves(values):
        own = package == "orchestrator.compilers" or {"toolchains", "licence"} & {*path}
        any_line = own and ANY_LINE & {*path}
        literal = {"tag", "symbols", "symbol", "elsewhere", "libstdcxx", "left_out"} & {*path}
        for text in (
            *NEVER,
            *(() if any_line else NO_LITERAL),
            *(() if any_line or literal else NO_WORD),
        ):
            try:
                seen = render(package, folder, template, changed(values, path, text))
            except UnfitTextError:
                continue
            # this text stands nowhere in the template
            assert seen == honest, (path, text)


@pytest.mark.parametrize("text", [*NEVER, *NO_LITERAL, *NO_WORD, "", "-x"], ids=ascii)
def test_a_value_without_a_filter_has_to_be_a_word(text: str) -> None:
    templates = environment("orchestrator.codegen")
    assert templates.from_string("{{ x }}").render(x="libx-1.2~rc1.so") == "libx-1.2~rc1.so"
    with pytest.raises(UnfitTextError):
        templates.from_string("{{ x }}").render(x=text)


def test_nothing_is_no_text() -> None:
    templates = environment("orchestrator.codegen")
    nothing: tuple[object, ...] = (None, True, 1.5, [], b"x", "")
    for value in nothing:
        with pytest.raises(UnfitTextError):
            templates.from_string("{{ x | cpp_text }}").render(x=value)
    with pytest.raises(jinja2.UndefinedError):
        templates.from_string("{{ x }}").render()
    with pytest.raises(jinja2.UndefinedError):
        templates.from_string("{{ x | cpp_text }}").render()


def test_the_words_of_a_refusal() -> None:
    with pytest.raises(UnfitTextError) as caught:
        FILTERS["cpp_text"]('x") == 0) return true; //' + "y" * 100)
    assert caught.value.render() == (
        "error: a text cannot be written as the text of a C++ string literal\n"
        '  expected: printable ASCII characters without `"`, `\\` and `?`\n'
        f"  seen:     'x\") == 0) return true; //{'y' * 55}...'"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("definition", "X=a b"),
        ("definition", "X(a)=a"),
        ("path", "../a/../b c"),
        ("path", "/etc"),
        ("path", "a//b"),
        ("line", "ends with \\"),
        ("cpp_name", "1x"),
        ("cpp_name", "x::y"),
        ("cpp_text", "what??/"),
        ("java_name", "a.1"),
        ("number", "-1"),
        ("word", "-x"),
    ],
)
def test_what_filters_refuse(name: str, text: str) -> None:
    with pytest.raises(UnfitTextError):
        FILTERS[name](text)


@pytest.mark.parametrize("path", ['/a b/$(touch x)/`y`"\\z', "/a'b"])
def test_a_shell_reads_what_was_meant(path: str) -> None:
    words, quoted = FILTERS["shell"]([path, ""]), FILTERS["shell_quoted"](path)
    text = f'printf "%s|%s|" {words}; printf "%s" "{quoted}"'
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == f"{path}||{path}"


@pytest.mark.parametrize("text", ["x]=]y", "x]="])
def test_a_bracket_argument_cannot_be_ended(text: str) -> None:
    with pytest.raises(UnfitTextError):
        FILTERS["cmake_bracket"](text)
    assert FILTERS["cmake_bracket"]('-DX=$"a]') == '[=[-DX=$"a]]=]'


WHO = frozenset({"m"})
INJECTED = 'x") == 0) return true; /**/ if (tag.compare("y'


@pytest.mark.parametrize(
    "selection",
    [
        Selection(kernel_dtypes={INJECTED: {"Float": WHO}}),
        Selection(kernel_dtypes={"add_stub": {"Float; }": WHO}}),
        Selection(custom_classes={'a"); //': WHO}),
    ],
)
def test_a_hostile_selection_reaches_no_projection(selection: Selection) -> None:
    """Units that compute the names of tags or classes get all that a selection has."""
    unit = UnitFacts("u.cpp", 1.0, open_tags=True, open_classes=True)
    with pytest.raises(UnfitTextError):
        projection_text(unit, selection)
