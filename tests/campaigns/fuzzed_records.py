"""What fuzzing's tests and their programs agree on."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
# Between the records of a model, whose archive the target writes: to damage its checksums finds
# nothing.
SEPARATOR: Final = b"\xf7REC"
RECORDS: Final = ("bytecode.pkl", "data.pkl", "data/0")
# The lock that damaged ones begin with.
LOCK: Final = ROOT / "apps/camera/traces/classifier.yaml"
