"""Headers of ours that a single unit of PyTorch's reads first."""

from __future__ import annotations

from orchestrator.build.workshop.native import own_native_files
from orchestrator.build.workshop.prepare import own_headers_of
from orchestrator.libraries.features import headers_of_units
from orchestrator.pytorch.dialects import load_version

VERSION = load_version("1.13.1")


def test_what_all_checks_share_is_in_each_digest() -> None:
    native = own_native_files()
    checked = {rule.header for rule in VERSION.include if "capi/checked_" in rule.header}
    assert checked == {name for name in native.texts if name.startswith("capi/checked_")}
    of_calls = {f"capi/checked_{name}.h" for name in ("recurrent", "sequences", "sizes")}
    for header in checked - of_calls:  # these check no model
        assert "capi/model_checks.h" in native.read_by(header), header
    digests = {header.digest for header in own_headers_of(VERSION, native).values()}
    wanted = {rule.header for rule in VERSION.include} | {*headers_of_units().values()}
    assert len(digests) == len(wanted)
