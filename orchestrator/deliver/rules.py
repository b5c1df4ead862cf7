"""The rules for a delivered library, by platform, for the checks in `binary`.

`header` is the text of libtorch_app.h; `canaries` is whether functions must have stack protectors,
`checked` whether calls to the C library must be checked.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Final

from orchestrator.binary.elf import ElfRules
from orchestrator.binary.macho import MachoRules
from orchestrator.deliver.headers import api_functions
from orchestrator.deliver.manifest import Manifest
from orchestrator.platforms.platform import CLibrary, SharedLibrary

# What the names begin with that a library exports for add-ons (compilers/relink.py).
FOR_ADDONS: Final = "l_"


def shared_library_rules(
    manifest: Manifest,
    library: SharedLibrary,
    header: str,
    *,
    c_library: CLibrary,
    holds_cxx_library: bool,
    canaries: bool = False,
    checked: bool = False,
    symbols: Path | None = None,
    besides: str | None = None,
) -> ElfRules:
    """The rules for a shared library; `symbols` were stripped off it, if available. `besides` is
    the prefix of the names that it exports for add-ons."""
    system = library.system_libraries[c_library]
    return ElfRules(
        soname=PurePosixPath(manifest.library.file).name,
        processor=manifest.processor,
        exports=api_functions(header) | library.exports,
        system_libraries=system if holds_cxx_library else system | library.cxx_libraries,
        page_size=library.page_sizes[manifest.processor],
        relocated=library.relocated,
        canaries=canaries,
        checked=checked,
        symbols=symbols,
        besides=besides,
    )


def static_library_rules(
    manifest: Manifest, header: str, *, minimum: str, canaries: bool = False
) -> MachoRules:
    """Rules for every member of a static library; `minimum` is the least version of the system."""
    exports = api_functions(header)
    return MachoRules(manifest.system, manifest.processor, minimum, exports, canaries)
