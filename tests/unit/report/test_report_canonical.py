"""The report of `canonical`: its text, and its JSON."""

from __future__ import annotations

import json

from orchestrator.canonical.convert import UntraceableError
from orchestrator.report.canonical import (
    CanonicalReport,
    CanonicalRow,
    OmittedRewrite,
    PricedApp,
    RefusedModel,
    RewriteLine,
    Shared,
    in_place,
    plain,
    to_json,
)

CAMERA = CanonicalRow(
    app="camera",
    model="net",
    file="apps/camera/models/net.canonical.ptl",
    kind="static",
    state="written",
    torch="2.13.0",
    before=("aten::add_.Tensor", "aten::hardtanh", "aten::relu_"),
    after=("aten::add.Tensor", "aten::clamp"),
    bytes_before=445_000,
    bytes_after=172_400,
    library_before=1_500_000,
    library_after=1_398_000,
    largest=3e-07,
    compared=18,
    not_taken=2,
    unsteady=1,
    rewrites=(
        RewriteLine("clamp", "aten::hardtanh", ("aten::clamp",), 17, "so"),
        RewriteLine("dropout", "aten::dropout", (), 1, "does nothing"),
    ),
    left=(OmittedRewrite("stack", 12_000), OmittedRewrite("sizes", 0, "aten::numel")),
    microseconds=(1234.5, 987.0),
)
LARGER = CanonicalRow(
    app="reader",
    model="long_name",
    file="apps/reader/models/long_name.canonical.ptl",
    kind="traced",
    state="unused",
    torch="2.13.0",
    before=("aten::relu",),
    after=("aten::relu",),
    bytes_before=1000,
    bytes_after=1000,
    library_before=1000,
    library_after=3000,
    largest=0.0,
    compared=7,
    not_taken=0,
    unsteady=0,
    rewrites=(),
)
REPORT = CanonicalReport(
    (CAMERA, LARGER),
    (
        PricedApp("camera", 3, 2, 1_500_000, 1_398_000, (Shared("reader", 1 / 3, 0.5),)),
        PricedApp("reader", 1, 1, 1000, 3000, ()),
    ),
    (RefusedModel("scanner", "pages", UntraceableError("this model cannot be traced")),),
)


def test_the_text() -> None:
    assert plain(REPORT) == (
        "app     model      operators  in place              file  library  difference  calls\n"
        "camera  net           3 -> 2    2 -> 0  445 kB -> 172 kB  -102 kB       3e-07     18\n"
        "reader  long_name     1 -> 1    0 -> 0      1 kB -> 1 kB    +2 kB           0      7\n"
        "\n"
        "//apps/camera net: apps/camera/models/net.canonical.ptl was written: commit it with its"
        " lock, and trace the app again\n"
        "  clamp: aten::hardtanh (17 calls) becomes aten::clamp: so\n"
        "  dropout: aten::dropout (1 call) is not needed: does nothing\n"
        "  stack: left out: with it the app's library is 12 kB larger\n"
        "  sizes: left out: it brings aten::numel, which app.yaml forbids\n"
        "  CPU time of its calls, in torch's lite interpreter: 1,234 us -> 987 us\n"
        "  2 more calls were not compared: the model takes no such inputs\n"
        "  1 calls were not compared: they give other values each time\n"
        "//apps/reader long_name: declare `canonical: traced` in app.yaml to use it\n"
        "//apps/camera: 3 -> 2 root operators, its library 1.5 MB -> 1.4 MB by the index\n"
        "  has more in common with reader (33% -> 50%)\n"
        "//apps/reader: 1 -> 1 root operators, its library 1 kB -> 3 kB by the index\n"
        "//apps/scanner pages: refused: this model cannot be traced\n"
    )


def test_the_json() -> None:
    told = json.loads(to_json(REPORT))
    camera, larger = told["models"]
    assert [one["kind"] for one in (camera, larger)] == ["static", "traced"]
    assert camera["left_out"] == [
        {"name": "stack", "bytes": 12_000, "forbidden": None},
        {"name": "sizes", "bytes": 0, "forbidden": "aten::numel"},
    ]
    assert (camera["microseconds_before"], camera["microseconds_after"]) == (1234.5, 987.0)
    assert larger["microseconds_before"] is None
    (refused,) = told["refused"]
    assert (refused["model"], refused["error"]["code"]) == ("pages", "UNTRACEABLE")
    assert told["apps"][0] == {
        "app": "camera",
        "operators_before": 3,
        "operators_after": 2,
        "library_before_estimate": 1_500_000,
        "library_after_estimate": 1_398_000,
        "shares": [{"app": "reader", "before": 0.333, "after": 0.5}],
    }
    assert (camera["in_place_before"], camera["in_place_after"]) == (2, 0)
    assert camera["library_saved_estimate"] == 102_000
    assert larger["library_saved_estimate"] == -2000
    assert camera["rewrites"][0] == {
        "name": "clamp",
        "from": "aten::hardtanh",
        "to": ["aten::clamp"],
        "calls": 17,
        "why": "so",
    }


def test_what_is_in_place() -> None:
    operators = ["aten::add_.Tensor", "aten::relu_", "aten::__and__.Tensor", "aten::_softmax"]
    assert in_place(operators) == 2
