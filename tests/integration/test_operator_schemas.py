"""Schemas as a library reads them, and as PyTorch's own lexer would (`schema_lexer.h`)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from core_toy import real_runtime
from real import consume

pytestmark = pytest.mark.real

# by hand in PyTorch's sources: adjacent literals, with line ends between them
_BY_HAND = re.compile(r'TORCH_SELECTIVE_SCHEMA\(\s*((?:"(?:[^"\\\n]|\\.)*"\s*)+)\)')
_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')

ODD = (
    "app::all(Tensor(a!)[] x, int[2]? y=None, *, float eps=1e-5) -> (Tensor(a!)[], ...)",
    "app::quotes(str mode='a, \\'b\\'', str other=\"'\") -> ()",
    'app::text(str a="x#y", str? b=None, bool c=True) -> str',
    "app::sets(Tensor(a|b) x, Tensor(*) y, Tensor! z) -> Tensor(a! -> a|b)",
    "app::types(Dict(str, Tensor[])? d, (int, float?) t, Future(Tensor) f, Any v) -> ()",
    "app::more(t[] list, Tensor?[] tensors, ...) -> t",
    "app::numbers(int a=-1, float b=.5, complex c=2j, float d=2e3) -> Scalar",
    "app::lists(int[] a=[1, -2], int[3] b=0, float[] c=[], bool[2] d=[True, False]) -> ()",
    "app::dtypes(ScalarType a=long, Layout? b=None, MemoryFormat c=contiguous_format) -> ()",
    "app::device(Device a='cpu') -> Device",
    "app::returns(Tensor a) -> (Tensor values, Tensor(a) indices)",
    "  app::blanks ( Tensor  a ,int b = 1 )->Tensor # and why ",
)
# text -> what the library says
REFUSED = {
    "app::open(Tensor a": "schema 'app::open(Tensor a' at '': expected )",
    "app::comma(Tensor a,) -> ()": (
        "schema 'app::comma(Tensor a,) -> ()' at ') -> ()': expected a name"
    ),
    "app::arrow(Tensor a) Tensor": (
        "schema 'app::arrow(Tensor a) Tensor' at 'Tensor': expected ->"
    ),
    "app::rest(Tensor a) -> Tensor b c": (
        "schema 'app::rest(Tensor a) -> Tensor b c' at 'c': expected its end"
    ),
    "app::type(Foo a) -> ()": (
        "schema 'app::type(Foo a) -> ()' at 'Foo a) -> ()': unknown type specifier"
    ),
    "app::quote(str a='x) -> ()": (
        "schema 'app::quote(str a='x) -> ()' at ''x) -> ()': expected a valid token"
    ),
    "app::size(int[x] a) -> ()": (
        "schema 'app::size(int[x] a) -> ()' at 'x] a) -> ()': expected a number"
    ),
    "app::value(int a=x) -> ()": (
        "schema 'app::value(int a=x) -> ()' at ') -> ()': invalid numeric default value"
    ),
    "app::after(..., int a) -> ()": (
        "schema 'app::after(..., int a) -> ()' at 'int a) -> ()':"
        " ... must be the last element of the argument list"
    ),
    "app::none(Tensor a=1) -> ()": (
        "schema 'app::none(Tensor a=1) -> ()' at '1) -> ()': expected None"
    ),
    "app::é() -> ()": "schema 'app::é() -> ()' at 'é() -> ()': expected a valid token",
    "7() -> ()": "schema '7() -> ()' at '7() -> ()': expected a name",
}


def schemas(tree: Path) -> set[str]:
    """The schemas of PyTorch's own operators: torchgen's, and those that are written in C++."""
    text = (tree / "aten/src/ATen/native/native_functions.yaml").read_text()
    found = {f"aten::{schema}" for schema in re.findall(r"^- func: (.+?)\s*$", text, re.MULTILINE)}
    for source in sorted(tree.rglob("*.cpp")):
        if "TORCH_SELECTIVE_SCHEMA" in (text := source.read_text(errors="replace")):
            for literals in _BY_HAND.findall(text):
                found.add("".join(map(ast.literal_eval, _LITERAL.findall(literals))))
    return found


@pytest.mark.ci_only
@pytest.mark.parametrize(
    ("runtime", "app", "least"),
    [("pytorch_1_13", "camera", 2_900), ("pytorch_2_6", "translator", 3_000)],
)
def test_every_schema_is_read_as_pytorch_reads_it(
    runtime: str, app: str, least: int, built: Path, tmp_path: Path
) -> None:
    tree = real_runtime(runtime).fetched.tree
    texts = [*sorted(schemas(tree)), *ODD, *REFUSED]
    assert len(texts) - len(REFUSED) >= least
    listed = tmp_path / "schemas.txt"
    listed.write_text("".join(f"{text}\n" for text in texts))
    delivered = built / app / "linux-x86_64"
    toolchain = delivered / f"lib/cmake/{app}_libtorch/toolchain.cmake"
    defined = {
        "CMAKE_TOOLCHAIN_FILE": toolchain,
        "PROGRAM": "schemas.cpp",
        "TREE": tree,
        "LIST": listed,
    }
    options = [f"-D{name}={value}" for name, value in defined.items()]
    told = consume(tmp_path, "cpp_static", app, delivered, *options).splitlines()
    # 2.6.0 goes on with the types that there are
    told = [line.partition(". Common valid")[0] for line in told]
    # classes that the app's models have none of
    unknown = [line for line in told if ": Unknown custom class type " in line]
    same = f"{len(texts) - len(REFUSED) - len(unknown)} the same"
    assert [line for line in told if line not in unknown] == [*REFUSED.values(), same]
    assert len(unknown) < 0.05 * len(texts)
