"""Our C and C++ stands on its own: the public header in C11 and C++17, and the JSON reader.

What needs PyTorch's headers is compiled and run by the integration tests.
"""

import json
import math
import re
import subprocess
from pathlib import Path

import pytest
from zig_tool import zig

NATIVE = Path(__file__).parents[3] / "orchestrator" / "native"
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]

# Writes back what it read: numbers as int64 where they look like one, else as double.
ECHO = r"""
#include <iostream>
#include <iterator>
#include "json.h"

static void echo(json::Writer& out, const json::Value& value) {
  switch (value.type) {
    case json::Type::Null: out.null(); break;
    case json::Type::Bool: out.boolean(value.boolean); break;
    case json::Type::String: out.string(value.string()); break;
    case json::Type::Number:
      if (value.text.find_first_of(".eE") == std::string::npos) out.integer(value.integer());
      else out.real(value.real());
      break;
    case json::Type::Array:
      out.open('[');
      for (const auto& item : value.items) echo(out, item);
      out.close(']');
      break;
    case json::Type::Object:
      out.open('{');
      for (const auto& member : value.members) {
        out.key(member.first);
        echo(out, member.second);
      }
      out.close('}');
  }
}

int main() {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  try {
    json::Writer out;
    echo(out, json::parse(text));
    std::cout << out.text();
  } catch (const json::Error& error) {
    std::cout << error.what();
    return 1;
  }
}
"""


@pytest.mark.parametrize("header", ["capi/libtorch_app.h", "stubs/cpuinfo.h"])
@pytest.mark.parametrize(
    ("compiler", "language"),
    [("cc", ["-std=c11", "-x", "c"]), ("c++", ["-std=c++17", "-x", "c++"])],
)
def test_a_header_compiles_alone(
    header: str, compiler: str, language: list[str], tmp_path: Path
) -> None:
    source = tmp_path / "use.txt"
    source.write_text(f'#include "{NATIVE / header}"\n', encoding="utf-8")
    zig(compiler, *STRICT, *language, "-c", source, "-o", tmp_path / "use.o")


def test_every_declared_function_is_defined_and_exported() -> None:
    header = (NATIVE / "capi/libtorch_app.h").read_text(encoding="utf-8")
    source = (NATIVE / "capi/capi.cpp").read_text(encoding="utf-8")
    # generated for each selection
    source += (NATIVE.parent / "codegen/templates/selection.cpp.j2").read_text(encoding="utf-8")
    declared = set(re.findall(r"^LTA_API [^;]*?\b(lta_\w+)\(", header, re.MULTILINE))
    defined = set(re.findall(r"^[\w ]+\*? (lta_\w+)\([^;{]*\) \{", source, re.MULTILINE))
    assert declared == defined
    assert len(declared) == header.count("\nLTA_API ")
    assert "global: lta_*;" in (NATIVE / "capi/libtorch_app.map").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("echo")
    source = folder / "echo.cpp"
    source.write_text(ECHO, encoding="utf-8")
    program = folder / "echo"
    include = f"-I{NATIVE / 'driver'}"
    # as the other tests link, with which it shares zig's C++ library
    zig("c++", "-std=c++17", *STRICT, "-g0", "-O2", include, source, "-o", program)
    return program


def run_echo(program: Path, text: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([program], input=text.encode("utf-8"), capture_output=True)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -(2**63),
        2**63 - 1,
        0.1,
        1.0,
        1.7976931348623157e308,
        5e-324,
        -0.0,
        1.0 / 3.0,
        "",
        'é "quoted" \\ / \n\t\x01 \U0001f600',
        [],
        {},
        [[], [1, [2.5, None]], {"a": {"b": []}, "": "x"}],
    ],
)
def test_json_round_trips(echo: Path, value: object) -> None:
    for ascii_only in (True, False):
        result = run_echo(echo, json.dumps(value, ensure_ascii=ascii_only))
        assert result.returncode == 0, result.stdout
        back = json.loads(result.stdout)
        assert back == value
        assert type(back) is type(value)
        if isinstance(value, float) and isinstance(back, float):
            assert math.copysign(1, back) == math.copysign(1, value)


def test_json_writer_keeps_order_and_is_compact(echo: Path) -> None:
    assert run_echo(echo, ' { "b" : [ 1 , 2 ] , "a" : "\\u00e9" } ').stdout == (
        '{"b":[1,2],"a":"é"}'.encode()
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "not a value at byte 0"),
        ("01", "not a value at byte 2"),
        ("1.", "no digit after the point at byte 2"),
        ("1e", "no digit in the exponent at byte 2"),
        ("[1,]", "not a value at byte 3"),
        ("[1 2]", "wanted ] at byte 3"),
        ('{"a":1,"a":2}', "a duplicate key at byte 10"),
        ("{a:1}", "wanted a string at byte 1"),
        ('"abc', "an unfinished string at byte 4"),
        ('"\n"', "a control character in a string at byte 2"),
        (r'"\x"', "an unknown escape at byte 3"),
        (r'"\ud800"', "a lone surrogate at byte 7"),
        ("nul", "not a value at byte 0"),
        ("1 2", "more text after the value at byte 2"),
        ("9223372036854775808", "not an int64: 9223372036854775808"),
        ("[" * 300, "nested too deeply at byte 201"),
    ],
)
def test_json_refuses(echo: Path, text: str, error: str) -> None:
    result = run_echo(echo, text)
    assert (result.returncode, result.stdout.decode()) == (1, error)
