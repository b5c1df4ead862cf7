"""`java_api: org.pytorch` for real: the classes of PyTorch Android over delivered libraries, on the
host's JVM, with small stand-ins of the few classes of Android that they take.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import crafted
import pytest
from golden_files import Golden
from java_programs import JAVA_FLAGS, PROGRAMS, Programs
from r8 import shrink
from real import ROOT, models_of
from test_calls import taking

from orchestrator.packagers.aar import KEPT
from orchestrator.packagers.aar_java import find_java_compiler, java_package

pytestmark = pytest.mark.real

GOLDEN = ROOT / "tests/golden/java"
INTERFACE = (
    "DType",
    "Device",
    "IValue",
    "LiteModuleLoader",
    "MemoryFormat",
    "Module",
    "PyTorchAndroid",
    "Tensor",
    "torchvision.TensorImageUtils",
)
# Demo -> its app, and the app's model or one of ours.
DEMOS = {
    "classification": ("camera", "classifier.ptl"),
    "segmentation": ("camera", "segments.ptl"),
    "speech": ("listener", "words.ptl"),
    "answers": ("assistant", "replies.ptl"),
}


def tensor_of(dtype: str, *numbers: float, kind: str, turned: bool = False) -> bytes:
    """A model that gives a tensor of its own: [2, 2], or a row."""
    sizes, strides = ([2, 2], [1, 2]) if turned else ([len(numbers)], [1])
    stored = f"ctorch\n{dtype}Storage\n".encode()
    data = crafted.tensor(sizes, strides, numel=len(numbers), dtype=stored)
    return crafted.model(
        crafted.module(data), record=struct.pack(f"<{len(numbers)}{kind}", *numbers)
    )


def with_extra(model: bytes, **extra: str) -> bytes:
    """A model with extra files, as `_save_for_lite_interpreter(_extra_files=)` adds them."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(model)) as read, zipfile.ZipFile(out, "w") as written:
        for name in read.namelist():
            written.writestr(name, read.read(name))
        for name, text in extra.items():
            written.writestr(f"m/extra/{name.replace('_', '.')}", text)
    return out.getvalue()


def segments() -> bytes:
    """A model as torchvision's segmentation networks: it gives {"out": its argument}."""
    code = crafted.method(
        [
            ("STOREN", 1, 2),
            ("LOADC", 0, 0),
            ("MOVE", 2, 0),
            ("DICT_CONSTRUCT", 0, 2),
            ("RET", 0, 0),
        ],
        arguments=[crafted.argument("picture", "Tensor")],
        constants=[crafted.text("out")],
        types=[crafted.text("Dict[str, Tensor]")],
        registers=2,
    )
    return crafted.model(code=code)


def write_models(folder: Path) -> None:
    """Those of the program `Calls`."""
    labels = {"labels_txt": "Katze\nK\u00e4fer"}
    anything = taking(("a", "Any"))
    for name, data in {
        "any.ptl": anything,
        "any.ptl.gz": anything,
        "extra.ptl": with_extra(anything, **labels),
        "shorts.ptl": tensor_of("Short", 1, 2, kind="h"),
        "turned.ptl": tensor_of("Double", 1, 2, 3, 4, kind="d", turned=True),
    }.items():
        (folder / name).write_bytes(data)


