"""`init` and `new-app`: a workspace of one's own; and a broken app beside the others."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_load import APP, good_workspace
from test_output_schemas import faults as against_schema

from orchestrator import cli
from orchestrator.build.authoring.add_app import example_of
from orchestrator.build.delivering.build import Built
from orchestrator.build.workshop.runtimes import Runtimes
from orchestrator.commands import build as build_command
from orchestrator.commands.patterns import resolve_patterns, valid_labels
from orchestrator.errors import OrchestratorError
from orchestrator.load.workspace import load_config, load_workspace
from orchestrator.report.table import BuildReport
from orchestrator.system.staging import write_bytes
from orchestrator.values.labels import VariantLabel
from tests import ptl

ROOT = Path(__file__).parents[4]
CLASSIFIER = ROOT / "apps/camera/models/classifier.ptl"
FOREIGN = Path(__file__).parents[3] / "failing/models/foreign_operator/model.ptl"
WORDS = ROOT / "apps/keyboard/models/next_word.ptl"
EXPORTED = ROOT / "tests/failing/models/exported_program/model.ptl"
ENV = {"HOME": "/home/me", "PATH": ""}
Answer = Callable[..., tuple[int, str, str]]


@pytest.fixture
def answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Answer:
    """What a command answers in a workspace of its own: code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(words, env=ENV, cwd=tmp_path)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def files(root: Path) -> list[str]:
    found = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return sorted(name for name in found if not name.startswith(".orchestrator/"))


# --- init ---


def test_init_makes_a_workspace(answer: Answer, tmp_path: Path) -> None:
    installed = tmp_path / ".venv/bin/orchestrate"
    installed.parent.mkdir(parents=True)
    installed.touch()
    code, out, err = answer("init")
    assert (code, err) == (0, "")
    assert out == (
        "created orchestrate, .gitignore, WORKSPACE\nnext:\n  ./orchestrate doctor\n"
        "  ./orchestrate new-app NAME --model MODEL.ptl\n"
    )
    assert files(tmp_path) == [".gitignore", ".venv/bin/orchestrate", "WORKSPACE", "orchestrate"]
    # the pins are those of this repository, and nothing in it leads to this one
    assert load_config(tmp_path)[0] == load_config(ROOT)[0]
    assert "schemas/" not in (tmp_path / "WORKSPACE").read_text()
    workspace = load_workspace(tmp_path, ENV)
    assert "linux-x86_64" in workspace.toolchains
    assert not workspace.apps


