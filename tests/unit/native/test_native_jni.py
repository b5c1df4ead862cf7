"""Our JNI sources against a JDK: indices and types of the table, and the methods that Java names.

What they do is tested on a JVM by `tests/integration/test_java.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from toy_natives import natives
from zig_tool import HOST_TARGET, zig

from orchestrator.deliver.files import File
from orchestrator.execute.ninja_file import Tools, ninja_text
from orchestrator.packagers.aar import KEPT
from orchestrator.packagers.aar_java import (
    JavaCompiler,
    compile_java,
    find_java_compiler,
    java_sources,
)
from orchestrator.plan.graph import java_compiles
from orchestrator.plan.variant import VariantSpec
from orchestrator.values.action import ActionGraph
from orchestrator.values.config.toolchain import System

ABIS = ("arm64-v8a", "x86_64")
NATIVE = Path(__file__).parents[3] / "orchestrator/native"
TABLE = (NATIVE / "jni/jni_table.h").read_text()
STRICT = ("-std=gnu++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "-c")


@pytest.fixture(scope="module")
def compiler() -> JavaCompiler:
    found = find_java_compiler(os.environ)
    assert found, "the Java API needs a JDK: apt-get install default-jdk-headless"
    return found


def indices(enum: str) -> dict[str, int]:
    body = re.search(rf"enum {enum} : int \{{(.*?)\}};", TABLE, re.DOTALL)
    assert body
    return {name: int(index) for name, index in re.findall(r"(\w+) = (\d+),", body[1])}


def checked_against(compiler: JavaCompiler, folder: Path, text: str) -> None:
    """Compiles a text that includes the JDK's jni.h and ours."""
    include = Path(compiler.program).resolve().parents[1] / "include"
    assert (include / "jni.h").is_file(), f"no jni.h in {include}: is this a whole JDK?"
    source = folder / "check.cpp"
    source.write_text(
        f'#include <jni.h>\n#include <cstddef>\n#include "jni_table.h"\n{text}', encoding="utf-8"
    )
    zig(
        *("c++", "-target", HOST_TARGET, *STRICT, "-Wno-invalid-offsetof"),
        *("-o", folder / "check.o"),
        *("-isystem", include, "-isystem", include / "linux", f"-I{NATIVE / 'jni'}", source),
    )


def assertions(prefix: str, struct: str, wanted: Mapping[str, int]) -> str:
    return "".join(
        f'static_assert(offsetof({struct}, {name}) == {index} * sizeof(void*), "{name}");\n'
        f'static_assert(jni::{name} == {index}, "{prefix}{name}");\n'
        for name, index in wanted.items()
    )


def test_the_indices_are_those_of_the_jdk(compiler: JavaCompiler, tmp_path: Path) -> None:
    env, vm = indices("EnvIndex"), indices("VmIndex")
    used = set(re.findall(r"\bat<[^>]*>\((\w+)", TABLE))
    assert used == env.keys() | vm.keys()
    text = assertions("", "JNINativeInterface_", env) + assertions("", "JNIInvokeInterface_", vm)
    checked_against(compiler, tmp_path, text)


def test_the_types_are_those_of_the_jdk(compiler: JavaCompiler, tmp_path: Path) -> None:
    same = {"Boolean": "jboolean", "Byte": "jbyte", "Int": "jint", "Size": "jsize"}
    text = "#include <type_traits>\n"
    for ours, theirs in same.items():
        text += f"static_assert(std::is_same<jni::{ours}, {theirs}>::value, #theirs);\n".replace(
            "#theirs", f'"{theirs}"'
        )
    text += 'static_assert(sizeof(jni::Long) == sizeof(jlong), "jlong");\n'
    text += 'static_assert(sizeof(jni::Argument) == sizeof(jvalue), "jvalue");\n'
    text += 'static_assert(sizeof(jni::NativeMethod) == sizeof(JNINativeMethod), "method");\n'
    for member, offset in {"name": 0, "signature": 1, "fnPtr": 2}.items():
        text += f"static_assert(offsetof(JNINativeMethod, {member}) == {offset} * sizeof(void*));\n"
    for ours, theirs in {
        "kVersion": "JNI_VERSION_1_6",
        "kOk": "JNI_OK",
        "kError": "JNI_ERR",
        "kDetached": "JNI_EDETACHED",
        "kAbort": "JNI_ABORT",
    }.items():
        text += f'static_assert(jni::{ours} == {theirs}, "{theirs}");\n'
    checked_against(compiler, tmp_path, text)


