"""`extra:` in app.yaml: operators of the runtime, with overloads; others are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from core_toy import camera_workspace, this_checkout

from orchestrator import cli
from orchestrator.build.workshop.runtime import UnknownExtraError


def added(*names: str) -> tuple[str, ...]:
    here = this_checkout()
    camera = here.workspace.apps["camera"]
    extra = MappingProxyType(dict.fromkeys(names, "wanted"))
    app = replace(camera, config=camera.config.model_copy(update={"extra": extra}))
    return here.runtimes.of("camera").extra_operators(app)


def test_without_an_overload_it_stands_for_all() -> None:
    assert added() == ()
    assert added("aten::sort.stable") == ("aten::sort.stable",)
    found = added("aten::sort", "aten::sort.stable")
    assert {"aten::sort", "aten::sort.stable", "aten::sort.values"} <= {*found}
    assert {name.partition(".")[0] for name in found} == {"aten::sort"}


@pytest.mark.parametrize(
    ("name", "seen", "hint"),
    [
        ("aten::sortt", "aten::sortt", "did you mean `aten::sort`?"),
        ("aten::linalg_svd", "aten::linalg_svd, which LAPACK computes", None),
        ("mine::own", "mine::own", None),
    ],
)
def test_what_the_runtime_does_not_have(name: str, seen: str, hint: str | None) -> None:
    with pytest.raises(UnknownExtraError) as caught:
        added(name)
    assert (caught.value.seen, caught.value.hint) == (seen, hint)


def test_verbs_that_read_locks_refuse_it_at_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "workspace"
    file, env = camera_workspace(root, "extra:\n  aten::sortt: later models sort\n")
    for verb in ("plan", "coverage"):
        assert cli.main([verb, "//apps/camera:linux-x86_64"], env=env, cwd=root) == 1
        line = len(file.read_text().splitlines())
        assert capsys.readouterr().err.endswith(
            f"apps/camera/app.yaml:{line}:3: error: PyTorch 1.13.1 as it is built here has no"
            " operator aten::sortt\n"
            "  expected: an operator that a model could name\n"
            "  seen:     aten::sortt\n"
            "  do:       did you mean `aten::sort`?\n"
        )