def test_init_answers_machines(answer: Answer, tmp_path: Path) -> None:
    (tmp_path / "ml").mkdir()
    (tmp_path / "ml/.gitignore").write_text("mine\n")
    code, out, _ = answer("init", "--workspace", "ml", "--json")
    assert code == 0
    assert against_schema("init", out) == []
    assert json.loads(out)["root"] == str(tmp_path / "ml")
    assert json.loads(out)["files"] == ["orchestrate", "WORKSPACE"]
    # nothing is installed there, and nothing on PATH: this orchestrator, from where pip had it
    install = "echo 'libtorch-orchestrator @ file://"
    steps = json.loads(out)["next"]
    assert steps[0] == f"cd {tmp_path}/ml"
    assert steps[1].startswith(install)
    assert steps[1].endswith("' > orchestrator-requirements.txt")
    assert steps[2] == "./orchestrate doctor"
    assert (tmp_path / "ml/.gitignore").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "WORKSPACE",
            "WORKSPACE: error: this folder already has a WORKSPACE\n"
            "  do:       continue with it: ./orchestrate new-app NAME --model MODEL.ptl; if it is"
            " another tool's, run init in a subfolder\n",
        ),
        (
            "orchestrate",
            "orchestrate: error: a file with this name already exists\n"
            "  do:       move it away, or run init in a subfolder\n",
        ),
    ],
)
def test_init_writes_over_nothing(name: str, told: str, answer: Answer, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to("nowhere")
    assert answer("init") == (1, "", told)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("where", ["apps", "apps/vad", "apps/vad/models"])
def test_no_workspace_among_the_apps_of_another(where: str, answer: Answer, tmp_path: Path) -> None:
    """It would hide that one from every command that is run there."""
    (tmp_path / where).mkdir(parents=True)
    assert answer("init")[0] == 0
    assert answer("init", "--workspace", where) == (
        1,
        "",
        "error: this folder is in the apps/ of a workspace\n"
        f"  seen:     {tmp_path}\n"
        "  do:       add an app: ./orchestrate new-app NAME --model MODEL.ptl; for another"
        " workspace run init outside of this one\n",
    )
    assert files(tmp_path / where) == []
    (tmp_path / "ml").mkdir()
    assert answer("init", "--workspace", "ml")[0] == 0


def test_init_is_done_or_not(
    answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def full(path: Path, data: bytes, mode: int | None = None) -> None:
        if path.name == "WORKSPACE":
            raise OSError(28, "No space left on device", str(path))
        write_bytes(path, data, mode)

    monkeypatch.setattr("orchestrator.commands.init.write_bytes", full)
    assert answer("init")[0] == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", [".venv/bin", "elsewhere"])
def test_the_script_runs_what_is_installed(where: str, answer: Answer, tmp_path: Path) -> None:
    answer("init")
    program = tmp_path / where / "orchestrate"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$0" "$@"\n')
    program.chmod(0o755)
    (program.parent / "python3").symlink_to(str(shutil.which("sh")))
    env = {"PATH": f"{tmp_path}/elsewhere{os.pathsep}{os.environ['PATH']}"}
    argv = [str(tmp_path / "orchestrate"), "build", "a b"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{program} build a b\n"


def test_the_script_of_a_folder_that_was_moved(answer: Answer, tmp_path: Path) -> None:
    """What pip installs names the Python of the folder that it was installed in."""
    answer("init")
    tools = tmp_path / ".venv/bin"
    tools.mkdir(parents=True)
    (tools / "orchestrate").write_text("#!/gone/bin/python3\nimport sys\nprint(sys.argv[1:])\n")
    (tools / "orchestrate").chmod(0o755)
    argv = [str(tmp_path / "orchestrate"), "build", "a b"]
    gone = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (gone.returncode, gone.stderr) == (
        1,
        f"orchestrate: error: the Python of {tmp_path}/.venv is not there any more\n"
        "  do:       remove .venv, and install libtorch-orchestrator in a new one\n",
    )
    (tools / "python3").symlink_to(sys.executable)
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == "['build', 'a b']\n"


def test_the_script_without_an_orchestrator(answer: Answer, tmp_path: Path) -> None:
    answer("init")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "dirname"):
        (tools / name).symlink_to(str(shutil.which(name)))
    argv = [str(tmp_path / "orchestrate"), "build"]
    done = subprocess.run(
        argv, env={"PATH": str(tools)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "orchestrate: error: the orchestrator is not installed\n"
        f"  do:       install libtorch-orchestrator in {tmp_path}/.venv\n",
    )


def toy_wheel(folder: Path, version: int) -> None:
    """A wheel whose program `orchestrate` says its version."""
    info = f"toy-{version}.dist-info"
    with zipfile.ZipFile(folder / f"toy-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr("toy.py", f"def main():\n    print('version {version}')\n")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: toy\nVersion: {version}\n"
        )
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", tags)
        archive.writestr(f"{info}/entry_points.txt", "[console_scripts]\norchestrate = toy:main\n")
        names = ("toy.py", f"{info}/METADATA", f"{info}/WHEEL", f"{info}/entry_points.txt")
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in names))


def test_the_script_installs_what_is_listed(answer: Answer, tmp_path: Path) -> None:
    """By a real venv and pip; once, and again when the list has changed."""
    root = tmp_path / "a b"
    root.mkdir()
    for version in (1, 2):
        toy_wheel(root, version)
    answer("init")
    script = (tmp_path / "orchestrate").rename(root / "orchestrate")
    env = {**os.environ, "PIP_NO_INDEX": "1"}

    def ran() -> tuple[int, str, str]:
        done = subprocess.run([script], env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    told = "orchestrate: setting up .venv from orchestrator-requirements.txt\n"
    (root / "orchestrator-requirements.txt").write_text("./toy-1-py3-none-any.whl\n")
    assert ran() == (0, "version 1\n", told)
    assert ran() == (0, "version 1\n", "")
    (root / "orchestrator-requirements.txt").write_text("./toy-2-py3-none-any.whl\n")
    assert ran() == (0, "version 2\n", told)
    (root / "orchestrator-requirements.txt").write_text("./missing.whl\n")
    code, out, err = ran()
    assert (code, out) == (1, "")
    assert err.endswith(
        "orchestrate: error: what orchestrator-requirements.txt lists could not be installed\n"
    )
    # an installation that failed is not taken for one
    assert ran()[0] == 1


# --- new-app ---


@pytest.fixture
def workspace(answer: Answer, tmp_path: Path) -> Path:
    assert answer("init")[0] == 0
    return tmp_path


def older_by_default(workspace: Path) -> None:
    """Make 1.13.1 the runtime of apps that name none."""
    declared = workspace / "WORKSPACE"
    text = declared.read_text()
    assert text.count("  runtime: pytorch_2_6\n") == 1
    declared.write_text(text.replace("  runtime: pytorch_2_6\n", "  runtime: pytorch_1_13\n"))


def hand_made(path: Path, *types: str) -> None:
    """A model without inputs inside, whose `forward` takes these, and a private method."""
    named = [ptl.argument(f"x{number}", kind) for number, kind in enumerate(types)]
    signature = ptl.schema(ptl.tuple_of(ptl.argument("self", ptl.MODULE), *named))
    code = ptl.bytecode(
        ptl.function(signature=signature),
        ptl.function(f"{ptl.MODULE}._private", signature=signature),
    )
    path.write_bytes(ptl.model(code))


def test_new_app(answer: Answer, workspace: Path) -> None:
    words = ["--model", str(CLASSIFIER), "--model", str(WORDS), "--target", "ios-simulator"]
    code, out, err = answer("new-app", "camera", *words, "--target", "linux-arm64")
    assert (code, err) == (0, "")
    assert out == (
        "created apps/camera/app.yaml, for ios-simulator, linux-arm64\n"
        "  models/classifier.ptl: 13 operators; forward with 2 inputs inside\n"
        "  models/next_word.ptl: 28 operators; forward with 2 inputs inside, suggest with 1 inputs"
        " inside\n"
        "next:\n  ./orchestrate trace //apps/camera\n  ./orchestrate build //apps/camera\n"
    )
    assert files(workspace / "apps") == [
        "camera/app.yaml",
        "camera/models/classifier.ptl",
        "camera/models/next_word.ptl",
    ]
    assert (workspace / "apps/camera/app.yaml").read_text() == (
        "models:\n  - file: models/classifier.ptl\n  - file: models/next_word.ptl\n"
        "targets:\n  - ios-simulator\n  - linux-arm64\n"
    )
    copy = workspace / "apps/camera/models/classifier.ptl"
    assert copy.read_bytes() == CLASSIFIER.read_bytes()
    loaded = load_workspace(workspace, ENV)
    assert not loaded.broken
    assert loaded.targets["camera"][-1] == "linux-arm64"


def test_a_model_without_inputs_gets_examples(answer: Answer, workspace: Path) -> None:
    hand_made(workspace / "raw.ptl", "Tensor", "int", "Optional[Tensor]", "List[Tensor]", "str")
    code, out, _ = answer("new-app", "raw", "--model", "raw.ptl", "--json")
    assert code == 0
    assert against_schema("new-app", out) == []
    told = json.loads(out)
    assert told["targets"] == ["linux-x86_64"]
    assert told["models"] == [
        {
            "file": "models/raw.ptl",
            "operators": [],
            "methods": ["forward"],
            "inputs": {},
            "example_inputs": True,
            "foreign_devices": [],
        }
    ]
    assert told["next"][0] == "fill in the input shapes in apps/raw/app.yaml"
    assert (workspace / "apps/raw/app.yaml").read_text() == (
        "models:\n  - file: models/raw.ptl\n"
        "    # the file has no inputs inside: give the shapes that it takes\n"
        "    inputs:\n      - method: forward\n        args:\n"
        "          - {shape: [1], fill: uniform}\n          - 1\n          - null\n"
        '          - [{shape: [1], fill: uniform}]\n          - "text"\n'
        "targets:\n  - linux-x86_64\n"
    )
    assert not load_workspace(workspace, ENV).broken


def test_operators_of_torchvision_are_switched_on(answer: Answer, workspace: Path) -> None:
    shutil.copy(FOREIGN, workspace / "boxes.ptl")
    code, _, err = answer("new-app", "boxes", "--model", "boxes.ptl")
    assert (code, err) == (0, "")
    assert (workspace / "apps/boxes/app.yaml").read_text() == (
        "models:\n  - file: models/boxes.ptl\ntargets:\n  - linux-x86_64\n"
        "sources:\n  operators:\n    - torchvision::nms\n"
    )
    assert not load_workspace(workspace, ENV).broken


def test_apps_on_a_file_system_of_their_own(
    answer: Answer, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container's mount, for one: the app is copied, and app.yaml comes last or not at all."""
    move = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if target.name == "mine":
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(self))
        return move(self, target)

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "rename", rename)
    with monkeypatch.context() as patch:
        patch.setattr("orchestrator.build.authoring.add_app.write_bytes", full)
        assert answer("new-app", "mine", "--model", str(CLASSIFIER))[0] == 1
    assert not (workspace / "apps/mine").exists()
    assert answer("new-app", "mine", "--model", str(CLASSIFIER))[0] == 0
    assert files(workspace / "apps/mine") == ["app.yaml", f"models/{CLASSIFIER.name}"]


def test_what_a_killed_new_app_left_goes(answer: Answer, workspace: Path) -> None:
    add = "from orchestrator import cli; import os, shutil, sys;"
    add += "shutil.copyfile = lambda source, target: (target.touch(), os.kill(os.getpid(), 9));"
    add += f"cli.main(['new-app', 'camera', '--model', {str(CLASSIFIER)!r}])"
    killed = subprocess.run([sys.executable, "-c", add], cwd=workspace, check=False)
    assert killed.returncode == -9
    left = workspace / ".orchestrator/new-app"
    assert [path.name for path in left.rglob("*.ptl")] == ["classifier.ptl"]
    assert not (workspace / "apps").exists()
    hand_made(workspace / "raw.ptl")
    assert answer("new-app", "raw", "--model", "raw.ptl")[0] == 0
    assert not left.exists()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Tensor", "{shape: [1], fill: uniform}"),
        ("Tensor?", "null"),
        ("Optional[List[int]]", "null"),
        ("int[]", "[1]"),
        ("List[float]", "[0.5]"),
        ("bool", "true"),
        ("Dict[str, Tensor]", None),
        ("Tuple[int, int]", None),
        ("List[List[int]]", None),
        ("Any", None),
    ],
)
def test_examples_of_types(text: str, value: str | None) -> None:
    assert example_of(text) == value


