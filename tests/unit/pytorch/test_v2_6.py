"""PyTorch 2.6.0: its facts beside the older version's, its overlay, and what its index says."""

from __future__ import annotations

import random

from core_toy import real_runtime
from variants import plans
from variants import rule as rule_of

from orchestrator.build.workshop.native import own_native_files
from orchestrator.pytorch.v1_13.dialect import DIALECT as OLDER
from orchestrator.pytorch.v2_6.dialect import DIALECT

FACTS = DIALECT.facts
RUNTIME = "pytorch_2_6"


def test_its_facts_are_those_of_the_older_version_but_for_what_it_changes() -> None:
    older = OLDER.facts.model_dump()
    differing = {key for key, value in FACTS.model_dump().items() if value != older[key]}
    assert differing == {
        *("version", "debian_suites", "tree", "units", "upstream", "configure", "include"),
        *("without_pch", "cuts", "flags"),
        *("licences", "lapack", "estimates", "all_operators_bytes"),
    }
    assert FACTS.licences[0].component == "PyTorch"
    assert not any("2.1.0" in unit for rule in FACTS.licences for unit in rule.units)


def test_every_header_of_the_overlay_is_read() -> None:
    native = own_native_files(DIALECT.overlay)
    found = native.found_by([f"-I{folder}" for folder in DIALECT.flags.include])
    named = {*found, *(rule.header for rule in FACTS.include)}
    overlay = {name for name in native.texts if name.startswith("overlay/")}
    assert {name for name in named if name.startswith("overlay/")} == overlay
    assert {"overlay/include/cpuinfo.h", "overlay/include/ATen/native/TensorFactories.h"} <= {
        *found
    }
    # a change of one that a unit names must not compile all units again
    assert "overlay/wide_text.h" not in found


# What PyTorch 2 has that no library of ours needs, by what is in the symbols: texts by {fmt}, what
# is asked of symbolic sizes, and of devices that there are not.
UNREACHED = (
    *("3fmt3v10", "_compute_non_overlapping_and_denseINS_6SymIntE"),
    *("GetBackendMetaSerialization", "getMTIAHooks"),
)


def test_what_no_library_needs_is_not_reached() -> None:
    for kind, plan in plans([], random.Random(1), DIALECT):
        if not kind.startswith("tracer"):
            names = rule_of(DIALECT).reached(plan)
            assert [one for one in names if any(part in one for part in UNREACHED)] == [], kind


def test_matrices_of_float16_are_multiplied() -> None:
    """Upstream leaves their case out of builds for phones, which this one is by its macros."""
    index = real_runtime(RUNTIME).index
    (node,) = (
        number
        for number, name in enumerate(index.names)
        if name.startswith("_ZN2at6nativeL15addmm_impl_cpu_")
    )
    called = {index.names[target].split("@")[0] for target in index.targets(node)}
    gemm = "_ZN2at6native7cpublas4gemmENS0_13TransposeTypeES2_lllf"
    assert {f"{gemm}PKN3c104HalfElS6_lfPS4_l", f"{gemm}PKflS4_lfPfl"} <= called
