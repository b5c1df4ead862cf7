"""Which operators the functions for old models take the place of, and call: the facts against
PyTorch's source."""

from __future__ import annotations

import re

import pytest
from core_toy import real_runtime

UNIT = "torch/csrc/jit/mobile/upgrader_mobile.cpp"

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", ["pytorch_2_6", "pytorch_1_13"])
def test_the_facts_are_those_of_the_source(name: str) -> None:
    runtime = real_runtime(name)
    (rule,) = (one for one in runtime.version.include if one.unit == UNIT)
    text = (runtime.fetched.tree / UNIT).read_text()
    versions, functions = text.split("getUpgraderBytecodeList", 1)
    replaced = re.findall(
        r'std::string\("([^"]+)"\),\s*std::vector<Upgrader>\(\{\s*'
        r'Upgrader\(\{0, (\d+), "\w+", (\d+)\}\)',
        versions,
    )
    assert dict(rule.unless) == {operator: int(until) for operator, until, _ in replaced}
    called = [
        [".".join(filter(None, pair)) for pair in re.findall(_CALL, function)]
        for function in functions.split("ByteCodeFunctionWithOperator({")[1:]
    ]
    others = {
        operator: sorted({one for one in called[int(at)] if one.startswith("aten::")} - {operator})
        for operator, _, at in replaced
    }
    assert {one: sorted(calls) for one, calls in rule.calls.items()} == {
        operator: names for operator, names in others.items() if names
    }


_CALL = re.compile(r'OperatorString\(\{"([^"]+)", "([^"]*)"')
