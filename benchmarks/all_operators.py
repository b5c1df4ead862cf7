"""The library of all operators and all dtypes: what sizes are compared with.

    .venv/bin/python -m benchmarks.all_operators [--abi linux-x86_64] [--optimize size] [--jobs N]

Compiles what the user's cache does not hold yet (about 35 CPU minutes from an empty one), links
the shared library as `build` links an app's, strips it, and prints the number for
`all_operators_bytes` in the version's facts.yaml. With `balanced` no unit
is hot, as none of its kernels is more in use than another.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

from orchestrator.binary.elf_strip import split
from orchestrator.build.executing.execute import execute_linked
from orchestrator.build.planning.links import variant_links
from orchestrator.build.planning.variants import VariantRequest, plan_all
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.cli import make_context
from orchestrator.commands.views import progress_view, stderr_logger
from orchestrator.errors import OrchestratorError
from orchestrator.select.policy import everything
from orchestrator.system.workspace_lock import workspace_lock
from orchestrator.values.config.forms import Optimize
from orchestrator.values.packages import library_name

_NAME = "all_operators"


def measure_all_operators(
    here: Invocation, runtime: Runtime, abi: str, optimize: Optimize, jobs: int | None
) -> int:
    """Bytes of the stripped shared library. Raises ActionFailedError."""
    request = VariantRequest(
        abi=abi,
        selection=everything(runtime.index, runtime.kernels),
        kernels=runtime.kernels,
        purpose="release",
        optimize=optimize,
    )
    prepared = here.prepare(runtime, [abi])
    objects = plan_all(prepared, {_NAME: request})[_NAME]
    links = variant_links(prepared, _NAME, objects)
    # the operators of backends that are not built (MKL-DNN) refer to what no unit defines
    flags = ("-Wl,-z,undefs" if flag == "-Wl,-z,defs" else flag for flag in links.shared.flags)
    shared = replace(links.shared, flags=tuple(flags))
    execute_linked(
        here,
        objects,
        [shared, *links.cxx_library],
        (),
        name="all-operators",
        jobs=jobs,
        view=progress_view(False),
    )
    library = Path(runtime.fill(shared.output))
    return len(split(library.read_bytes(), f"lib{library_name(_NAME)}.so.debug").stripped)


def main(arguments: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.all_operators")
    parser.add_argument("--abi", default="linux-x86_64")
    parser.add_argument("--optimize", choices=get_args(Optimize), default="size")
    parser.add_argument("--jobs", type=int)
    chosen = parser.parse_args(arguments)
    root = str(Path(__file__).parent.parent)
    context = make_context(argparse.Namespace(workspace=root), os.environ, Path.cwd())
    log = stderr_logger(False)
    here = load(context, log)
    try:
        runtime = here.runtimes.default
        with workspace_lock(context.state, True, log, "all-operators"):
            size = measure_all_operators(here, runtime, chosen.abi, chosen.optimize, chosen.jobs)
    except OrchestratorError as error:
        print(error.render(), file=sys.stderr)
        return 1
    print(f"{chosen.abi}: {{{chosen.optimize}: {size}}}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
