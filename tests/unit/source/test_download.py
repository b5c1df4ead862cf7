"""Archives by their URL, from a real HTTP server on this machine."""

from __future__ import annotations

import hashlib
import io
import socket
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pydantic import ValidationError

from orchestrator.errors import OrchestratorError
from orchestrator.source import download as downloads
from orchestrator.source.download import download
from orchestrator.source.unpack import unpack
from orchestrator.system.process import SourceUnavailableError
from orchestrator.values.config.workspace import ArchiveSource


def packed(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


ARCHIVE = packed({"tool-1.0/LICENSE": "free\n", "tool-1.0/src/a.cpp": "int a;\n"})


class Answers(BaseHTTPRequestHandler):
    """What a server may do with a request, by its path."""

    seen: list[str]

    def do_GET(self) -> None:
        Answers.seen.append(self.path)
        path = self.path.partition("?")[0]
        if path == "/moved.tar.gz":
            self.send_response(302)
            self.send_header("Location", "/tool.tar.gz")
            self.end_headers()
        elif path == "/silent.tar.gz":
            self.connection.close()
        elif path in ("/tool.tar.gz", "/short.tar.gz") or path.startswith("http://"):
            self.send_response(200)
            more = 100 if path == "/short.tar.gz" else 0
            self.send_header("Content-Length", str(len(ARCHIVE) + more))
            self.end_headers()
            self.wfile.write(ARCHIVE)
        else:
            self.send_error(404)

    def log_message(self, format: str, *arguments: object) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    Answers.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


def source(url: str, data: bytes = ARCHIVE) -> ArchiveSource:
    return ArchiveSource(url=url, sha256=hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize("name", ["tool.tar.gz", "moved.tar.gz", "tool.tar.gz?token=secret"])
def test_an_archive(server: str, tmp_path: Path, name: str) -> None:
    said: list[str] = []
    archive = download(source(f"{server}/{name}"), tmp_path, {}, said.append)
    assert archive.read_bytes() == ARCHIVE
    assert said == [f"downloading {server}/{name.partition('?')[0]}"]
    (tmp_path / "into").mkdir()
    unpack(archive, tmp_path / "into")
    assert (tmp_path / "into/src/a.cpp").read_text() == "int a;\n"


def test_another_archive(server: str, tmp_path: Path) -> None:
    with pytest.raises(OrchestratorError) as caught:
        download(source(f"{server}/tool.tar.gz", b"other"), tmp_path, {}, print)
    assert caught.value.render() == (
        f"error: {server}/tool.tar.gz: the downloaded archive does not match the pinned digest\n"
        f"  expected: sha256 {hashlib.sha256(b'other').hexdigest()}\n"
        f"  seen:     sha256 {hashlib.sha256(ARCHIVE).hexdigest()}\n"
        "  do:       check the pin in WORKSPACE; if it is right, do not use this URL"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gone.tar.gz", "HTTP 404 Not Found"),
        ("short.tar.gz", "ended 100 bytes early"),
        ("silent.tar.gz", "Remote end closed connection without response"),
    ],
)
def test_what_fails_is_a_reason_to_try_the_next(
    server: str, tmp_path: Path, name: str, reason: str
) -> None:
    with pytest.raises(SourceUnavailableError) as caught:
        download(source(f"{server}/{name}"), tmp_path, {}, print)
    assert str(caught.value) == f"{server}/{name}: {reason}"


def test_no_server(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/a.tar.gz"
    with pytest.raises(SourceUnavailableError, match="Connection refused"):
        download(source(url), tmp_path, {}, print)


def test_too_large(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "MAX_BYTES", 10)
    with pytest.raises(SourceUnavailableError, match="is larger than 10 bytes"):
        download(source(f"{server}/tool.tar.gz"), tmp_path, {}, print)


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({}, ["http://example.invalid/a.tar.gz"]),
        ({"no_proxy": "localhost,example.invalid"}, []),
        ({"NO_PROXY": ".invalid"}, []),
        ({"no_proxy": "ample.invalid"}, ["http://example.invalid/a.tar.gz"]),
    ],
)
def test_a_proxy(server: str, tmp_path: Path, more: dict[str, str], asked: list[str]) -> None:
    wanted = source("http://example.invalid/a.tar.gz")
    if asked:
        assert download(wanted, tmp_path, {"http_proxy": server, **more}, print).is_file()
    else:
        with pytest.raises(SourceUnavailableError):
            download(wanted, tmp_path, {"http_proxy": server, **more}, print)
    assert Answers.seen == asked


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://host/a.tar.gz",
        "https://user:word@host/a.tar.gz",
        "https://host",
        "https://host/a b",
        "https://host/a\n",
    ],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ValidationError):
        source(url)
