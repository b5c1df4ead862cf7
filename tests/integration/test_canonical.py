"""Canonical models by real torch: a corpus of small models, and the apps' own.

The corpus is in `canonical/corpus.py`; it says of each model what came out, on inputs that the
conversion did not have. Operators are counted here, from the files.

The corpus is part of `./check --campaigns`; one app is converted and built in CI, too.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import yaml
from real import ROOT, Ran, orchestrator, workspace_copy
from torch_python import torch_python

from orchestrator.canonical.process import WORKER
from orchestrator.models.info import read_model
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.report.canonical import in_place
from orchestrator.trace.runs import runs_in
from orchestrator.verify.compare import compare_results

CORPUS = Path(__file__).parent / "canonical" / "corpus.py"
# torch has no operators of an app's own; and what torch.export gave is canonical
APPS = sorted(
    path.parent.name
    for path in ROOT.glob("apps/*/app.yaml")
    if "sources:" not in path.read_text(encoding="utf-8")
    and 'compiled="export"' not in path.with_name("export.py").read_text(encoding="utf-8")
)
# Of the corpus, what the operators after are of those before, at most: of each model's, summed,
# and of the names that any model has.
SUMMED, ANYWHERE = 0.51, 0.70
# The same of those that can be traced.
TRACED_SUMMED, TRACED_ANYWHERE = 0.44, 0.59
# What cannot be traced, and what is told of it.
NOT_TRACED = {
    "gru": ("specialised", "float32[2, 5] too (one dimension less)"),
    "by_rows": ("specialised", " <= 5; but the model takes float32[6, 5] too"),
    "cell_loop": ("specialised", "; but the model takes float32["),
    "instance_norm": ("specialised", "float32[3, 12, 12] too (one dimension less)"),
    "branches": ("untraceable", "aten::Bool.Tensor"),
    "steps": ("untraceable", "an input is a int"),
    "shared_aliases": ("specialised", "float32[1, 2, 4] too (one dimension more)"),
    "list_of_tensors": ("untraceable", "an input is a list"),
    "sampling": ("untraceable", "random numbers"),
    "counter": ("untraceable", "the model changes a buffer of its own"),
    "optionals": ("untraceable", "an input is a float"),
    "vocabulary": ("untraceable", "an input is a str"),
    "shapes": ("specialised", "float32[1, 6], float32[1, 2, 3] too (one dimension more)"),
    "dynamic": ("untraceable", "LinearPackedParamsBase"),
    "quantised": ("untraceable", "quantised tensors"),
    "pooled": ("specialised", "float32[3, 12, 12] too (one dimension less)"),
    "other_attention": ("untraceable", "prim::NumToTensor.Scalar"),
    "peaks": ("untraceable", "aten::nonzero"),
    "ranks": ("specialised", " >= 4; but the model takes float32[1, 3, 4] too"),
    "growing": ("untraceable", "an input is a int"),
    "copied": ("specialised", "float32[1, 3, 2] too (one dimension more)"),
}
PLACES = {
    "branches": "elif bool(x.sum() <= 0):",
    "by_rows": "if x.size(0) > 5:",
    "peaks": "found, scores = peaks[0, 0].nonzero(), heat[peaks]",
    "ranks": "if y.size(0) >= 4:",
    "cell_loop": "for t in range(x.size(0)):",
    "sampling": "return x + torch.empty_like(x).normal_() * 0.1",
}
# What writes in place afterwards, and must: somebody else sees it, or it draws random numbers.
KEPT_IN_PLACE = {
    "counter": {"aten::add_.Scalar"},
    # what is of that dtype already is not copied
    "half_precision": {"aten::add_.Scalar"},
    "last_round": {"aten::mul_.Scalar"},
    "list_of_tensors": {"aten::exp_"},
    "pair": {"aten::copy_"},
    "sampling": {"aten::normal_"},
    "shared_aliases": {"aten::add_.Scalar", "aten::relu_"},
    "slices": {"aten::add_.Scalar", "aten::copy_"},
    "writes_its_input": {"aten::add_.Scalar", "aten::relu_"},
}


# Models of which sizes are known, or are not, and what they name afterwards.
SIZED = {
    # pictures with and without a batch
    "pooled": "conv2d mean.dim relu reshape size.int",
    "other_attention": "_softmax convolution linear matmul mul.Scalar mul.int permute reshape"
    " select.int size.int slice.Tensor",
    "encoder_layers": "_native_multi_head_attention add.Tensor gelu linear native_layer_norm relu",
    "fills": "full_like masked_fill.Scalar ones size.int triu zeros",
    # but for what depends on the input
    "parts": "add.Tensor add.int linear mul.Tensor reshape select.int size.int slice.Tensor"
    " split.sizes sum.dim_IntList unflatten.int",
    "ranks": "__contains__.int_list gt.int mul.Tensor size.int squeeze.dim unsqueeze",
    "growing": "add.Tensor add.int flatten.using_ints gt.int unsqueeze",
    "escaping": "add.Tensor cat ones permute size.int sum.dim_IntList zeros",
    "one_number": "add.Scalar add.Tensor max mul.Scalar mul.Tensor reshape",
}


@pytest.fixture(scope="session")
def python() -> str:
    return torch_python()


def run(*argv: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def converted(python: str, folder: Path, kind: str) -> Path:
    """The converted corpus, and what was said of each model."""
    said = run(python, "-W", "ignore", str(CORPUS), str(WORKER), str(folder), kind)
    (folder / "said.json").write_text(json.dumps([json.loads(one) for one in said.splitlines()]))
    return folder


@pytest.fixture(scope="session")
def corpus(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return converted(python, tmp_path_factory.mktemp("corpus"), "static")


@pytest.fixture(scope="session")
def traced(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return converted(python, tmp_path_factory.mktemp("traced"), "traced")


def roots(path: Path) -> frozenset[str]:
    return frozenset(map(str, read_model(path, DIALECT.models).root_operators))


def pairs(folder: Path) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Model -> root operators before and after."""
    return {
        made.name.removesuffix(".canonical.ptl"): (
            roots(made.with_name(made.name.replace(".canonical", ""))),
            roots(made),
        )
        for made in sorted(folder.glob("*.canonical.ptl"))
    }