@pytest.fixture(scope="module")
def android(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-ins' classes."""
    folder = tmp_path_factory.mktemp("android")
    compiled(folder, [], PROGRAMS / "android")
    return folder


def compiled(into: Path, classes: list[Path], sources: Path) -> None:
    compiler = find_java_compiler(os.environ)
    assert compiler
    path = ("-cp", os.pathsep.join(map(str, classes))) if classes else ()
    files = sorted(map(str, sources.rglob("*.java")))
    subprocess.run([compiler.program, *JAVA_FLAGS, *path, "-d", str(into), *files], check=True)


@pytest.fixture(scope="module")
def calls(programs: Programs, android: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our programs' classes, with the stand-ins'. `Calls` names the app's own package once."""
    sources, folder = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("classes")
    for program in (PROGRAMS / "pytorch").glob("*.java"):
        text = program.read_text().replace("libtorch.app", "libtorch.camera")
        (sources / program.name).write_text(text)
    shutil.copytree(android, folder, dirs_exist_ok=True)
    compiled(folder, [programs.of("camera"), android], sources)
    return folder


def test_every_call_does_what_is_documented(
    programs: Programs, calls: Path, tmp_path: Path, golden: Golden
) -> None:
    write_models(tmp_path)
    ran = programs.run(["camera"], "Calls", tmp_path, beside=calls)
    assert (ran.returncode, ran.stderr) == (0, "")
    golden(GOLDEN / "calls.txt", ran.stdout)


@pytest.mark.parametrize("demo", DEMOS)
def test_a_demo_runs_as_it_is(programs: Programs, calls: Path, demo: str, tmp_path: Path) -> None:
    app, name = DEMOS[demo]
    model = ROOT / "apps" / app / "models" / name
    (tmp_path / name).write_bytes(model.read_bytes() if model.is_file() else segments())
    ran = programs.run([app], "Demos", demo, tmp_path, name, beside=calls)
    assert (ran.returncode, ran.stderr) == (0, "")
    if demo == "answers":
        # which token is the best may depend on a last digit; that the state is reset does not
        first, other, again = ran.stdout.splitlines()
        assert first == again
        assert first != other
    else:
        expected = (GOLDEN / f"{demo}.txt").read_text().split()
        seen = ran.stdout.split()
        assert [word for word in seen if not _is_score(word)] == [
            word for word in expected if not _is_score(word)
        ]
        # as other processors give them too
        assert [*map(float, filter(_is_score, seen))] == pytest.approx(
            [*map(float, filter(_is_score, expected))], abs=0.01
        )


def _is_score(word: str) -> bool:
    return re.fullmatch(r"\d\.\d+", word) is not None


# What an app's own build says: where it is entered, and that it prints the names of exceptions.
ENTRIES = ("Calls", "Demos", "libtorch.camera.Checks")
OF_THE_APP = "-keepnames class * extends java.lang.Throwable\n" + "".join(
    f"-keep class {name} {{ public static void main(java.lang.String[]); }}\n" for name in ENTRIES
)


def jar_of(target: Path, folders: list[Path], without: str = "") -> Path:
    """The classes of folders, but for those below the package `without`."""
    with zipfile.ZipFile(target, "w") as written:
        for folder in folders:
            for path in sorted(folder.rglob("*.class")):
                name = path.relative_to(folder).as_posix()
                if not without or not name.startswith(f"{without}/"):
                    written.write(path, name)
    return target


@pytest.mark.ci_only
def test_what_r8_leaves_of_an_app_does_the_same(
    programs: Programs, android: Path, calls: Path, tmp_path: Path, golden: Golden
) -> None:
    """In full mode, with the rules of the AAR: all else is renamed, inlined or gone."""
    app = jar_of(tmp_path / "app.jar", [programs.of("camera"), calls], without="android")
    system = jar_of(tmp_path / "android.jar", [android])
    java = Path(programs.compiler.program).with_name("java")
    rules = KEPT.format(package=java_package("camera"))
    release = shrink(java, app, system, rules + OF_THE_APP, tmp_path)
    with zipfile.ZipFile(release) as archive:
        renamed = re.compile(r"(\w/|libtorch/camera/)?\w\.class")
        left = [name for name in archive.namelist() if not renamed.fullmatch(name)]
    assert sorted(left) == [
        "Calls.class",
        "Demos.class",
        "libtorch/camera/Checks.class",
        "libtorch/camera/LibtorchException.class",
        "libtorch/camera/Native.class",
    ]
    classes = [release, android]
    write_models(tmp_path)
    ran = programs.run(["camera"], "Calls", tmp_path, classes=classes)
    assert (ran.returncode, ran.stderr) == (0, "")
    golden(GOLDEN / "calls.txt", ran.stdout)
    (model,) = models_of("camera")
    ran = programs.run(["camera"], "libtorch.camera.Checks", model, classes=classes)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == (PROGRAMS / "expected.txt").read_text()
    # the rules are what it takes
    bare = shrink(java, app, system, OF_THE_APP, tmp_path)
    ran = programs.run(["camera"], "Calls", tmp_path, classes=[bare, android])
    assert ran.returncode != 0
    assert "java.lang.NoClassDefFoundError: libtorch/camera/Native" in ran.stderr


def javap(compiler: str, *arguments: str | Path) -> str:
    tool = str(Path(compiler).with_name("javap"))
    argv = [tool, *map(str, arguments)]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_the_public_methods_are_those_of_pytorch_android(
    programs: Programs, calls: Path, golden: Golden
) -> None:
    """By name and type, and each of them is called in `Calls` or `Demos`."""
    program = programs.compiler.program
    folder = programs.of("camera")
    names = [f"org.pytorch.{name}" for name in INTERFACE]
    text = javap(program, "-public", "-s", "-cp", folder, *names)
    methods = set(_methods(text))
    golden(GOLDEN / "org.pytorch.txt", "".join(f"{one}\n" for one in sorted(methods)))
    used = javap(program, "-p", "-c", "-cp", calls, "Calls", "Demos")
    called = {
        f"{name.replace('/', '.')}.{method}:{signature}"
        for name, method, signature in re.findall(
            r"(?:Method|REF_\w+) (org/pytorch/[\w/]+)\.(\w+):(\S+)", used
        )
    }
    references = javap(program, "-p", "-v", "-cp", calls, "Calls")
    for name, method, signature in re.findall(
        r"REF_invoke\w+ (org/pytorch/[\w/]+)\.(\w+):(\S+)", references
    ):
        called.add(f"{name.replace('/', '.')}.{method}:{signature}")
    # every object has toString, and is called by its base's name
    uncalled = {one for one in methods - called if ".toString:" not in one}
    assert uncalled == set()


def _methods(text: str) -> Iterator[str]:
    """`org.pytorch.Tensor.numel:()J` of what `javap -s` prints."""
    owner = ""
    lines = iter(text.splitlines())
    for line in lines:
        if head := re.match(r"public .*(?:class|enum) ([\w.]+)", line):
            owner = head[1]
        elif method := re.match(r"  public .*?(\w+)\(", line):
            yield f"{owner}.{method[1]}:{next(lines).partition('descriptor: ')[2]}"
