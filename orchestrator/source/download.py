"""Gets a source archive from a URL, as curl would: streamed, bounded, its digest checked.

The digest alone decides whether the archive is the right one, so `http` is as good as `https`.
Proxies are those of the environment (`https_proxy`, `no_proxy`).
"""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from orchestrator.source.members import MAX_BYTES
from orchestrator.source.unpack import ArchiveMismatchError
from orchestrator.system.process import SourceUnavailableError
from orchestrator.values.config.workspace import ArchiveSource

# The connection counts as dead after so long without a byte.
_STALLED_SECONDS: Final = 30.0
_CHUNK: Final = 2**18


def download(
    source: ArchiveSource, folder: Path, env: Mapping[str, str], progress: Callable[[str], None]
) -> Path:
    """The archive, in `folder`.

    Raises `SourceUnavailableError`, `ArchiveMismatchError`, and the disk's `OSError`.
    """
    target = folder / "archive"
    progress(f"downloading {shown(source.url)}")
    seen = hashlib.sha256()
    with target.open("wb") as out, closing(_read(source.url, env)) as chunks:
        for chunk in chunks:
            seen.update(chunk)
            out.write(chunk)
            if out.tell() > MAX_BYTES:
                raise SourceUnavailableError(
                    f"{shown(source.url)} is larger than {MAX_BYTES:,} bytes"
                )
    if seen.hexdigest() != source.sha256:
        raise ArchiveMismatchError(
            f"{shown(source.url)}: the downloaded archive does not match the pinned digest",
            expected=f"sha256 {source.sha256}",
            seen=f"sha256 {seen.hexdigest()}",
            hint="check the pin in WORKSPACE; if it is right, do not use this URL",
        )
    return target


def shown(url: str) -> str:
    """A URL as it is printed: without a query, which may hold a token."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def _read(url: str, env: Mapping[str, str]) -> Generator[bytes, None, None]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(_proxies(url, env)))
    request = urllib.request.Request(url, headers={"User-Agent": "libtorch-orchestrator"})
    try:
        with opener.open(request, timeout=_STALLED_SECONDS) as answer:
            yield from iter(partial(answer.read, _CHUNK), b"")
            if answer.length:  # what the header promised and did not come
                raise SourceUnavailableError(f"{shown(url)}: ended {answer.length:,} bytes early")
    except urllib.error.HTTPError as error:
        error.close()
        raise SourceUnavailableError(f"{shown(url)}: HTTP {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise SourceUnavailableError(f"{shown(url)}: {error.reason}") from error
    # A connection that breaks, or violates the protocol, in the middle; the disk's errors are
    # raised where the bytes are written.
    except (OSError, http.client.HTTPException) as error:
        raise SourceUnavailableError(f"{shown(url)}: {error or type(error).__name__}") from error


def _proxies(url: str, env: Mapping[str, str]) -> dict[str, str]:
    """Scheme -> proxy, by the variables that curl reads; none for a host of `no_proxy`."""
    named = {name.lower(): value for name, value in env.items() if name.lower().endswith("_proxy")}
    host = urlsplit(url).hostname or ""
    excepted = [one.strip().lstrip(".") for one in named.get("no_proxy", "").split(",")]
    if any(one == "*" or (one and f".{host}".endswith(f".{one}")) for one in excepted):
        return {}
    proxies = {scheme: named.get(f"{scheme}_proxy", "") for scheme in ("http", "https")}
    return {scheme: proxy for scheme, proxy in proxies.items() if proxy}
