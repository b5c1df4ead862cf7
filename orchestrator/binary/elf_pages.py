"""Check that a system with pages of a given size can load a shared library, as its loader sees it.

Contract: `fault` takes an open ELF file and returns the first error that it found, without raising
it: a segment that is aligned to less than a page breaks the other rules too. It reads the program
headers alone, as a loader does: sections may be missing, and a file may come from anywhere. So it
does not ask pyelftools for segments, which looks through all sections for each dynamic one.

A loader maps each PT_LOAD by whole pages, so its address and its offset in the file must have the
same remainder, and two must not share a page. Afterwards it makes PT_GNU_RELRO read-only, again by
whole pages: data behind it in its last page would be read-only too, and crash when it is written
(bionic: linker_phdr.cpp; https://developer.android.com/guide/practices/page-sizes).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from elftools.common.utils import struct_parse
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
    segments = list(_segments(elf))
    loads = [one for one in segments if one.kind == "PT_LOAD"]
    relro = [one for one in segments if one.kind == "PT_GNU_RELRO"]
    return (
        _small_alignment(loads, page_size)
        or _misplaced(loads, page_size)
        or _shared_page(loads, page_size)
        or _unaligned_relro(relro, loads, page_size)
    )


class _Segment:
    """A program header."""

    def __init__(self, header: Mapping[str, int | str]) -> None:
        self.kind = header["p_type"]
        self.address = int(header["p_vaddr"])
        self.offset = int(header["p_offset"])
        self.end = self.address + int(header["p_memsz"])
        self.align = int(header["p_align"])


def _segments(elf: ELFFile) -> Iterator[_Segment]:
    for number in range(int(elf["e_phnum"])):
        place = elf["e_phoff"] + number * elf["e_phentsize"]
        yield _Segment(struct_parse(elf.structs.Elf_Phdr, elf.stream, place))


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


def _shared_page(loads: list[_Segment], page_size: int) -> OrchestratorError | None:
    ordered = sorted(loads, key=lambda load: load.address)
    for before, load in pairwise(ordered):
        if load.address // page_size * page_size < before.end:
            return MisplacedSegmentError(
                "two segments of the library share a page",
                expected=f"each in pages of its own, of {page_size:#x}",
                seen=f"an end at {before.end:#x}, and a beginning at {load.address:#x}",
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
