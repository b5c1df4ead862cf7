"""The licences of a variant: of PyTorch's parts by its units, of the toolchain's by symbols."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path

import notices
import package_toy as toy
import pytest
from core_toy import this_checkout
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from zig_tool import zig

from orchestrator.build.delivering.licences import (
    held_parts,
    licences,
    of_linked,
    source_of,
    source_of_app,
)
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.compilers.driver import LinkedPart
from orchestrator.compilers.registry import COMPILERS
from orchestrator.compilers.zig_cxx import LINK_FLAGS
from orchestrator.deliver.variant import Licence
from orchestrator.errors import Place
from orchestrator.load.workspace import load_workspace
from orchestrator.pytorch.units import runtime_units
from orchestrator.pytorch.versions import LicenceRule
from orchestrator.source.tree import TreeRules
from orchestrator.system.process import LOCAL
from orchestrator.values.config.toolchain import ToolchainConfig
from orchestrator.values.own_sources import OwnSources

RUNTIMES = ("pytorch_1_13", "pytorch_2_6")
GNU = "x86_64-linux-gnu.2.28"
MUSL = "aarch64-linux-musl"
CACHE = load_workspace(toy.ROOT, os.environ).cache


def parts(target: str) -> dict[str, LinkedPart]:
    declared = {
        **{"abi": "toy", "system": "linux", "processor": "x86_64", "format": "elf", "run": "none"},
        "compiler": {"zig": {"target": target}},
    }
    config = ToolchainConfig.model_validate(declared)
    driver = COMPILERS["zig"].find(config, Place("here"), CACHE, os.environ, LOCAL)
    return {part.name: part for part in driver.linked}


def names(rules: object) -> list[str]:
    return [rule.component for rule in rules]  # type: ignore[attr-defined]


# In headers that all of PyTorch reads, and that are delivered.
EVERYWHERE = {
    "pytorch_1_13": [
        *(
            "PyTorch",
            "llvm-adt",
            "libstdc++",
            "flat_hash_map",
            "mpark-variant",
            "akrzemi1-optional",
        ),
        *("rollbear-strong_type", "boost-hash", "mt19937ar-cok"),
    ],
    "pytorch_2_6": [
        *("PyTorch", "llvm-adt", "flat_hash_map", "rollbear-strong_type", "boost-hash"),
        "mt19937ar-cok",
    ],
}
IN_KERNELS = [
    *("antelope_contrib-erfinv", "cephes", "scipy", "boost-lanczos", "faddeeva", "musl-nextafter"),
]
# Files with another's notice that no variant is made of, and why.
NOT_HELD = {
    "pytorch_1_13": {
        "aten/src/ATen/mps/MPSDevice.h": "read for Apple's GPUs alone; we have no unit of theirs",
        "aten/src/ATen/native/mps/Copy.h": "the same",
        "aten/src/ATen/native/cpu/avx_mathfun.h": "empty without AVX2 (plan/flags.py)",
        "c10/util/C++17.h": "five lines of cppreference.com's; no licence is named",
        "c10/util/either.h": "given to PyTorch by its author, under PyTorch's licence",
    },
    "pytorch_2_6": {
        "aten/src/ATen/mps/MPSDevice.h": "read for Apple's GPUs alone; we have no unit of theirs",
        "aten/src/ATen/mps/MPSGeneratorImpl.h": "the same",
        "aten/src/ATen/native/mps/Copy.h": "the same",
        "aten/src/ATen/detail/MPSHooksInterface.h": "PyTorch's own",
        "aten/src/ATen/detail/MPSHooksInterface.cpp": "PyTorch's own",
        "c10/util/ApproximateClock.h": "PyTorch's own",
        "aten/src/ATen/native/cpu/UpSampleKernelAVXAntialias.h": "empty without AVX2",
        "aten/src/ATen/native/cpu/avx_mathfun.h": "empty without AVX2 (plan/flags.py)",
    },
}


@cache
def here() -> Invocation:
    return this_checkout()


def of(runtime: str) -> Runtime:
    return here().runtimes.on(runtime)


def rules_of(runtime: str) -> Sequence[LicenceRule]:
    return of(runtime).version.licences


@cache
def read_files(runtime: str) -> notices.ReadFiles:
    return notices.ReadFiles(of(runtime))


every_runtime = pytest.mark.parametrize("runtime", RUNTIMES)


@pytest.mark.parametrize(("runtime", "miniz"), list(zip(RUNTIMES, ("2.1.0", "3.0.2"), strict=True)))
def test_the_parts_are_those_of_the_units(runtime: str, miniz: str) -> None:
    def parts_of(unit: str) -> list[str]:
        return names(held_parts(rules_of(runtime), [unit]))

    def held(unit: str) -> list[str]:
        found = parts_of(unit)
        assert found[0] == "PyTorch"
        return sorted(set(found) - set(EVERYWHERE[runtime]))

    assert set(parts_of("c10/core/Device.cpp")) == set(EVERYWHERE[runtime])
    assert held(f"third_party/miniz-{miniz}/miniz.c") == ["miniz"]
    assert held("c10/util/signal_handler.cpp") == ["fmt"]
    assert held("aten/src/ATen/native/cpu/SoftMaxKernel.cpp") == sorted(IN_KERNELS)
    assert held("torch/csrc/jit/frontend/strtod.cpp") == ["julia-strtod"]
    qnnpack = "aten/src/ATen/native/quantized/cpu/qnnpack/src/init.c"
    assert held(qnnpack) == sorted(["QNNPACK", *IN_KERNELS])


@every_runtime
def test_a_part_is_held_by_all_units_that_read_its_files(runtime: str) -> None:
    read = read_files(runtime)
    for rule in rules_of(runtime):
        of_part, holding = TreeRules(rule.files), TreeRules(rule.units)
        files = [path for path in read.files if of_part.counts(path)]
        assert bool(files) == bool(rule.files), rule.component
        readers = {unit for path in files for unit in read.readers(path)}
        assert [unit for unit in sorted(readers) if not holding.counts(unit)] == [], rule.component


@every_runtime
def test_every_file_with_anothers_notice_is_of_a_part(runtime: str) -> None:
    parts = [TreeRules(rule.files) for rule in rules_of(runtime) if rule.files]
    noticed = read_files(runtime).noticed()
    unknown = {path for path in noticed if not any(part.counts(path) for part in parts)}
    assert unknown == set(NOT_HELD[runtime])


TEXTS = [
    ("PyTorch", "LICENSE", "From PyTorch:", "POSSIBILITY OF SUCH DAMAGE."),
    ("PyTorch", "NOTICE", "====", "limitations under the License."),
    ("miniz", "LICENSE", "Copyright 2013-2014 RAD Game Tools", "THE SOFTWARE."),
    ("fmt", "LICENSE.rst", "Copyright (c) 2012 - present, Victor", "permission notices."),
    ("llvm-adt", "LICENSE.TXT", "====", "OTHER DEALINGS WITH THE\nSOFTWARE."),
    ("libstdc++", "NOTICE.array", "/**\n * This file is based", "www.gnu.org/licenses/>."),
    ("libstdc++", "NOTICE.reverse_iterator", "/**\n * A constexpr", "implied warranty.\n */"),
    ("libstdc++", "COPYING3", "                    GNU GENERAL", "why-not-lgpl.html>."),
    ("libstdc++", "COPYING.RUNTIME", "GCC RUNTIME LIBRARY EXCEPTION", "license of GCC."),
    ("flat_hash_map", "NOTICE", "// Taken from", "LICENSE_1_0.txt)"),
    ("flat_hash_map", "LICENSE_1_0.txt", "   Boost Software", "DEALINGS IN THE SOFTWARE."),
    ("mpark-variant", "NOTICE", "// MPark.Variant", "github.com/mpark/variant"),
    ("akrzemi1-optional", "NOTICE", "// Copyright (C) 2011", "github.com/akrzemi1/Optional"),
    ("rollbear-strong_type", "NOTICE", "/*\n * strong_type", " */"),
    ("boost-hash", "LICENSE_1_0.txt", "// NOTE: hash_combine", "DEALINGS IN THE SOFTWARE."),
    ("mt19937ar-cok", "NOTICE", " * Copyright notice:", "(remove space)"),
    ("antelope_contrib-erfinv", "NOTICE", "/* The next function is taken from", "*/"),
    ("cephes", "LICENSE", "   3-Clause BSD License for the Cephes", "OF SUCH DAMAGE."),
    ("scipy", "LICENSE", "   Copyright (c) 2001-2002 Enthought", "OF SUCH DAMAGE."),
    ("boost-lanczos", "NOTICE", "// SciPy's lanczos implementation", " */"),
    ("faddeeva", "NOTICE", "/* The next function is taken from http://ab-initio", " */"),
    ("musl-nextafter", "NOTICE", "/*\n  The following function is inspired", " */"),
    ("QNNPACK", "LICENSE", "BSD License\n\nFor QNNPACK", "OF SUCH DAMAGE."),
    ("numpy-distributions", "NOTICE", "// The function `sample_gamma`", "*/"),
    ("mathinf-ctc", "NOTICE", "// Copyright (c) 2018 MathInf", "calling them inputs)"),
    ("pillow-resample", "LICENSE", "The Python Imaging Library", "OF THIS SOFTWARE."),
    ("protobuf-int128", "NOTICE", "// This file is based on", "OF SUCH DAMAGE."),
    ("brumme-crc32", "NOTICE", "// ////", "//"),
    ("brumme-crc32", "LICENSE", "This software is provided", "any source distribution."),
    ("dlpack", "NOTICE", "/*!\n *  Copyright (c) 2017", " */"),
    ("dlpack", "LICENSE", "                                 Apache", "additional liability."),
    ("julia-strtod", "NOTICE", "// Taken from", "C stdlib functions"),
    ("julia-strtod", "LICENSE", "Copyright (c) 2009-2016: Jeff", "IN THE SOFTWARE."),
    ("julia-strtod", "LICENSE.python", "PYTHON SOFTWARE FOUNDATION", "License\nAgreement."),
    ("cpython-sliceobject", "NOTICE", "// Copyright (c) 2001, 2002,", "// might think"),
]
# Since 2.6.0, in place of some of them.
NEWER_TEXTS = [
    ("ggml-dot", "NOTICE", "/*\n * NOTE [ GGML Copyright", " */"),
    ("tensorflow-denormal", "NOTICE", "// Imported from TensorFlow", "All Rights Reserved."),
    (
        "tensorflow-denormal",
        "LICENSE",
        "                                 Apache",
        "additional liability.",
    ),
    ("PyTorch", "NOTICE", "====", "PERFORMANCE OF THIS SOFTWARE."),
]
OLDER_TEXTS = {"libstdc++", "mpark-variant", "akrzemi1-optional", ("PyTorch", "NOTICE")}


@pytest.mark.parametrize(
    ("runtime", "component", "name", "begins", "ends"),
    [
        *(("pytorch_1_13", *row) for row in TEXTS),
        *(("pytorch_2_6", *row) for row in TEXTS if not {row[0], row[:2]} & OLDER_TEXTS),
        *(("pytorch_2_6", *row) for row in NEWER_TEXTS),
    ],
)
def test_each_text_is_a_licence(
    runtime: str, component: str, name: str, begins: str, ends: str
) -> None:
    text = whole(runtime)[component].texts[name]
    assert isinstance(text, bytes)
    assert text.decode().startswith(begins)
    assert text.decode().rstrip().endswith(ends.rstrip())


@cache
def whole(runtime: str) -> dict[str, Licence]:
    """The licences of a variant that holds every part of PyTorch."""
    units = [unit for rule in rules_of(runtime) for unit in a_unit(rule)]
    found = licences(here(), of(runtime), "linux-x86_64", units, None)
    return {part.component: part for part in found}


def a_unit(rule: LicenceRule) -> list[str]:
    return [glob.replace("**", "aten/x.cpp").replace("*", "x") for glob in rule.units]


@every_runtime
def test_every_part_tells_what_it_was_compiled_from(runtime: str) -> None:
    parts = whole(runtime)
    assert set(parts) == {"libtorch-orchestrator", *names(rules_of(runtime))}
    pinned = of(runtime).pin
    for part in parts.values():
        assert part.source, part.component
    digests = {name: part.source.sha256 for name, part in parts.items() if part.source}
    assert digests["PyTorch"] == pinned.tree
    assert digests["fmt"] == pinned.third_party["fmt"].tree


def test_a_part_of_several_files_tells_a_digest_of_their_digests() -> None:
    tree = of("pytorch_1_13").fetched.tree
    parts = whole("pytorch_1_13").items()
    digests = {name: part.source.sha256 for name, part in parts if part.source}
    # of one file: its own; of several: as sha256sum tells them, and once more
    optional = tree / "c10/util/Optional.h"
    assert digests["akrzemi1-optional"] == hashlib.sha256(optional.read_bytes()).hexdigest()
    lines = "".join(
        f"{hashlib.sha256((tree / path).read_bytes()).hexdigest()}  {path}\n"
        for path in ("c10/util/Array.h", "c10/util/reverse_iterator.h")
    )
    assert digests["libstdc++"] == hashlib.sha256(lines.encode()).hexdigest()


@pytest.mark.parametrize(
    ("unit", "held"),
    [
        ("xnnpack/src/init.c", ["XNNPACK", "pthreadpool", "FXdiv"]),
        ("pthreadpool/src/shim.c", ["pthreadpool"]),
        ("aten/src/ATen/native/Linear.cpp", []),
    ],
)
def test_a_kernel_library_is_a_part_where_one_of_its_units_is_linked(
    unit: str, held: list[str]
) -> None:
    """Each component with the licence, the text and the digest of its own pinned tree."""
    on = of("pytorch_2_6")
    assert on.library is not None
    trees = {"XNNPACK": "xnnpack", "pthreadpool": "pthreadpool", "FXdiv": "fxdiv"}
    expressions = {"XNNPACK": "BSD-3-Clause", "pthreadpool": "BSD-2-Clause", "FXdiv": "MIT"}
    found = [
        one for one in licences(here(), on, "linux-x86_64", [unit], None) if one.component in trees
    ]
    assert [one.component for one in found] == held
    for one in found:
        tree = trees[one.component]
        assert one.licence == expressions[one.component]
        assert one.texts == {"LICENSE": (on.library.trees[tree] / "LICENSE").read_bytes()}
        assert one.source
        assert one.source.sha256 == on.pin.libraries[tree].tree


def test_our_own_code_is_a_part() -> None:
    ours = whole("pytorch_1_13")["libtorch-orchestrator"]
    declared = tomllib.loads((toy.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (ours.licence, ours.version) == (declared["license"], declared["version"])
    assert ours.source
    assert ours.source.files == ("native/**",)
    text = ours.texts["LICENSE"]
    assert isinstance(text, Path)
    assert text.read_bytes() == (toy.ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("texts", [{"a.cpp": "é\r\n"}, {"a/z.h": "1", "a.cpp": "2", "a-b.h": ""}])
def test_an_apps_sources_have_the_digest_that_sha256sum_gives(
    texts: dict[str, str], tmp_path: Path
) -> None:
    """As of a part's source: of one file its own."""
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(text.encode())
    found = source_of_app(OwnSources("toy", texts, ("a.cpp",), (), ()))
    assert found.files == tuple(sorted(texts))
    script = "LC_ALL=C sort -z | xargs -0 sha256sum"
    script += " | sha256sum" if len(texts) > 1 else ""
    paths = "\0".join(texts)
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, input=paths, capture_output=True, text=True, check=True
    )
    assert found.sha256 == done.stdout.split()[0]


