"""The tars in packages, against the standard library's."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from orchestrator.deliver.files import EPOCH, File
from orchestrator.packagers.archives import write_tar


def test_a_tar_is_byte_for_byte_as_the_standard_library_writes_it(tmp_path: Path) -> None:
    """Names of up to 100 bytes are in the header, longer ones before it; contents fill blocks."""
    copied = tmp_path / "copied"
    # more than is read at once
    copied.write_bytes(bytes(range(256)) * 5000)
    files = [
        File("lib/liba.so", b"\x7fELF", executable=True),
        File("lib/core.a", copied),
        File("empty", b""),
        File("block", b"x" * 512),
        *(File(f"share/{'n' * (length - 8)}", b"-") for length in (99, 100, 101, 255, 256)),
        File(f"share/{'ü' * 60}/{'m' * 30}", b"of a long name in two bytes each"),
        File("share/\udcff", b"no UTF-8"),
    ]
    for prefix in ("./", "nn/"):
        ours = io.BytesIO()
        write_tar(ours, files[::-1], prefix)
        assert ours.getvalue() == _by_the_standard_library(files, prefix)


def _by_the_standard_library(files: list[File], prefix: str) -> bytes:
    entries: dict[str, File | None] = {file.path: file for file in files}
    for file in files:
        entries |= {str(p): None for p in PurePosixPath(file.path).parents if str(p) != "."}
    stream = io.BytesIO()
    with tarfile.open(
        fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT, encoding="utf-8"
    ) as tar:
        for path, file in sorted({"": None, **entries}.items(), key=lambda entry: entry[0]):
            entry = tarfile.TarInfo(prefix + path)
            entry.mtime = EPOCH
            entry.uname = entry.gname = "root"
            content = b""
            if file is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            else:
                source = file.content
                content = source.read_bytes() if isinstance(source, Path) else source
                entry.mode, entry.size = file.mode, len(content)
            tar.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "core.a"
    path.write_bytes(b"12345")

    class Cut(File):
        def size(self) -> int:
            return 6

    with pytest.raises(OSError, match="became shorter while it was packed: "):
        write_tar(io.BytesIO(), [Cut("lib/core.a", path)], "./")
