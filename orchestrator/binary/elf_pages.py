"""Check that a system with pages of a given size can load a shared library, as its loader sees it.

Contract: `fault` takes an open ELF file and returns the first error that it found, without raising
it: a segment that is aligned to less than a page breaks the other rules too. It reads the program
headers alone, as a loader does: sections may be missing.

A loader maps each PT_LOAD by whole pages, so its address and its offset in the file must have the
same remainder, and two must not share a page. Afterwards it makes PT_GNU_RELRO read-only, again by
whole pages: data behind it in its last page would be read-only too, and crash when it is written
(bionic: linker_phdr.cpp; https://developer.android.com/guide/practices/page-sizes).
"""

from __future__ import annotations

from elftools.elf.elffile import ELFFile

from orchestrator.errors import OrchestratorError


class SmallAlignmentError(OrchestratorError):
    """A segment is aligned to less than the system's page."""


class MisplacedSegmentError(OrchestratorError):
    """A segment's address and its place in the file cannot be mapped by pages of this size."""


class UnalignedRelroError(OrchestratorError):
    """A RELRO segment ends within a page, and writable data follows in that page."""


def fault(elf: ELFFile, page_size: int) -> OrchestratorError | None:
    """Return the first error that a loader would report; None if it loads the library."""
    loads = [_Segment(one) for one in elf.iter_segments("PT_LOAD")]
    relro = [_Segment(one) for one in elf.iter_segments("PT_GNU_RELRO")]
    return (
        _small_alignment(loads, page_size)
        or _misplaced(loads, page_size)
        or _unaligned_relro(relro, loads, page_size)
    )


class _Segment:
    """A program header."""

    def __init__(self, header: object) -> None:
        self.address = int(header["p_vaddr"])  # type: ignore[index]
        self.offset = int(header["p_offset"])  # type: ignore[index]
        self.end = self.address + int(header["p_memsz"])  # type: ignore[index]
        self.align = int(header["p_align"])  # type: ignore[index]


def _small_alignment(loads: list[_Segment], page_size: int) -> OrchestratorError | None:
    least = min((load.align for load in loads), default=0)
    if least >= page_size:
        return None
    return SmallAlignmentError(
        "a segment of the library is aligned to less than a page",
        expected=f"at least {page_size:#x}",
        seen=f"{least:#x}",
        hint=f"link with -Wl,-z,max-page-size={page_size}",
    )


def _misplaced(loads: list[_Segment], page_size: int) -> OrchestratorError | None:
    for load in loads:
        if (load.address - load.offset) % page_size:
            return MisplacedSegmentError(
                "a segment of the library cannot be mapped",
                expected=f"an address and an offset that are equal modulo {page_size:#x}",
                seen=f"address {load.address:#x}, offset {load.offset:#x}",
                hint=f"link with -Wl,-z,max-page-size={page_size}",
            )
    return None


def _unaligned_relro(
    relro: list[_Segment], loads: list[_Segment], page_size: int
) -> OrchestratorError | None:
    for one in relro:
        last = any(load.address <= one.address and load.end == one.end for load in loads)
        if one.end % page_size and not last:
            return UnalignedRelroError(
                "what is made read-only after loading ends within a page",
                expected=f"an end that is a multiple of {page_size:#x}, or that of its segment",
                seen=f"{one.end:#x}",
                hint="link with -Wl,-z,separate-loadable-segments, or with a newer lld",
            )
    return None