def test_a_part_whose_files_are_not_here_has_no_digest(tmp_path: Path) -> None:
    assert source_of(tmp_path, ("nothing/**",)) is None
    assert source_of(tmp_path, ()) is None


@every_runtime
def test_fmt_is_in_the_units_that_include_it(runtime: str) -> None:
    """Other units read c10/util/strong_type.h, which includes fmt where a macro asks for it."""
    tree = of(runtime).fetched.tree
    includes = re.compile(r"^#include <fmt/", re.MULTILINE)
    units = [u.path for u in runtime_units(tree, of(runtime).version)]
    including = {
        unit
        for unit in units
        if (tree / unit).is_file() and includes.search((tree / unit).read_text(errors="replace"))
    }
    (rule,) = (rule for rule in rules_of(runtime) if rule.component == "fmt")
    assert including == {unit for unit in units if names(held_parts([rule], [unit]))}


@pytest.mark.parametrize("target", [GNU, MUSL, "aarch64-ios.15.0"])
def test_zig_tells_what_it_may_link(target: str) -> None:
    found = parts(target)
    libc = {GNU: ["glibc-nonshared"], MUSL: ["musl"]}.get(target, [])
    assert sorted(found) == sorted(["libcxx", "libcxxabi", "libunwind", "zig-compiler-rt", *libc])
    assert {found[name].version for name in ("libcxx", "libcxxabi", "libunwind")} == {"22.1.8"}
    for part in found.values():
        assert all(text.read_text(encoding="utf-8") for text in part.texts.values())
    if target == MUSL:
        assert found["musl"].version == "1.2.5"


