"""The report of `canonical`: its text, and its JSON."""

from __future__ import annotations

import json

from orchestrator.report.canonical import CanonicalRow, RewriteLine, in_place, plain, to_json

CAMERA = CanonicalRow(
    app="camera",
    model="net",
    file="apps/camera/models/net.canonical.ptl",
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
)
LARGER = CanonicalRow(
    app="reader",
    model="long_name",
    file="apps/reader/models/long_name.canonical.ptl",
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


def test_the_text() -> None:
    assert plain([CAMERA, LARGER]) == (
        "app     model      operators  in place              file  library  difference  calls\n"
        "camera  net           3 -> 2    2 -> 0  445 kB -> 172 kB  -102 kB       3e-07     18\n"
        "reader  long_name     1 -> 1    0 -> 0      1 kB -> 1 kB    +2 kB           0      7\n"
        "\n"
        "//apps/camera net: apps/camera/models/net.canonical.ptl was written: commit it with its"
        " lock, and trace the app again\n"
        "  clamp: aten::hardtanh (17 calls) becomes aten::clamp: so\n"
        "  dropout: aten::dropout (1 call) is not needed: does nothing\n"
        "  2 more calls were not compared: the model takes no such inputs\n"
        "  1 calls were not compared: they give other values each time\n"
        "//apps/reader long_name: declare `canonical: static` in app.yaml to use it\n"
    )


def test_the_json() -> None:
    camera, larger = json.loads(to_json([CAMERA, LARGER]))["models"]
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
