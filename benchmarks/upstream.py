"""What upstream's own selective build would cost: a sample of its compilations, scaled.

The flags are those of upstream's CMake files for `scripts/build_mobile.sh` with
BUILD_LITE_INTERPRETER=1, TRACING_BASED=1 and a list of operators: `CMakeLists.txt`,
`cmake/Codegen.cmake`, `aten/src/ATen/CMakeLists.txt`, `caffe2/CMakeLists.txt`; XNNPACK and QNNPACK,
which it compiles too, are in `third_party.py`. `DEVIATIONS` are all those that we know of.
Each makes upstream cheaper, or neither, unless it says otherwise.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.processes import Finished, run
from benchmarks.sampling import allocate, every_kth, scale
from benchmarks.third_party import (
    ThirdPartyUnit,
    choose_third_party,
    third_party_counts,
    third_party_units,
)
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.compilers.resolve import ResolvedToolchain, compiler_environment
from orchestrator.pytorch.configure import write_configured_headers
from orchestrator.pytorch.units import GENERATED, UpstreamUnit, upstream_units
from orchestrator.pytorch.versions import VersionData

# Told with the results.
DEVIATIONS: Final = (
    "`-w` in place of its warnings.",
    "`-O2` although CMAKE_BUILD_TYPE=Release puts an `-O3` behind it, also for the units of QNNPACK"
    " that run its operators.",
    "`-DUSE_PTHREADPOOL` only for the units that use the library, so that those which would only"
    " include its header compile without it; our stubs of cpuinfo.h and, for QNNPACK, of four"
    " more headers.",
    "Not counted: Eigen's BLAS (25 units), NNPACK (on by default), pthreadpool, cpuinfo and clog"
    " (some 40 small units in C).",
    "Not counted: what PyTorch's own units compile under USE_XNNPACK and USE_PYTORCH_QNNPACK, such"
    " as registrations of prepacked layers: the XNNPACK here has another interface.",
    "XNNPACK is that of November 2024, not commit ae108ef (February 2022), which PyTorch 1.13.1"
    " pins: a kernel's mean may differ from that commit's either way. Kernels for dynamic"
    " quantisation, for weights of 4 bits and for packing, which came later, are left out. The mean"
    " is scaled to the compilations of ae108ef, whose build compiles every kernel, and those for"
    " production twice: more than 3,000, counted as 3,000. What else it has (35 units of subgraphs"
    " and a JIT in C++ among it) is counted at the mean of XNNPACK's operators, its tables and what"
    " runs them.",
)

# Every family gets at least this part of the sample: small ones vary most (generated units).
_LEAST_PART = 16
# Families of third-party units get this part each: they vary, and cost little.
_THIRD_PARTY_PART = 4

_COMMON = (
    "-fPIC",
    "-ffunction-sections",
    "-fdata-sections",
    "-w",
    "-DNDEBUG",
    "-DMINIZ_DISABLE_ZIP_READER_CRC32_CHECKS",
    "-D_FILE_OFFSET_BITS=64",
    "-DHAVE_MMAP=1",
    "-DHAVE_SHM_OPEN=1",
    "-DHAVE_SHM_UNLINK=1",
    "-DHAVE_MALLOC_USABLE_SIZE=1",
)
_CXX = (
    "-std=gnu++14",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-DC10_MOBILE",
    "-DNO_EXPORT",
    "-DBUILD_LITE_INTERPRETER",
    "-DTRACING_BASED",
    "-DSYMBOLICATE_MOBILE_DEBUG_HANDLE",
    "-DFMT_HEADER_ONLY=1",
)
_TORCH = ("-DTEMPLATE_SELECTIVE_BUILD", "-DAT_PER_OPERATOR_HEADERS")
_KERNELS = ("-DCPU_CAPABILITY=DEFAULT", "-DCPU_CAPABILITY_DEFAULT")
_C10 = ("-fvisibility=hidden",)
_THREADS = ("-DUSE_PTHREADPOOL",)
_THREAD_UNITS = ("caffe2/utils/threadpool/", "aten/src/ATen/ParallelNative.cpp")


@dataclass(frozen=True)
class Compiled:
    """One measured compilation; `why` tells why it could not be compiled here, else it is empty."""

    unit: str
    family: str
    flag: str
    seconds: float
    why: str = ""


def upstream_flags(unit: UpstreamUnit) -> tuple[str, ...]:
    """Upstream's flags for a unit, without include folders."""
    if unit.language == "c":
        return (unit.flag, *_COMMON)
    own = _C10 if unit.family == "c10" else _TORCH
    kernels = _KERNELS if unit.family == "kernels" else ()
    threads = _THREADS if unit.path.startswith(_THREAD_UNITS) else ()
    return (unit.flag, *_COMMON, *_CXX, *own, *kernels, *threads)


