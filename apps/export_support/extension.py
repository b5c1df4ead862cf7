"""An app's own sources, compiled for this machine's torch: what an export script then calls.

torch must know an operator's schema and a class to compile what uses them; their C++ tells it both.
Needs the machine's C++ compiler (`$CXX`, else `c++`).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.utils.cpp_extension import include_paths, library_paths


def load(app: Path, files: Sequence[str], include: Sequence[str], flags: Sequence[str]) -> None:
    """Compiles the files and loads them, as `sources:` in the app's app.yaml has them.

    files may be patterns, relative to the folder `app`, as `include` is. Raises
    subprocess.CalledProcessError where the compiler fails; its messages are printed.
    """
    sources = [str(path) for pattern in files for path in sorted(app.glob(pattern))]
    folders = [*(str(app / folder) for folder in include), *include_paths()]
    libraries = library_paths()
    with tempfile.TemporaryDirectory(prefix="extension-") as folder:
        library = f"{folder}/own.so"
        command = [os.environ.get("CXX", "c++"), "-shared", "-fPIC", "-std=c++20", "-O1", *flags]
        command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
        command += [f"-I{one}" for one in folders]
        command += [*sources, "-o", library, *(f"-L{one}" for one in libraries)]
        subprocess.run([*command, "-ltorch", "-ltorch_cpu", "-lc10"], check=True)
        # the library stays in memory; its file may go
        torch.ops.load_library(library)
