"""`toolchains/<abi>.yaml` as a value: the compiler for an ABI, and how its programs run."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Discriminator, Field, Tag

from orchestrator.values.config.forms import (
    ABSOLUTE,
    DEBIAN,
    TARGET,
    VERSION,
    AbiName,
    Declared,
    Example,
    Expected,
    Line,
    OneOf,
    Text,
    Tuple,
    one_line,
)

System = Literal["linux", "android", "ios", "ios-simulator"]
Processor = Literal["x86_64", "arm64", "armv7"]
ObjectFormat = Literal["elf", "macho"]
CompilerKind = Literal["zig", "command", "ndk", "xcode"]


def _kind_of_run(value: Any) -> str:
    return "command" if isinstance(value, dict | Emulator) else "word"


class ZigCompiler(Declared):
    """The clang and lld inside PyPI's ziglang."""

    target: str = Field(
        pattern=TARGET, description="zig's target, such as `x86_64-linux-gnu.2.28`."
    )


class CommandCompiler(Declared):
    """Compilers installed on this machine, by name or path."""

    cxx: Annotated[Text, Expected("the name or path of a C++ compiler")] = Field(
        description="The C++ compiler."
    )
    cc: Annotated[Text, Expected("the name or path of a C compiler")] = Field(
        description="The C compiler."
    )
    ar: Text | None = Field(None, description="The archiver; default: `ar`.")


class NdkCompiler(Declared):
    """The Android NDK at ANDROID_NDK_HOME or ANDROID_NDK_ROOT."""

    api: Annotated[int, Expected("an Android API level, 21 or higher")] = Field(
        ge=21, description="The minimum Android API level (minSdk)."
    )
    stl: Literal["c++_static", "c++_shared"] = Field(
        "c++_static", description="libc++ linked into the library, or delivered next to it."
    )
    shim: bool = Field(
        False,
        description="Without an NDK, build against a stub sysroot. Such libraries must not ship.",
    )


class XcodeCompiler(Declared):
    """Xcode through `xcrun`; zig with Darwin headers where there is none."""

    sdk: str = Field(
        pattern=TARGET, description="The SDK's name for xcrun: `iphoneos`, `iphonesimulator`."
    )
    minimum: str = Field(pattern=VERSION, description="The minimum iOS version, such as `15.0`.")


class Compiler(OneOf):
    """The compiler and linker of a toolchain."""

    zig: ZigCompiler | None = Field(None, description="PyPI's ziglang.")
    command: CommandCompiler | None = Field(None, description="Compilers of this machine.")
    ndk: NdkCompiler | None = Field(None, description="The Android NDK.")
    xcode: XcodeCompiler | None = Field(None, description="Xcode.")

    @property
    def kind(self) -> CompilerKind:
        """The key that is given."""
        kinds: tuple[CompilerKind, ...] = get_args(CompilerKind)
        return next(kind for kind in kinds if getattr(self, kind) is not None)


class Emulator(Declared):
    """An emulator command that runs binaries of this ABI on the build machine."""

    emulator: Annotated[Tuple[Text], Expected("a list: a program and its arguments")] = Field(
        min_length=1,
        description="Its argument list: a program, and its arguments; `$sysroot` is filled in.",
    )
    sysroot: (
        Annotated[str, Field(pattern=ABSOLUTE, max_length=4096), AfterValidator(one_line)] | None
    ) = Field(
        None,
        description=(
            "The value of `$sysroot`: the folder of the ABI's C library, searched for on this"
            " machine, then in the files of the Debian packages."
        ),
    )
    debian: Tuple[Annotated[str, Field(pattern=DEBIAN)]] = Field(
        (),
        description=(
            "Debian packages with the libraries and the program, `name` or `name:architecture`: got"
            " through the apt client, without root, until the binaries run."
        ),
    )


Run = Annotated[
    Annotated[Literal["native", "none"], Tag("word")] | Annotated[Emulator, Tag("command")],
    Discriminator(_kind_of_run),
]


class ToolchainConfig(Declared):
    """The file toolchains/<abi>.yaml."""

    abi: AbiName = Field(description="The ABI's name: the file's name without .yaml.")
    system: System = Field(description="The operating system.")
    processor: Processor = Field(description="The processor.")
    format: ObjectFormat = Field(description="The object format.")
    compiler: Annotated[
        Compiler,
        Expected("one of zig, command, ndk, xcode"),
        Example("{zig: {target: x86_64-linux-gnu.2.28}}"),
    ] = Field(description="The compiler and linker.")
    compile_flags: Tuple[Line] = Field((), description="Flags of every compilation.")
    link_flags: Tuple[Line] = Field((), description="Flags of every link.")
    run: Annotated[Run, Expected("native, none or a mapping with `emulator`")] = Field(
        description="How its binaries run on the build machine: native, an emulator, or not at all."
    )


class ToolchainGroup(Declared):
    """A file toolchains/<name>.yaml that stands for several others, as one target."""

    abi: AbiName = Field(description="The target's name: the file's name without .yaml.")
    members: Annotated[Tuple[AbiName], Expected("a list of ABIs")] = Field(
        min_length=1, description="The ABIs in the group: names of other toolchains."
    )