def choose(
    units: Iterable[UpstreamUnit], size: Callable[[UpstreamUnit], int], total: int
) -> tuple[UpstreamUnit, ...]:
    """The sample, of at least `total`: in each family, units spread evenly over their sizes."""
    least = max(1, total // _LEAST_PART)
    families: dict[str, list[UpstreamUnit]] = {}
    for unit in sorted(units, key=lambda u: (size(u), u.path)):
        families.setdefault(unit.family, []).append(unit)
    counts = allocate({f: len(members) for f, members in families.items()}, total, least)
    return tuple(
        unit for family in sorted(families) for unit in every_kth(families[family], counts[family])
    )


def selected_operators(lock: str) -> dict[str, Any]:
    """The part of a lock file that is in PyTorch's own format."""
    value: dict[str, Any] = yaml.safe_load(lock)["selected_operators"]
    return value


def first_error(stderr: str) -> str:
    """The compiler's first complaint, without a path of this machine."""
    match = re.search(r"error: (.*)", stderr)
    return match[1] if match else "the compiler failed without a word"


@dataclass(frozen=True)
class Upstream:
    """A set-up copy of what upstream's build would have in its build folder."""

    here: Invocation
    runtime: Runtime
    toolchain: ResolvedToolchain
    folder: Path

    @property
    def tree(self) -> Path:
        return self.runtime.fetched.tree

    @property
    def third_party(self) -> tuple[ThirdPartyUnit, ...]:
        """Units of XNNPACK and QNNPACK."""
        library = self.runtime.library
        assert library, "the runtime pins XNNPACK"
        native = Path(self.runtime.folders["native"])
        return third_party_units(self.tree, library.data, library.trees, native)

    @property
    def include_folders(self) -> tuple[Path, ...]:
        """Selection header and generated headers are in `folder`, configured ones beside them."""
        return (
            self.folder,
            self.folder / "ATen",
            self.folder / "configured",
            self.tree / "aten/src",
            self.tree,
            self.tree / "third_party/miniz-2.1.0",
            self.runtime.generated / "autograd",
            Path(self.runtime.folders["native"]) / "stubs",
            *self.runtime.fetched.third_party.values(),
        )

    def source(self, unit: UpstreamUnit) -> Path:
        """The file of a unit."""
        if not unit.path.startswith(GENERATED):
            return self.tree / unit.path
        name = unit.path.removeprefix(GENERATED)
        if name == "empty.cpp":
            return self.folder / name
        if name.startswith("torch/"):
            return self.runtime.generated / "autograd" / name
        return self.folder / "ATen" / name

    def set_up(self, selections: Sequence[Mapping[str, Any]]) -> float:
        """Write what upstream generates for these selections; returns its CPU seconds.

        selections are in the format of SelectiveBuilder. Raises CommandFailedError.
        """
        (self.folder / "ATen").mkdir(parents=True)
        (self.folder / "empty.cpp").touch()
        version = _with_native_threads(self.runtime.version)
        write_configured_headers(self.tree, version, self.folder / "configured")
        files = []
        for number, selection in enumerate(selections):
            files.append(self.folder / f"model-{number}.yaml")
            files[-1].write_text(yaml.safe_dump(dict(selection)))
        listed = self.folder / "models.txt"
        # it takes the names apart at blanks, of which our folder may have some
        listed.write_text("\n".join(one.name for one in files))
        into = str(self.folder / "ATen")
        lists = self._python(
            "-m tools.code_analyzer.gen_oplist",
            ["--model_file_list_path", f"@{listed}", "--output_dir", into],
            cwd=self.folder,
        )
        sources = self._python(
            "-m torchgen.gen --source-path aten/src/ATen --per-operator-headers"
            " --backend_whitelist CPU QuantizedCPU --generate headers sources",
            ["--op_selection_yaml_path", f"{into}/selected_operators.yaml", "--install_dir", into],
            cwd=self.tree,
        )
        return lists.user_seconds + sources.user_seconds

    def compile(self, unit: UpstreamUnit | ThirdPartyUnit) -> Compiled:
        """Compile one unit as upstream would."""
        if isinstance(unit, ThirdPartyUnit):
            own, folders, source = (unit.flag, *unit.flags), unit.include, unit.source
        else:
            own, folders = upstream_flags(unit), self.include_folders
            source = self.source(unit)
        toolchain = self.toolchain
        compiler = toolchain.cxx if unit.language == "c++" else toolchain.cc
        output = self.folder / (unit.path.replace("/", "_") + ".o")
        includes = [f"-I{folder}" for folder in folders]
        flags = [*toolchain.compile_flags, *own, *includes]
        written = ["-MD", "-MF", f"{output}.d", "-o", str(output)]
        done = run(
            [str(compiler), *flags, *written, "-c", str(source)],
            env=compiler_environment(self.here.context.cache, self.here.context.env),
        )
        output.unlink(missing_ok=True)
        why = first_error(done.stderr) if done.code else ""
        return Compiled(unit.path, unit.family, unit.flag, done.user_seconds, why)

    def _python(self, command: str, arguments: Sequence[str], cwd: Path) -> Finished:
        env = {
            **self.here.context.env,
            "PYTHONPATH": str(self.tree),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        argv = [sys.executable, *command.split(), *arguments]
        return run(argv, env=env, cwd=cwd).require(command.split()[1])


def measure(upstream: Upstream, generated: float, total: int, jobs: int) -> dict[str, Any]:
    """Compile the sample, as many at once as ninja would, and scale it.

    generated: CPU seconds of code generation, told beside the rest and not counted.
    """
    version = upstream.runtime.version
    units = upstream_units(upstream.tree, version)
    others = upstream.third_party
    sample: tuple[UpstreamUnit | ThirdPartyUnit, ...] = (
        *choose(units, lambda u: upstream.source(u).stat().st_size, total),
        *choose_third_party(others, max(1, total // _THIRD_PARTY_PART)),
    )
    with ThreadPoolExecutor(jobs) as pool:
        compiled = tuple(_watched(upstream, sample, pool))
    good = [one for one in compiled if not one.why]
    seconds: dict[str, list[float]] = {}
    for one in good:
        seconds.setdefault(one.family, []).append(one.seconds)
    counts = Counter(unit.family for unit in units) + third_party_counts(others)
    estimate = scale(counts, seconds)
    return {
        "units": counts.total(),
        "deviations": list(DEVIATIONS),
        "seconds": estimate.seconds,
        "standard_error": estimate.error,
        "generation_seconds": generated,
        "families": [asdict(family) for family in estimate.families],
        "flags": {
            "c10": _shown(units, "c10"),
            "kernels": _shown(units, "kernels"),
            "others": _shown(units, "native"),
            **{family: _shown_third_party(others, family) for family in third_party_counts(others)},
        },
        "sample": [asdict(one) for one in good],
        "not_compiled": [asdict(one) for one in compiled if one.why],
    }


def _watched(
    upstream: Upstream, sample: Sequence[UpstreamUnit | ThirdPartyUnit], pool: ThreadPoolExecutor
) -> Iterable[Compiled]:
    for number, one in enumerate(pool.map(upstream.compile, sample), 1):
        told = one.why or f"{one.seconds:.1f} s"
        print(f"  [{number}/{len(sample)}] {one.unit}: {told}", file=sys.stderr, flush=True)
        yield one


def _shown(units: Iterable[UpstreamUnit], family: str) -> str:
    """The flags of a family's C++ units."""
    one = next(u for u in units if u.family == family and u.language == "c++")
    return " ".join(upstream_flags(one))


def _shown_third_party(units: Iterable[ThirdPartyUnit], family: str) -> str:
    """The flags that all of a family's units have, without switches."""
    of_all = [dict.fromkeys((u.flag, *u.flags)) for u in units if u.family == family]
    common = [flag for flag in of_all[0] if all(flag in flags for flags in of_all)]
    told = [flag for flag in common if not flag.startswith("-DXNN_")]
    return " ".join(told)


def _with_native_threads(version: VersionData) -> VersionData:
    """Upstream's own threading for mobile, where ours is serial code."""
    values = {**version.configure.values, "AT_PARALLEL_OPENMP": "0", "AT_PARALLEL_NATIVE": "1"}
    configure = version.configure.model_copy(update={"values": values})
    return version.model_copy(update={"configure": configure})
