"""The Java API of an app: the sources in its own package, and the classes.jar built from them.

Each app has its own Java package (`libtorch.camera`). So one APK can contain two apps' AARs,
although two classes with the same name are an error there. It also makes passing a tensor of one
library to the other, which would crash, a type error.

The sources (`native/java/libtorch/app`) are plain Java in the package `libtorch.app`, so that every
tool can read them. This module substitutes the package's name, and renders one class: the name of
the app's native library, and the ABIs that there are.

With `java_api: org.pytorch`, the classes of PyTorch Android come beside them (`native/java/org`):
these have one name in all apps. They are compiled against declarations of Android's classes
(`native/java/declarations`), so that no Android SDK is needed; nothing of those is packed.
"""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.deliver.files import File
from orchestrator.errors import OrchestratorError
from orchestrator.packagers.zips import write_zip
from orchestrator.system.process import LOCAL, Command, CommandRunner
from orchestrator.system.templates import environment
from orchestrator.values.config.app import JavaApi

_JAVA: Final = Path(__file__).parents[1] / "native/java"
SOURCES: Final = _JAVA / "libtorch/app"
_ANDROID: Final = _JAVA / "declarations"
_API_FOLDERS: Final[Mapping[JavaApi, Path]] = {"org.pytorch": _JAVA / "org"}
# What Android's tools take from every JDK since 9.
RELEASE: Final = 8
_PACKAGE: Final = re.compile(r"\blibtorch\.app\b")
# -options: newer JDKs call 8 obsolete.
_FLAGS: Final = (
    *("--release", str(RELEASE), "-encoding", "UTF-8", "-proc:none", "-implicit:none"),
    *("-g:source,lines", "-Xlint:all", "-Xlint:-options", "-Werror"),
)
_JAR_MANIFEST: Final = File("META-INF/MANIFEST.MF", b"Manifest-Version: 1.0\r\n\r\n")
# JLS 3.9: keywords, and the literals that are no identifiers either.
_RESERVED: Final = re.compile(
    r"abstract|assert|boolean|break|byte|case|catch|char|class|const|continue|default|do"
    r"|double|else|enum|extends|false|final|finally|float|for|goto|if|implements|import"
    r"|instanceof|int|interface|long|native|new|null|package|private|protected|public"
    r"|return|short|static|strictfp|super|switch|synchronized|this|throw|throws|transient"
    r"|true|try|void|volatile|while"
)


class JavaCompileError(OrchestratorError):
    """javac refused the Java API: one that is older than 9, or broken."""


@dataclass(frozen=True)
class JavaCompiler:
    """A javac that was found, and its version (`javac 17.0.15`)."""

    program: str
    version: str


def java_package(app: str) -> str:
    """The Java package of an app, which is its AAR's Android namespace as well.

    What no identifier may hold becomes `_`, as JLS 6.1 suggests; a part of an Android namespace
    also begins with a letter.
    """
    name = re.sub(r"\W", "_", app, flags=re.ASCII)
    if not name[0].isalpha():
        name = f"app_{name}"
    return f"libtorch.{name}_" if _RESERVED.fullmatch(name) else f"libtorch.{name}"


def java_sources(
    app: str, library: str, abis: Sequence[str], api: JavaApi | None = None
) -> tuple[File, ...]:
    """The sources for an app, by path in a jar; `library` is what System.loadLibrary takes, `abis`
    are Android's names of those that it is made for, `api` is another library's API beside."""
    package = java_package(app)
    folder = package.replace(".", "/")
    found = {f"{folder}/{path.name}": path for path in SOURCES.glob("*.java")}
    if api is not None:
        files = _API_FOLDERS[api].rglob("*.java")
        found |= {path.relative_to(_JAVA).as_posix(): path for path in files}
    texts = {
        name: _PACKAGE.sub(package, path.read_text(encoding="utf-8"))
        for name, path in found.items()
    }
    template = environment("orchestrator.packagers").get_template("App.java.j2")
    facts = {"package": package, "app": app, "library": library, "abis": abis}
    texts[f"{folder}/App.java"] = template.render(**facts)
    return tuple(File(name, texts[name].encode()) for name in sorted(texts))


def find_java_compiler(
    env: Mapping[str, str], runner: CommandRunner = LOCAL
) -> JavaCompiler | None:
    """javac of JAVA_HOME, else on PATH; None where there is none that starts."""
    homes = [f"{env['JAVA_HOME']}/bin"] if env.get("JAVA_HOME") else []
    for path in (*homes, env.get("PATH", "")):
        program = shutil.which("javac", path=path)
        if program is None:
            continue
        done = runner.run(Command([program, "-version"], None))
        version = (done.out + done.err).strip().rpartition("\n")[2]
        if done.code == 0 and version.startswith("javac"):
            return JavaCompiler(program, version)
    return None


def compile_java(
    sources: Iterable[File], compiler: JavaCompiler, runner: CommandRunner = LOCAL
) -> tuple[File, ...]:
    """The classes of the sources, by their path in a jar. Raises `JavaCompileError`."""
    with tempfile.TemporaryDirectory(prefix="java-") as name:
        folder = Path(name)
        paths = []
        for source in sources:
            path = folder / "src" / source.path
            path.parent.mkdir(parents=True, exist_ok=True)
            source.write(path)
            paths.append(str(path.relative_to(folder)))
        # with -implicit:none: what is found there is not compiled
        declared = ("-sourcepath", str(_ANDROID))
        argv = [compiler.program, *_FLAGS, *declared, "-d", "out", *paths]
        done = runner.run(Command(argv, None, folder))
        if done.code != 0:
            raise JavaCompileError(
                "the Java API does not compile",
                expected=f"a JDK since 9, whose javac knows --release {RELEASE}",
                seen=compiler.version,
                hint="set JAVA_HOME to another JDK",
                details=(done.out + done.err).strip(),
            )
        out = folder / "out"
        return tuple(
            File(path.relative_to(out).as_posix(), path.read_bytes())
            for path in sorted(out.rglob("*.class"))
        )


def jar(files: Iterable[File]) -> bytes:
    """A jar of the files; its manifest goes first, where JarInputStream looks for it."""
    target = io.BytesIO()
    write_zip(target, [_JAR_MANIFEST, *files], first=_JAR_MANIFEST.path)
    return target.getvalue()
