"""What a benchmark with a page of its own leaves: its results for machines, and the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_results(folder: Path, name: str, results: Mapping[str, Any], page: str) -> None:
    """Write `<name>.json` and `<NAME>.md`, and print the page. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / f"{name.upper()}.md").write_text(page)
    print(page)
