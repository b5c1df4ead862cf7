"""Java programs over delivered libraries, on the host's JVM.

On Android the JNI objects are part of the app's library; here they are a library of their own
beside the delivered one, which is the same code over the same C API. The JVM checks every call of
JNI (`-Xcheck:jni`).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from real import ROOT
from zig_tool import zig

from orchestrator.deliver.files import File
from orchestrator.packagers.aar_java import (
    JavaCompiler,
    compile_java,
    java_package,
    java_sources,
)
from orchestrator.values.config.app import JavaApi

NATIVE = ROOT / "orchestrator/native"
PROGRAMS = Path(__file__).parent / "consumers/java"
JAVA_FLAGS = ("--release", "8", "-Xlint:all", "-Xlint:-options", "-Werror", "-proc:none")
ABIS = ("arm64-v8a", "x86_64")
# Apps whose Java API has the classes of PyTorch Android beside it.
WITH_PYTORCH = frozenset({"assistant", "camera", "listener"})


def compile_jni(source: str, target: Path, *flags: str) -> Path:
    """A JNI source as an object."""
    zig(
        *("c++", "-std=gnu++17", "-Os", "-g0", "-fPIC", "-Wall", "-Wextra", "-Werror", *flags),
        *(f"-I{NATIVE / 'capi'}", "-c", NATIVE / f"jni/{source}.cpp", "-o", target),
    )
    return target


@dataclass
class Programs:
    """Java programs over the delivered libraries of apps.

    folder    where all of it lies
    built     the delivered apps
    natives   the object of the JNI source that all apps share
    compiled  app -> a folder of classes, with the app's JNI library beside them: its Java API, of
              some also org.pytorch, and our programs `each`, compiled once for all tests
    """

    folder: Path
    built: Path
    compiler: JavaCompiler
    natives: Path
    compiled: dict[str, Path] = field(default_factory=dict)

    def of(self, app: str) -> Path:
        if app not in self.compiled:
            self.compiled[app] = self._compile(app)
        return self.compiled[app]

    def _compile(self, app: str) -> Path:
        folder = self.folder / app
        folder.mkdir()
        self._jni_library(folder, app)
        api: JavaApi | None = "org.pytorch" if app in WITH_PYTORCH else None
        sources = [*java_sources(app, f"{app}_torch_jni", ABIS, api)]
        for program in PROGRAMS.glob("each/*.java"):
            text = program.read_text().replace("libtorch.app", java_package(app))
            path = f"{java_package(app).replace('.', '/')}/{program.name}"
            sources.append(File(path, text.encode()))
        for file in compile_java(sources, self.compiler):
            (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
            file.write(folder / file.path)
        return folder

    def _jni_library(self, folder: Path, app: str) -> None:
        """Our JNI sources as a library over an app's delivered one."""
        exports = folder / "exports.map"
        exports.write_text("{ global: JNI_OnLoad; local: *; };\n")
        package = java_package(app).replace(".", "/")
        define = f'-DLTA_JNI_PACKAGE="{package}"'
        on_load = compile_jni("on_load", folder / "on_load.o", define)
        delivered = self.built / app / f"linux-x86_64/lib/lib{app}_torch.so"
        zig(
            *("c++", "-shared", "-O2", f"-Wl,--version-script={exports}", "-Wl,-z,defs"),
            *(self.natives, on_load, delivered, "-o", folder / f"lib{app}_torch_jni.so"),
        )

    def run(
        self,
        apps: list[str],
        main: str,
        *arguments: str | Path,
        beside: Path | None = None,
        natives: bool = True,
        classes: list[Path] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs the class `main` of some apps' classes, or of the folder `beside`.

        natives: whether their native libraries are found
        classes: all that there are, in place of the apps' and those beside
        """
        folders = [self.of(app) for app in apps]
        path = classes or [*folders, *([beside] if beside else [])]
        libraries = os.pathsep.join(str(self.built / app / "linux-x86_64/lib") for app in apps)
        return subprocess.run(
            [
                str(Path(self.compiler.program).with_name("java")),
                *("-Xcheck:jni", f"-Djava.library.path={_path(folders if natives else [])}"),
                # all of the heap from the start, so that what grows is native
                *("-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch"),
                *("-cp", _path(path)),
                *(main, *map(str, arguments)),
            ],
            env={**os.environ, "LD_LIBRARY_PATH": libraries, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )

    def compile_beside(self, folder: Path, apps: list[str], *sources: Path) -> None:
        """Compiles sources that use the apps' APIs, into `folder`."""
        subprocess.run(
            [
                # short: the second compiler of the JVM would cost more than it saves
                *(self.compiler.program, "-J-XX:TieredStopAtLevel=1", *JAVA_FLAGS),
                *("-cp", _path([self.of(app) for app in apps]), "-d", str(folder)),
                *map(str, sources),
            ],
            check=True,
        )


def _path(folders: list[Path]) -> str:
    return os.pathsep.join(map(str, folders))