@pytest.mark.parametrize(
    "target", ["x86_64-linux-gnu.2.28", "aarch64-linux-musl", "arm-linux-musleabihf"]
)
@pytest.mark.parametrize("source", ["natives", "on_load"])
def test_a_source_compiles_without_a_jdk(source: str, target: str, tmp_path: Path) -> None:
    flags = ['-DLTA_JNI_PACKAGE="libtorch/toy"', f"-I{NATIVE / 'capi'}"]
    made = ("-o", tmp_path / f"{source}.o")
    zig("c++", "-target", target, *STRICT, *flags, *made, NATIVE / f"jni/{source}.cpp")


# What a type of Java is in a signature, and in our C++.
JAVA_TYPES = {
    **{"void": "V", "boolean": "Z", "int": "I", "long": "J", "byte[]": "[B", "long[]": "[J"},
    **{"byte[][]": "[[B", "ByteBuffer": "Ljava/nio/ByteBuffer;", "Buffer": "Ljava/nio/Buffer;"},
}
CXX_TYPES = {
    **{"void": "V", "Boolean": "Z", "Int": "I", "Long": "J", "ByteArray": "[B", "LongArray": "[J"},
    **{"ObjectArray": "[[B", "Object": "Ljava/nio/ByteBuffer;", "Buffer": "Ljava/nio/Buffer;"},
}


def signature(result: str, parameters: str, types: Mapping[str, str]) -> str:
    kinds = [parameter.split()[0] for parameter in parameters.split(", ") if parameter]
    return f"({''.join(types[kind] for kind in kinds)}){types[result]}"


def test_java_and_cxx_agree_on_every_method() -> None:
    java = (NATIVE / "java/libtorch/app/Native.java").read_text()
    declared = {
        name: signature(result, " ".join(parameters.split()), JAVA_TYPES)
        for result, name, parameters in re.findall(
            r"static native ([\w\[\]]+) (\w+)\(([^)]*)\);", java
        )
    }
    cxx = (NATIVE / "jni/natives.cpp").read_text()
    bound = re.findall(r'\{"(\w+)", "([^"]+)", address_of\((\w+)\)\}', cxx)
    heads = re.findall(
        r"^(\w+) (\w+)\(Env\*(?: env)?, Class(?: self)?((?:, [^)]*)?)\) \{", cxx, re.MULTILINE
    )
    functions = {function for _, _, function in bound}
    defined = {
        name: signature(result, " ".join(rest.split()).removeprefix(", "), CXX_TYPES)
        for result, name, rest in heads
        if name in functions
    }
    assert {name: sign for name, sign, _ in bound} == declared
    for name, sign, function in bound:
        assert (name, defined[function]) == (name, sign)
    assert len(declared) == cxx.count("address_of(") - 1


def test_what_native_code_looks_up_by_name_is_kept() -> None:
    """R8 renames and removes what no rule keeps: every class, and every member of it."""
    cxx = "".join(path.read_text() for path in sorted((NATIVE / "jni").glob("*.cpp")))
    java = "".join(path.read_text() for path in sorted((NATIVE / "java").rglob("*.java")))
    assert set(re.findall(r"\bfind_class\(([^)]*)\)", cxx)) == {
        'LTA_JNI_PACKAGE "/Native"',
        '"[B"',  # the virtual machine's own
    }
    # of no other class: a lookup is of `self`, which is Native
    lookups = re.findall(r"env->static_method\((\w+), \"(\w+)\"", cxx)
    assert lookups == [("self", "fail")]
    assert not re.search(r"\b(Get\w*MethodID|Get\w*FieldID)\b", cxx)
    rules = KEPT.format(package="libtorch.toy")
    assert re.findall(r"^-keep .*$", rules, re.MULTILINE) == [
        "-keep class libtorch.toy.Native { *; }"
    ]
    # by reflection, Android's own alone
    assert re.findall(r"Class\.forName\(([^)]*)\)", java) == ['"android.os.Build"']