@pytest.mark.full_only
def test_every_model_of_the_corpus_computes_the_same(corpus: Path) -> None:
    said = json.loads((corpus / "said.json").read_text())
    assert len(said) >= 40
    assert {one["name"]: one["error"] for one in said if "error" in one} == {}
    assert all(one["calls"] >= 5 and one["compared"] >= 1 for one in said)
    # rounding alone, where norms and factors are folded into weights
    assert max(one["largest"] for one in said) < 1e-5


@pytest.mark.full_only
def test_operators_of_the_corpus(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = pairs(corpus)
    summed = [sum(len(pair[n]) for pair in counts.values()) for n in (0, 1)]
    anywhere = [len(frozenset().union(*(pair[n] for pair in counts.values()))) for n in (0, 1)]
    with capsys.disabled():
        print(
            f"\n{len(counts)} models: root operators of each, summed {summed[0]} -> {summed[1]},"
            f" distinct in all {anywhere[0]} -> {anywhere[1]}"
        )
    assert summed[1] <= SUMMED * summed[0]
    assert anywhere[1] <= ANYWHERE * anywhere[0]
    # a layer of several operators, which its library had anyway
    more = {name for name, (before, after) in counts.items() if len(after) > len(before)}
    assert more == {"encoder_layers"}


@pytest.mark.full_only
@pytest.mark.parametrize("model", SIZED)
def test_what_is_known_of_sizes(corpus: Path, model: str) -> None:
    _, after = pairs(corpus)[model]
    assert {one.removeprefix("aten::") for one in after} == set(SIZED[model].split())


@pytest.mark.full_only
def test_what_is_left_in_place(corpus: Path) -> None:
    left = {
        name: {one for one in after if in_place([one])}
        for name, (_, after) in pairs(corpus).items()
    }
    assert {name: kept for name, kept in left.items() if kept} == KEPT_IN_PLACE


@pytest.mark.full_only
def test_what_is_traced_computes_the_same(traced: Path) -> None:
    said = json.loads((traced / "said.json").read_text())
    right = [one for one in said if "error" not in one]
    assert len(right) >= 40
    assert all(one["calls"] >= 5 and one["compared"] >= 8 for one in right)
    assert max(one["largest"] for one in right) < 1e-5


@pytest.mark.full_only
def test_what_is_not_traced_is_refused_with_its_place(traced: Path) -> None:
    said = json.loads((traced / "said.json").read_text())
    errors = {one["name"]: one["error"] for one in said if "error" in one}
    assert {name: error["kind"] for name, error in errors.items()} == {
        name: kind for name, (kind, _) in NOT_TRACED.items()
    }
    for name, (_, text) in NOT_TRACED.items():
        assert text in errors[name]["text"]
    lines = CORPUS.read_text(encoding="utf-8").splitlines()
    for name, code in PLACES.items():
        place = re.search(r"corpus\.py:(\d+)\)", errors[name]["text"])
        assert place is not None, errors[name]
        assert lines[int(place[1]) - 1].strip() == code


@pytest.mark.full_only
def test_operators_of_what_is_traced(
    corpus: Path, traced: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts, static = pairs(traced), pairs(corpus)
    rows = [(pair[0], static[name][1], pair[1]) for name, pair in counts.items()]
    summed = [sum(len(row[n]) for row in rows) for n in range(3)]
    anywhere = [len(frozenset().union(*(row[n] for row in rows))) for n in range(3)]
    with capsys.disabled():
        print(
            f"\n{len(counts)} models, before, static, traced: root operators of each, summed"
            f" {summed}, distinct in all {anywhere}"
        )
    assert summed[2] <= TRACED_SUMMED * summed[0]
    assert anywhere[2] <= TRACED_ANYWHERE * anywhere[0]
    assert summed[2] < summed[1]
    # the one that is left writes to what its caller gave it
    left = {name for name, (_, after) in counts.items() if in_place(after)}
    assert left == {"writes_its_input"}


@pytest.fixture(scope="session")
def exported(python: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The models of an app as PyTorch writes them: the committed ones have no TorchScript."""
    folder = tmp_path_factory.mktemp("exported")

    def models(app: str) -> Path:
        if not (folder / app).exists():
            script = [python, "-W", "ignore", f"apps/{app}/export.py"]
            run(*script, "--with-code", "--out", str(folder / app))
        return folder / app

    return models


def canonical_workspace(
    tmp_path: Path, exported: Callable[[str], Path], apps: Iterable[str], kind: str = "static"
) -> Path:
    root = workspace_copy(tmp_path, *apps)
    for app in apps:
        for model in exported(app).glob("*.ptl"):
            (root / "apps" / app / "models" / model.name).write_bytes(model.read_bytes())
        declared = root / "apps" / app / "app.yaml"
        declared.write_text(f"{declared.read_text()}canonical: {kind}\n")
    return root


def canonical(root: Path, python: str, *words: str) -> Ran:
    return orchestrator("canonical", "--quiet", "--python", python, *words, cwd=root)


@pytest.mark.full_only
@pytest.mark.real
def test_the_apps(python: str, exported: Callable[[str], Path], tmp_path: Path) -> None:
    root = canonical_workspace(tmp_path, exported, APPS)
    ran = canonical(root, python, "--write", "--json")
    assert ran.code == 0, ran.err
    models = json.loads(ran.out)["models"]
    assert [one["app"] for one in models] == [*APPS[:3], "reader", *APPS[3:]]
    for one in models:
        assert one["state"] == "written"
        assert len(one["operators_after"]) < len(one["operators_before"])
        assert one["in_place_after"] == 0
        assert one["library_saved_estimate"] > 0
        assert one["calls_compared"] >= 8
        assert one["largest_difference"] < 1e-5
    # in another process, without --write: the same bytes, and nothing to do
    files = {path: digest(path) for path in root.glob("apps/*/models/*.canonical.*")}
    assert len(files) == 3 * len(models)
    again = canonical(root, python, "//apps/reader", "--write", "--json")
    told = json.loads(again.out)
    assert {one["state"] for one in told["models"]} == {"current"}
    assert all(one["microseconds_before"] > 0 < one["microseconds_after"] for one in told["models"])
    assert {path: digest(path) for path in files} == files


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.full_only
def test_a_committed_model_has_no_torchscript(python: str, tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    ran = canonical(root, python, "//apps/camera")
    assert ran.code == 1
    assert ran.err.startswith(
        "apps/camera/models/classifier.ptl: error: this model was saved without its TorchScript"
    )


WRONG = """
import sys, torch
from torch.utils.bundled_inputs import InflatableArg, bundle_inputs
class Learns(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
    def forward(self, x):
        return self.norm(x).relu()
model = torch.jit.script(Learns().train())
x = InflatableArg(torch.randn(4, 3) * 5 + 2, "{}")
bundle_inputs(model, [(x,)])._save_for_lite_interpreter(sys.argv[1])
"""


@pytest.mark.ci_only
def test_another_result_is_told_and_nothing_is_written(python: str, tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    script = tmp_path / "wrong.py"
    script.write_text(WRONG)
    run(python, "-W", "ignore", str(script), str(root / "apps/camera/models/classifier.ptl"))
    declared = root / "apps/camera/app.yaml"
    declared.write_text(f"{declared.read_text()}canonical: static\n")
    ran = canonical(root, python, "//apps/camera", "--write")
    assert ran.code == 1
    assert "error: the canonical model gives other results than this one" in ran.err
    assert re.search(r"seen: +forward\[0\] with float32\[4, 3\]: output\[\d, \d\]: ", ran.err)
    assert "exported for training (module.eval() was not called)" in ran.err
    assert list(root.glob("apps/camera/models/*canonical*")) == []


@pytest.mark.ci_only
@pytest.mark.real
def test_a_build_uses_it(python: str, exported: Callable[[str], Path], tmp_path: Path) -> None:
    """Traced, built and verified in the pinned PyTorch; then each file is spoilt."""
    root = canonical_workspace(tmp_path, exported, ["listener"])
    declared = root / "apps/listener/app.yaml"
    declared.write_text(declared.read_text().replace("  - linux-arm64\n", ""))
    missing = orchestrator("build", "//apps/listener", "--quiet", cwd=root)
    assert "has no canonical model" in missing.err
    assert canonical(root, python, "//apps/listener", "--write").code == 0
    stale = orchestrator("build", "//apps/listener", "--quiet", cwd=root)
    assert "the trace of words is stale: model, inputs changed since" in stale.err
    for verb in ("trace", "build"):
        ran = orchestrator(verb, "//apps/listener", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
    lock = yaml.safe_load((root / "apps/listener/models/words.canonical.yaml").read_text())
    trace = yaml.safe_load((root / "apps/listener/traces/words.yaml").read_text())
    assert trace["identity"]["model"] == lock["canonical"]
    assert trace["identity"]["inputs"] == lock["inputs"]
    operators = trace["selected_operators"]["operators"]
    named = {name for name, one in operators.items() if one["is_root_operator"]}
    assert named == set(lock["operators"]["after"])
    # it runs in its library on the inputs that are recorded beside it
    models = root / "apps/listener/models"
    library = ("--in", str(root / "dist/listener/linux-x86_64"))
    fits = orchestrator("fits", str(models / "words.canonical.ptl"), *library, cwd=root)
    assert fits.code == 0, fits.out + fits.err
    assert re.search(r"proven: it ran there \w+ times?, with the recorded outputs", fits.out), (
        fits.out
    )
    original = orchestrator("fits", str(models / "words.ptl"), *library, "--json", cwd=root)
    assert json.loads(original.out)["model"]["no_trace"] == (
        "it has no trace: //apps/listener ships apps/listener/models/words.canonical.ptl instead"
    )
    for name in ("words.ptl", "words.canonical.ptl"):
        file = root / "apps/listener/models" / name
        data = file.read_bytes()
        file.write_bytes(data + b"!")
        spoilt = orchestrator("build", "//apps/listener", "--quiet", cwd=root)
        assert spoilt.code == 1
        assert "apps/listener/models/words.canonical." in spoilt.err.splitlines()[0]
        file.write_bytes(data)
    assert orchestrator("build", "//apps/listener", "--quiet", cwd=root).code == 0


@pytest.mark.full_only
@pytest.mark.real
def test_a_traced_model_runs_in_its_library(
    python: str, exported: Callable[[str], Path], tmp_path: Path
) -> None:
    """Traced by torch, recorded in the pinned PyTorch, built, and verified in the library as it is
    delivered; its outputs are those of the original in that PyTorch."""
    root = canonical_workspace(tmp_path, exported, ["scanner"], "traced")
    declared = root / "apps/scanner/app.yaml"
    declared.write_text(declared.read_text().replace("  - ios-arm64\n", ""))
    assert canonical(root, python, "//apps/scanner", "--write").code == 0
    lock = yaml.safe_load((root / "apps/scanner/models/pages.canonical.yaml").read_text())
    assert lock["kind"] == "traced"
    # what is left of a branch on a size, which static conversion keeps
    assert "aten::gt.int" in lock["operators"]["before"]
    assert "aten::gt.int" not in lock["operators"]["after"]
    ran = orchestrator("trace", "//apps/scanner", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    built = orchestrator("build", "//apps/scanner", "--quiet", "--json", cwd=root)
    assert built.code == 0, built.err
    (variant,) = json.loads(built.out)["variants"]
    assert variant["verified"] == "ok"
    manifest = json.loads((root / "dist/scanner/linux-x86_64/manifest.json").read_text())
    assert manifest["selection"]["root_operators"] == sorted(lock["operators"]["after"])
    # the same inputs as the committed trace of the original
    runs = "apps/scanner/traces/pages.runs.zst"
    original, seen = (runs_in(one / runs) for one in (ROOT, root))
    assert len(original["runs"]) == len(seen["runs"]) > 0
    assert compare_results(original, seen) == []
