"""Runs one model in one runtime, in a process of its own, and tells what it took as JSON.

    python -m benchmarks.peers.worker RUNTIME FOLDER THREADS OUTPUT [LIBRARY]

`OUTPUT` gets the result's floats. Exit code 3: not measured; the last line says why. Times are
nanoseconds. `load` is bringing the runtime into the process, imports of Python included; `first`
is from there, opening the model, to the end of the first run. `added` is the process's peak of
resident memory less what it had before the runtime: Python, numpy and the input. `model_added` is
the peak from opening the model on, less what the process had then, with the runtime in it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy

from benchmarks.peers.memory import added, peak, resident
from benchmarks.peers.runtimes import Case, NotMeasuredError, runtime_module
from benchmarks.peers.sampling import LEAST, MOST, SECONDS, WARM

NOT_MEASURED: Final = 3


def measure(runtime: str, case: Case, output: Path) -> dict[str, Any]:
    """Open, run, write the result."""
    module = runtime_module(runtime)
    assert case.input is not None  # read here: its bytes are not the runtime's
    base = resident()
    started, started_cpu = time.perf_counter_ns(), time.process_time_ns()
    loaded = module.load(case)
    there, there_cpu = time.perf_counter_ns(), time.process_time_ns()
    loading_peak, with_runtime = peak(), resident()
    opening, opening_cpu = time.perf_counter_ns(), time.process_time_ns()
    opened = module.open(loaded, case)
    opened.run()
    first, first_cpu = time.perf_counter_ns() - opening, time.process_time_ns() - opening_cpu
    output.write_bytes(numpy.ascontiguousarray(opened.output(), numpy.float32).tobytes())
    for _ in range(WARM):
        opened.run()
    wall, cpu = samples(opened.run)
    memory = added(base, loading_peak, with_runtime, peak())
    return {
        "load": there - started,
        "load_cpu": there_cpu - started_cpu,
        "first": first,
        "first_cpu": first_cpu,
        **memory,
        "level": opened.level,
        "wall": wall,
        "cpu": cpu,
    }


def samples(run: Any) -> tuple[list[int], list[int]]:
    """Wall and CPU nanoseconds of run after run."""
    wall: list[int] = []
    cpu: list[int] = []
    end = time.perf_counter() + SECONDS
    while len(wall) < MOST and (len(wall) < LEAST or time.perf_counter() < end):
        at, at_cpu = time.perf_counter_ns(), time.process_time_ns()
        run()
        cpu.append(time.process_time_ns() - at_cpu)
        wall.append(time.perf_counter_ns() - at)
    return wall, cpu


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    runtime, folder, threads, output, *library = arguments
    case = Case(Path(folder), int(threads), Path(library[0]) if library else None)
    try:
        print(json.dumps(measure(runtime, case, Path(output))))
    except NotMeasuredError as error:
        print(error)
        return NOT_MEASURED
    except Exception as error:
        print(f"{type(error).__name__}: {(str(error).strip() or repr(error)).splitlines()[0]}")
        return NOT_MEASURED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
