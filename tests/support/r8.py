"""R8, the shrinker of Android's release builds. No package index has it alone; a wheel of another
tool holds it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from wheels import from_wheel

WHEEL = (
    "mobsf==3.7.6 --hash=sha256:cc412383b20d19720b9a28cdcab59b92fa476a555d6157c5db2cac3aee2eac2f"
)
JAR = "mobsf/StaticAnalyzer/tools/jadx/lib/r8-3.3.75.jar"


def shrink(java: Path, program: Path, library: Path, rules: str, folder: Path) -> Path:
    """A jar with what R8 leaves of a program's classes: in full mode, as class files.

    library: classes that the system has beside Java's own; rules: what is kept
    """
    kept, out = folder / "rules.pro", folder / "release.jar"
    kept.write_text(rules)
    argv: Sequence[str | Path] = [
        # short: the second compiler of the JVM would cost more than it saves
        *(java, "-XX:TieredStopAtLevel=1", "-cp", from_wheel(WHEEL, JAR) / JAR),
        *("com.android.tools.r8.R8", "--classfile", "--release"),
        *("--lib", java.resolve().parents[1], "--lib", library),
        *("--pg-conf", kept, "--output", out, program),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out
