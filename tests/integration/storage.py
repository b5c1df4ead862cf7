"""An HTTP server that keeps what it is given, as ccache's HTTP storage wants it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fanout import ANYWHERE


class Storage(ThreadingHTTPServer):
    """GET, HEAD, PUT and DELETE of bytes by path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((ANYWHERE, 0), _Handler)
        self.kept: dict[str, bytes] = {}

    @property
    def url(self) -> str:
        return f"http://{ANYWHERE}:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Storage

    def do_PUT(self) -> None:
        self.server.kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(201)

    def do_GET(self) -> None:
        value = self.server.kept.get(self.path)
        self._answer(200 if value is not None else 404, value or b"")

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        self._answer(200 if self.server.kept.pop(self.path, None) is not None else 404)

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def http_storage() -> Iterator[Storage]:
    """The server, until the end of the block."""
    with Storage() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