REFUSALS = {
    "exists": (
        ["camera", "--model", "raw.ptl"],
        "apps/camera: error: there is an app //apps/camera already\n"
        "  do:       take another name, or edit its app.yaml\n",
    ),
    "folder": (
        ["shared", "--model", "raw.ptl"],
        "apps/shared: error: there is a folder of this name already\n"
        "  do:       take another name, or move the folder away; models are copied into a new one"
        "\n",
    ),
    "name": (
        ["../up", "--model", "raw.ptl"],
        "error: an app cannot have this name: it is not valid in a label\n"
        "  expected: a name of letters, digits, `.`, `_` and `-`, that begins with a letter or"
        " digit, of at most 100\n  seen:     ../up\n  do:       did you mean up?\n",
    ),
    "missing": (
        ["vad", "--model", "none.ptl"],
        "none.ptl: error: the model cannot be read\n  expected: a .ptl file\n"
        "  seen:     No such file or directory\n"
        "  do:       check the path after --model, and the file's permissions\n",
    ),
    "no_model": (
        ["vad", "--model", "text.ptl"],
        "text.ptl: error: this is not a .ptl model\n"
        "  expected: a zip archive, as torch.jit writes it\n"
        "  seen:     a file that begins with 76 65 72 73\n"
        "  do:       export it again with module._save_for_lite_interpreter(path)\n",
    ),
    "suffix": (
        ["vad", "--model", "raw.pt"],
        "raw.pt: error: the name of this file is not valid for a model\n"
        "  expected: a file .ptl or .pt2; before that a name of letters, digits, `.`, `_` and `-`,"
        " that begins with a letter or digit, of at most 100\n"
        "  seen:     raw.pt\n  do:       copy it under another name\n",
    ),
    "other_format": (
        ["vad", "--model", "exported.pt2", "--model", "none.onnx"],
        "exported.pt2: error: this model is truncated or damaged\n"
        "  expected: a complete .pt2 archive\n"
        "  seen:     models/model.json: Expecting value: line 1 column 1 (char 0)\n"
        "  do:       copy the file again, or export it again\n"
        "none.onnx: error: the model cannot be read\n"
        "  expected: a .ptl file\n"
        "  seen:     No such file or directory\n"
        "  do:       check the path after --model, and the file's permissions\n"
        "2 errors in the workspace files\n",
    ),
    "twice": (
        ["vad", "--model", "raw.ptl", "--model", "other/raw.ptl"],
        "error: two models are called `raw`\n  do:       copy one under another name\n",
    ),
    "inputs": (
        ["vad", "--model", "dict.ptl"],
        "dict.ptl: error: this model has no inputs to run it with\n"
        "  expected: inputs bundled in the model, or `inputs:` for it in app.yaml\n"
        "  seen:     the methods _private, forward\n"
        "  do:       bundle some with torch.utils.bundled_inputs.bundle_inputs before saving, or"
        " declare their shapes and dtypes in app.yaml\n",
    ),
    "target": (
        ["vad", "--model", "raw.ptl", "--target", "linux-x64"],
        "error: no toolchain for linux-x64\n"
        "  expected: android-arm64-v8a, android-armeabi-v7a, android-x86_64, ios-arm64,"
        " ios-simulator, ios-simulator-arm64, ios-simulator-x86_64, linux-arm64, linux-arm64-musl,"
        " linux-x86_64\n  seen:     linux-x64\n  do:       did you mean `linux-x86_64`?\n",
    ),
    "package": (
        ["CAMERA", "--model", "raw.ptl"],
        "apps/CAMERA/app.yaml:1:1: error: two apps have the same package name\n"
        "  seen:     `camera-libtorch`, which is also //apps/camera's (apps/camera/app.yaml:1:1)\n"
        "  do:       give one of them another `package_name`\n",
    ),
    "runtime": (
        ["vad", "--model", "raw.ptl", "--runtime", "2.6"],
        "error: WORKSPACE pins no runtime 2.6\n  expected: pytorch_1_13, pytorch_2_6\n"
        "  seen:     2.6\n  do:       did you mean `pytorch_2_6`?\n",
    ),
    "target_twice": (
        ["vad", "--model", "raw.ptl", "--target", "linux-arm64", "--target", "linux-arm64"],
        "apps/vad/app.yaml:10:5: error: `targets` lists `linux-arm64` twice\n"
        "  do:       keep one of them\n",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_new_app_refuses(case: str, answer: Answer, workspace: Path) -> None:
    words, told = REFUSALS[case]
    hand_made(workspace / "raw.ptl", "Tensor")
    hand_made(workspace / "dict.ptl", "Dict[str, Tensor]")
    shutil.copy(workspace / "raw.ptl", workspace / "raw.pt")
    shutil.copy(EXPORTED, workspace / "exported.pt2")
    shutil.copy(workspace / "WORKSPACE", workspace / "text.ptl")
    assert answer("new-app", "camera", "--model", "raw.ptl")[0] == 0
    (workspace / "apps/shared").mkdir()
    before = sorted(workspace.rglob("*"))
    assert answer("new-app", *words) == (1, "", told)
    assert sorted(workspace.rglob("*")) == before


def naming(path: Path, *operators: str) -> None:
    """A model that names these operators, with inputs inside."""
    tables = ptl.code(operators=ptl.tuple_of(*(ptl.operator(name) for name in operators)))
    bundled = ptl.function(f"{ptl.MODULE}.get_all_bundled_inputs_for_forward")
    record = ptl.bytecode(ptl.function(tables=tables, signature=ptl.schema()), bundled)
    path.write_bytes(ptl.model(record))


ATTENTION = "aten::scaled_dot_product_attention"


def test_an_operator_that_the_runtime_has_not(answer: Answer, workspace: Path) -> None:
    """Known from what is shipped: nothing is fetched. What it says to do works."""
    older_by_default(workspace)
    naming(workspace / "new.ptl", ATTENTION)
    hand_made(workspace / "raw.ptl", "Tensor")
    words = [
        "new-app",
        "vad",
        "--model",
        "raw.ptl",
        "--model",
        "new.ptl",
        "--target",
        "linux-arm64",
    ]
    code, _, err = answer(*words)
    command = f"./orchestrate {' '.join(words)}"
    assert (code, err[: err.index("  | ")]) == (
        1,
        "new.ptl: error: this model names an operator newer than PyTorch 1.13.1\n"
        "  expected: operators of PyTorch 1.13.1\n"
        f"  seen:     {ATTENTION}\n"
        f"  do:       pytorch_2_6 has it: {command} --runtime pytorch_2_6; or export it again"
        " with its TorchScript, and `canonical` replaces"
        f" it by operators that are there: {command} --canonical, then ./orchestrate canonical"
        " //apps/vad --write\n",
    )
    assert not (workspace / "apps").exists()
    code, out, err = answer(*words, "--canonical")
    assert (code, err) == (0, "")
    assert out == (
        "created apps/vad/app.yaml, for linux-arm64\n"
        "  models/raw.ptl: 0 operators; forward without inputs\n"
        "  models/new.ptl: 1 operators; forward with inputs inside\n"
        "next:\n  fill in the input shapes in apps/vad/app.yaml\n"
        "  ./orchestrate canonical //apps/vad --write\n"
        "  ./orchestrate trace //apps/vad\n  ./orchestrate build //apps/vad\n"
    )
    text = (workspace / "apps/vad/app.yaml").read_text()
    assert text.startswith("canonical: static\nmodels:\n  - file: models/raw.ptl\n")
    code, out, _ = answer("new-app", "other", "--model", "new.ptl", "--runtime", "pytorch_2_6")
    assert code == 0
    text = (workspace / "apps/other/app.yaml").read_text()
    assert text.startswith("runtime: pytorch_2_6\nmodels:\n  - file: models/new.ptl\n")
    loaded = load_workspace(workspace, ENV)
    assert not loaded.broken
    assert loaded.apps["other"].runtime == "pytorch_2_6"
    (workspace / "in a folder").mkdir()
    naming(workspace / "in a folder/new.ptl", ATTENTION)
    _, _, err = answer("new-app", "blank", "--model", "in a folder/new.ptl")
    assert "./orchestrate new-app blank --model 'in a folder/new.ptl' --canonical, then" in err


def test_an_operator_that_nothing_replaces(answer: Answer, workspace: Path) -> None:
    older_by_default(workspace)
    naming(workspace / "new.ptl", ATTENTION, "aten::scan")
    code, _, err = answer("new-app", "vad", "--model", "new.ptl", "--canonical")
    assert code == 1
    assert "this model names an operator that PyTorch 1.13.1 does not have" in err
    assert "--canonical" not in err
    assert not (workspace / "apps").exists()


# --- a broken app beside others ---


@pytest.fixture
def two_apps(tmp_path: Path) -> Path:
    root = good_workspace(tmp_path)
    (root / "apps/vad").mkdir()
    (root / "apps/vad/app.yaml").write_text(APP + "optimise: size\nbudget: 1\n")
    return root


WARNING = "warning: //apps/vad is skipped: apps/vad/app.yaml:1:17: "


def test_what_needs_a_broken_app(two_apps: Path) -> None:
    workspace = load_workspace(two_apps, ENV)
    camera = (VariantLabel("camera", "linux-x86_64"),)
    said: list[str] = []
    assert resolve_patterns(["//apps/camera"], workspace, said.append) == camera
    (warning,) = said
    assert warning == f"{WARNING}the model file does not exist, and 2 more"
    said.clear()
    for pattern in ("//...", "//apps/vad", "//apps/vad:linux-x86_64", "//...:linux-arm64"):
        with pytest.raises(OrchestratorError) as caught:
            resolve_patterns(["//apps/camera", pattern], workspace, said.append)
        assert caught.value.what == "3 errors in the workspace files"
    assert said == []
    labels, faults = valid_labels(["//..."], workspace, said.append)
    assert (labels, len(faults)) == (camera, 3)
    with pytest.raises(OrchestratorError) as caught:
        valid_labels(["//apps/camrea"], workspace, said.append)
    assert caught.value.hint == "did you mean //apps/camera?"


@pytest.fixture
def labels_built(monkeypatch: pytest.MonkeyPatch) -> list[VariantLabel]:
    """The labels that a build is asked for; it builds nothing."""
    asked: list[VariantLabel] = []

    def build(here: object, labels: tuple[VariantLabel, ...], **_: object) -> Built:
        asked.extend(labels)
        return Built(BuildReport(()), read=SimpleNamespace())  # type: ignore[arg-type]

    monkeypatch.setattr(build_command, "build", build)
    monkeypatch.setattr(Runtimes, "prepare", lambda runtimes, apps: None)
    monkeypatch.setattr(build_command, "keep", lambda *_, **__: pytest.fail("it would be silent"))
    return asked


def test_a_build_of_another_app(
    two_apps: Path, labels_built: list[VariantLabel], capsys: pytest.CaptureFixture[str]
) -> None:
    env = ENV | {"ORCHESTRATOR_CACHE": "cache"}
    assert cli.main(["build", "//apps/camera"], env=env, cwd=two_apps) == 1
    assert labels_built == []
    warned, told = capsys.readouterr().err.split("\n", 1)
    assert warned.startswith(WARNING)
    assert told == (
        "error: the model small of //apps/camera has not been traced\n"
        "  expected: apps/camera/traces/small.yaml\n"
        "  do:       run: ./orchestrate trace //apps/camera\n"
    )
    (two_apps / "apps/camera/traces").mkdir()
    (two_apps / "apps/camera/traces/small.yaml").touch()
    assert cli.main(["build", "//apps/camera"], env=env, cwd=two_apps) == 0
    assert labels_built == [VariantLabel("camera", "linux-x86_64")]
    assert capsys.readouterr().err.startswith(WARNING)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            ["export", "bazel", "out"],
            "error: the model small of //apps/camera has not been traced\n"
            "  expected: apps/camera/traces/small.yaml\n"
            "  do:       run: ./orchestrate trace //apps/camera\n",
        ),
        (
            ["verify"],
            "error: //apps/camera:linux-x86_64 has not been built in this workspace\n"
            "  seen:     no libcamera_torch.so\n"
            "  do:       run: ./orchestrate build //apps/camera:linux-x86_64\n",
        ),
    ],
)
def test_nothing_is_fetched_for_what_cannot_be_done(
    command: list[str],
    said: str,
    two_apps: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("prepare", "on"):
        monkeypatch.setattr(Runtimes, name, lambda *_: pytest.fail("it would fetch"))
    env = ENV | {"ORCHESTRATOR_CACHE": "cache"}
    assert cli.main([*command, "//apps/camera"], env=env, cwd=two_apps) == 1
    assert capsys.readouterr().err.endswith(said)


def test_a_build_of_all(
    two_apps: Path, labels_built: list[VariantLabel], capsys: pytest.CaptureFixture[str]
) -> None:
    env = ENV | {"ORCHESTRATOR_CACHE": "cache"}
    assert cli.main(["build", "//..."], env=env, cwd=two_apps) == 1
    assert labels_built == []
    err = capsys.readouterr().err
    assert err.startswith("apps/vad/app.yaml:1:17: error: the model file does not exist\n")
    assert err.endswith("3 errors in the workspace files\n")


def test_a_build_of_all_that_keeps_going(
    two_apps: Path, labels_built: list[VariantLabel], capsys: pytest.CaptureFixture[str]
) -> None:
    env = ENV | {"ORCHESTRATOR_CACHE": "cache"}
    assert cli.main(["build", "//...", "-k", "--json"], env=env, cwd=two_apps) == 1
    assert labels_built == [VariantLabel("camera", "linux-x86_64")]
    said = capsys.readouterr()
    assert against_schema("build", said.out) == []
    assert [one["place"]["line"] for one in json.loads(said.out)["errors"]] == [1, 3, 4]
    assert said.err.count(": error: ") == 3


def test_verbs_that_need_no_app_warn(two_apps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "bash"], env=ENV, cwd=two_apps) == 0
    said = capsys.readouterr()
    assert said.err.startswith(WARNING)
    assert "//apps/camera" in said.out
    cli.main(["doctor"], env=ENV | {"ORCHESTRATOR_CACHE": "cache"}, cwd=two_apps)
    assert WARNING in capsys.readouterr().err
