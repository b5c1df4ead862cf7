"""The rules that a delivered library is held to: those of its system's loader and stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.binary import elf, macho
from orchestrator.build.prepare import NATIVE
from orchestrator.build.session import Session
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.deliver.headers import api_functions
from orchestrator.deliver.variant import Delivered
from orchestrator.errors import OrchestratorError
from orchestrator.packagers import aar
from orchestrator.plan.flags import guards_stack
from orchestrator.values.labels import Label


class NotForReleaseError(OrchestratorError):
    """A release was asked for, of variants that must not be shipped."""


def require_releasable(session: Session, labels: Sequence[Label]) -> None:
    """Raises NotForReleaseError for the variants whose toolchain is a stand-in."""
    found = [label for label in labels if not session.toolchain(str(label.abi)).for_release]
    if not found:
        return
    toolchain = session.toolchain(str(found[0].abi))
    raise NotForReleaseError(
        f"{found[0]} must not be released",
        place=toolchain.place,
        expected="an Android NDK",
        seen="neither ANDROID_NDK_HOME nor ANDROID_NDK_ROOT is set, so that a stand-in compiles it",
        hint="set ANDROID_NDK_HOME to the folder of an NDK, or build without --release",
        details="\n".join(["also:", *map(str, found[1:])]) if found[1:] else None,
    )


def check_library(toolchain: ResolvedToolchain, delivered: Delivered) -> None:
    """Raises the first rule of a shipped library that the delivered one breaks."""
    config, manifest = toolchain.config, delivered.manifest
    header = (NATIVE / "capi/libtorch_app.h").read_text()
    canaries = guards_stack(config.compile_flags)
    symbols = delivered.folder / "symbols" / f"{delivered.shared_library.name}.debug"
    if config.compiler.xcode is not None:
        minimum = config.compiler.xcode.minimum
        exports = api_functions(header)
        wanted = macho.MachoRules(config.system, config.processor, minimum, exports, canaries)
        macho.check(delivered.shared_library, wanted)
    elif config.system == "android":
        rules = aar.rules(manifest, header, canaries=canaries)
        elf.check(delivered.shared_library, replace(rules, symbols=symbols))
    else:
        rules = elf.ElfRules(
            soname=f"lib{manifest.app}_torch.so",
            processor=config.processor,
            exports=api_functions(header),
            system_libraries=elf.SYSTEM_LIBRARIES[f"linux-{toolchain.driver.c_library}"]
            | (frozenset() if toolchain.driver.links_cxx_library else elf.CXX_LIBRARIES),
            canaries=canaries,
            symbols=symbols,
        )
        elf.check(delivered.shared_library, rules)
