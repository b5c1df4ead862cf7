"""The rules that a delivered library must satisfy: those of its system's loader and app stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from orchestrator.binary import elf, macho
from orchestrator.build.planning.selected import require_held
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.native import NATIVE
from orchestrator.compilers.relink import EXPORTED
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.deliver.rules import shared_library_rules, static_library_rules
from orchestrator.deliver.variant import Delivered
from orchestrator.errors import OrchestratorError, Place
from orchestrator.plan.flags import checks_calls, guards_stack
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.platform import SharedLibrary, StaticLibrary
from orchestrator.values.labels import VariantLabel


class NotForReleaseError(OrchestratorError):
    """A release was requested of variants that must not ship."""


def require_releasable(here: Invocation, labels: Sequence[VariantLabel]) -> None:
    """Raises NotForReleaseError for the variants whose toolchain is the stub sysroot's."""
    found = [label for label in labels if not here.toolchains.of(label.abi).for_release]
    if not found:
        return
    toolchain = here.toolchains.of(found[0].abi)
    stub = toolchain.driver.stub
    assert stub is not None
    raise NotForReleaseError(
        f"{found[0]} must not be released",
        place=toolchain.place,
        expected=stub.expected,
        seen=stub.seen,
        hint=stub.hint,
        details="\n".join(["also:", *map(str, found[1:])]) if found[1:] else None,
    )


def check_library(
    toolchain: ResolvedToolchain, delivered: Delivered, *, extensible: bool = False
) -> None:
    """Raises the first rule of a shipped library that the delivered one breaks, or
    OtherSelectionError.

    extensible: whether it may export what add-ons take
    """
    config, driver, manifest = toolchain.config, toolchain.driver, delivered.manifest
    content = delivered.shared_library.read_bytes()
    require_held(
        manifest.selection_digest, content.__contains__, Place(str(delivered.shared_library))
    )
    header = (NATIVE / "capi/libtorch_app.h").read_text(encoding="utf-8")
    canaries = guards_stack(config.compile_flags)
    library = PLATFORMS[config.system].library
    if isinstance(library, StaticLibrary):
        assert driver.minimum is not None
        static = static_library_rules(manifest, header, minimum=driver.minimum, canaries=canaries)
        macho.check(delivered.shared_library, static)
    elif isinstance(library, SharedLibrary):
        shared = shared_library_rules(
            manifest,
            library,
            header,
            c_library=driver.c_library,
            holds_cxx_library=driver.links_cxx_library,
            canaries=canaries,
            checked=driver.c_library in library.checked and checks_calls(config.compile_flags),
            symbols=delivered.folder / "symbols" / f"{delivered.shared_library.name}.debug",
            besides=EXPORTED if extensible else None,
        )
        elf.check(delivered.shared_library, shared)
    else:
        assert_never(library)