@every_runtime
def test_every_licence_is_an_spdx_expression(runtime: str) -> None:
    given = {one for rule in rules_of(runtime) for one in rule.licence.split(" AND ")} | {
        part.licence for target in (GNU, MUSL) for part in parts(target).values()
    }
    for text in given:
        licence = LicenseFactory().make_from_string(text)
        assert isinstance(licence, LicenseExpression) or (
            isinstance(licence, DisjunctiveLicense) and licence.id == text
        )


def test_a_cxx_library_holds_the_parts_that_it_uses(tmp_path: Path) -> None:
    library = toy.variant(tmp_path).shared_library
    assert library is not None
    found = {licence.component: licence for licence in of_linked(parts(GNU).values(), library)}
    assert found.keys() >= {"libcxx", "libcxxabi", "libunwind"}
    assert "zig-compiler-rt" not in found
    assert found["libcxx"].version == "22.1.8"
    for part in found.values():
        assert part.source, part.component


def test_a_library_of_the_systems_parts_alone_holds_none(tmp_path: Path) -> None:
    library = toy.plain_library(tmp_path / "plain.so")
    assert list(of_linked(parts(GNU).values(), library)) == []


@pytest.mark.parametrize("target", ["aarch64-linux-gnu.2.28", MUSL])
def test_zigs_runtime_is_found_by_the_functions_of_libc_that_it_brings(
    target: str, tmp_path: Path
) -> None:
    """A comparison of `long double`, which libc++'s sort has too, takes all of it into the link."""
    source, library = tmp_path / "less.c", tmp_path / "less.so"
    source.write_text(
        "#include <string.h>\n"
        "int lta_less(long double a, long double b) { return a < b; }\n"
        "void lta_copy(void *to, const void *from, size_t n) { memcpy(to, from, n); }\n"
    )
    unit = library.with_suffix(".o")
    zig("cc", "-target", target, "-g0", "-O2", "-fPIC", "-c", source, "-o", unit)
    link = ("-shared", *LINK_FLAGS, "-Wl,--gc-sections")
    zig("cc", "-target", target, *link, unit, "-o", library)
    found = {part.component: part for part in of_linked(parts(target).values(), library)}
    assert found.keys() == {"zig-compiler-rt"}
    assert found["zig-compiler-rt"].version == metadata.version("ziglang")
    assert "COPYRIGHT.musl" in found["zig-compiler-rt"].texts


def test_a_part_is_found_by_a_symbol_that_is_defined(tmp_path: Path) -> None:
    library = toy.plain_library(tmp_path / "plain.so")
    part = replace(parts(GNU)["libcxx"], witnesses=("lta_",))
    assert [licence.component for licence in of_linked([part], library)] == ["libcxx"]