def test_the_numbers_of_the_enums_are_the_c_apis() -> None:
    header = (NATIVE / "capi/libtorch_app.h").read_text()
    for source in java_sources("toy", "toy_torch", ABIS):
        name = source.path.rpartition("/")[2].removesuffix(".java")
        prefix = {"Status": "LTA_", "Kind": "LTA_KIND_", "DType": "LTA_"}.get(name)
        if prefix is None:
            continue
        assert isinstance(source.content, bytes)
        seen = re.findall(r"^  ([A-Z][A-Z0-9_]*)(?:\(\d+\))?[,;]$", source.content.decode(), re.M)
        end = {"Status": "lta_status", "Kind": "lta_kind", "DType": "lta_dtype"}[name]
        body = re.search(rf"typedef enum {end} \{{(.*?)\}} {end};", header, re.DOTALL)
        assert body
        expected = re.findall(rf"\b{prefix}(\w+) = (\d+)", body[1])
        assert [(value, str(number)) for number, value in enumerate(seen)] == expected


def test_the_api_is_documented_and_has_no_warnings(compiler: JavaCompiler, tmp_path: Path) -> None:
    paths = []
    for source in java_sources("toy", "toy_torch", ABIS, "org.pytorch"):
        path = tmp_path / source.path
        path.parent.mkdir(parents=True, exist_ok=True)
        source.write(path)
        paths.append(str(path))
    flags = ["--release", "8", "-Xlint:all", "-Xlint:-options", "-Xdoclint:all/protected"]
    flags += ["-Xdoclint/package:libtorch.*,org.pytorch.*", "-implicit:none"]
    flags += ["-sourcepath", str(NATIVE / "java/declarations")]
    done = subprocess.run(
        [compiler.program, *flags, "-Werror", "-d", str(tmp_path / "out"), *paths],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_guides_java_compiles(compiler: JavaCompiler) -> None:
    page = (NATIVE.parents[1] / "docs/guide/use-the-aar.md").read_text()
    (text,) = re.findall(r"^```java\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    guide = File("Classifier.java", text.encode())
    compiled = compile_java([*java_sources("camera", "camera_torch", ABIS), guide], compiler)
    assert "Classifier.class" in {file.path for file in compiled}


APPS = ("camera", "scanner")


def spec(system: System) -> VariantSpec:
    return VariantSpec(
        abi="any",
        toolchain="toolchain",
        compile_flags=("-DFIXED",),
        purpose="release",
        optimize="size",
        precompile=False,
        entry=frozenset(),
        system=system,
    )


def test_one_of_two_units_is_an_apps_own() -> None:
    camera, scanner = (java_compiles(spec("android"), f"libtorch/{app}", natives()) for app in APPS)
    assert [action.unit for action in camera] == [
        "native/jni/natives.cpp",
        "native/jni/on_load.cpp",
    ]
    assert camera[0].object == scanner[0].object
    assert camera[1].object != scanner[1].object
    assert camera[1].flags[-1] == '-DLTA_JNI_PACKAGE="libtorch/camera"'
    assert "-DFIXED" in camera[0].flags


def test_the_shell_leaves_the_quotes_of_the_package() -> None:
    graph = ActionGraph({c.object: c for c in java_compiles(spec("android"), "a/b", natives())}, ())
    tools: dict[str, Tools] = {"any": {"cxx": "cxx", "cc": "cc", "ar": "ar", "link": ()}}
    text = ninja_text(graph, folders={}, toolchains=tools, present=())
    assert """'-DLTA_JNI_PACKAGE="a/b"'""" in text
