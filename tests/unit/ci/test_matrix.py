"""What a change touches, in real git repositories; and the texts for each CI system."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml
from git_toy import (
    CAMERA,
    ENV,
    KEYBOARD,
    TOOLCHAIN,
    WORKSPACE,
    commit,
    git,
    other_trace,
    repository,
    workspace,
    write,
)
from golden_files import Golden

from orchestrator import cli
from orchestrator.ci import git_tree as git_tree_module
from orchestrator.ci import matrix as pipeline_matrix
from orchestrator.ci.git_tree import GitFailedError, GitTree, git_tree
from orchestrator.ci.jobs import Job, Matrix
from orchestrator.ci.matrix import matrix_since
from orchestrator.context import Context
from orchestrator.errors import OrchestratorError
from orchestrator.load.workspace import load_workspace

CASES = Path(__file__).parents[2] / "failing/matrix"
# the pin of `WORKSPACE` under two names, and another one
NAMED = f"""\
version: 1
runtimes:
  first: {{pytorch: 1.13.1, tree: "{"0" * 64}", sources: [path: here]}}
  same: {{pytorch: 1.13.1, tree: "{"0" * 64}", sources: [path: here]}}
  other: {{pytorch: 1.13.1, tree: "{"1" * 64}", sources: [path: here]}}
defaults:
  runtime: first
  optimize: balanced
"""
ARM, HOST, KEYS = (
    "//apps/camera:linux-arm64",
    "//apps/camera:linux-x86_64",
    "//apps/keyboard:linux-x86_64",
)


def context(root: Path, env: dict[str, str] = ENV) -> Context:
    return Context(root, root / "cache", root / ".orchestrator", root / "dist", env)


def since(root: Path, revision: str = "HEAD", *also: str) -> dict[str, tuple[str, ...]]:
    found = matrix_since(context(root), load_workspace(root, ENV), revision, also)
    return {job.label: job.reasons for job in found.jobs}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "workspace")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, {}),
        ({"docs/notes.md": "other"}, {}),
        ({"apps/camera/export.py": "new"}, {}),
        # a comment, an order of keys, another spelling of the same
        ({"apps/camera/app.yaml": "# other words\n" + CAMERA}, {}),
        ({"apps/camera/app.yaml": CAMERA.replace("2MB", "2000 kB")}, {}),
        ({"WORKSPACE": WORKSPACE + "jobs: 3\ncache: elsewhere\n"}, {}),
        ({"WORKSPACE": WORKSPACE.replace("path: here", "path: there")}, {}),
        (
            {"apps/camera/app.yaml": CAMERA + "version: 2.0.0\n"},
            dict.fromkeys((ARM, HOST), ("apps/camera/app.yaml: version",)),
        ),
        (
            {"apps/camera/app.yaml": CAMERA.replace("2MB", "3MB")},
            {HOST: ("apps/camera/app.yaml: budgets.linux-x86_64",)},
        ),
        (
            {"apps/camera/models/classifier.ptl": "other"},
            dict.fromkeys((ARM, HOST), ("apps/camera/models/classifier.ptl",)),
        ),
        (
            {"apps/camera/traces/classifier.yaml": other_trace()},
            dict.fromkeys((ARM, HOST), ("apps/camera/traces/classifier.yaml",)),
        ),
        (
            {"apps/camera/traces/classifier.runs.zst": "other"},
            dict.fromkeys((ARM, HOST), ("apps/camera/traces/classifier.runs.zst",)),
        ),
        (
            {
                "toolchains/linux-arm64.yaml": TOOLCHAIN.format(
                    abi="linux-arm64", processor="arm64"
                )
                + "compile_flags: [-g0]\n"
            },
            {ARM: ("toolchains/linux-arm64.yaml: compile_flags",)},
        ),
        (
            {"orchestrator-requirements.txt": "libtorch-orchestrator==0.2.0\n"},
            dict.fromkeys((ARM, HOST, KEYS), ("orchestrator-requirements.txt",)),
        ),
        # a default touches the apps that use it
        (
            {"WORKSPACE": WORKSPACE.replace("balanced", "speed")},
            dict.fromkeys((ARM, HOST), ("WORKSPACE: defaults.optimize",)),
        ),
        # an app that now says what it had by default before is the same
        ({"apps/camera/app.yaml": CAMERA + "optimize: balanced\n"}, {}),
        (
            {"WORKSPACE": WORKSPACE.replace("0" * 64, "1" * 64)},
            dict.fromkeys((ARM, HOST, KEYS), ("WORKSPACE: runtime.tree",)),
        ),
        # a runtime's name touches nothing, another one those that are cut from it
        ({"WORKSPACE": NAMED}, {}),
        ({"WORKSPACE": NAMED, "apps/camera/app.yaml": CAMERA + "runtime: same\n"}, {}),
        (
            {"WORKSPACE": NAMED, "apps/camera/app.yaml": CAMERA + "runtime: other\n"},
            dict.fromkeys((ARM, HOST), ("apps/camera/app.yaml: runtime",)),
        ),
        (
            {"WORKSPACE": NAMED.replace("runtime: first", "runtime: other")},
            dict.fromkeys((ARM, HOST, KEYS), ("WORKSPACE: defaults.runtime",)),
        ),
        (
            {"WORKSPACE": WORKSPACE + "precompiled_headers: false\n"},
            dict.fromkeys((ARM, HOST, KEYS), ("WORKSPACE: precompiled_headers",)),
        ),
        (
            {"apps/keyboard/app.yaml": KEYBOARD.replace("x86_64]", "x86_64, linux-arm64]")},
            {"//apps/keyboard:linux-arm64": ("new",)},
        ),
        (
            {
                "apps/keyboard/app.yaml": KEYBOARD
                + "selection: static\npackage_name: keys-libtorch\n"
            },
            {
                KEYS: (
                    "apps/keyboard/app.yaml: selection",
                    "apps/keyboard/app.yaml: package_name",
                )
            },
        ),
        (
            {"apps/keyboard/app.yaml": KEYBOARD.replace("- file", "- name: words\n    file")},
            {
                KEYS: (
                    "apps/keyboard/app.yaml: model words",
                    "apps/keyboard/app.yaml: model next_word was removed",
                )
            },
        ),
        (
            {"apps/reader/app.yaml": KEYBOARD, "apps/reader/models/next_word.ptl": "model"},
            {"//apps/reader:linux-x86_64": ("new",)},
        ),
    ],
)
def test_what_a_change_touches(
    files: dict[str, str], expected: dict[str, tuple[str, ...]], root: Path
) -> None:
    base = git(root, "rev-parse", "HEAD")
    write(root, files)
    # not committed, not even added; then staged; then committed
    assert since(root) == expected
    git(root, "add", "--all", ".")
    assert since(root) == expected
    commit(root)
    assert since(root) == {}
    assert since(root, base) == since(root, "HEAD~1") == expected


def test_what_is_removed_is_no_job(root: Path) -> None:
    shutil.rmtree(root / "apps/keyboard")
    (root / "apps/camera/app.yaml").write_text(CAMERA.replace("linux-arm64, ", ""))
    assert since(root) == {}


def test_a_comment_in_a_trace_touches_nothing(root: Path) -> None:
    lock = root / "apps/camera/traces/classifier.yaml"
    lock.write_text("# merged by hand\n" + lock.read_text())
    assert since(root) == {}
    lock.unlink()
    assert set(since(root)) == {ARM, HOST}


def test_a_file_that_the_user_names_touches_everything(root: Path) -> None:
    (root / "requirements.txt").write_text("libtorch-orchestrator==0.1.0\n")
    assert since(root) == {}
    assert since(root, "HEAD", "requirements.txt", "other.txt") == dict.fromkeys(
        (ARM, HOST, KEYS), ("requirements.txt",)
    )


def test_a_workspace_in_a_folder_of_a_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", ".")
    inner = workspace(tmp_path / "mobile/torch")
    write(tmp_path, {"apps/camera/app.yaml": "not ours", "WORKSPACE": "a Bazel file"})
    commit(tmp_path)
    write(tmp_path, {"apps/camera/app.yaml": "other", "apps/camera/models/classifier.ptl": "x"})
    assert since(inner) == {}
    write(inner, {"apps/keyboard/models/next_word.ptl": "other"})
    assert since(inner) == {KEYS: ("apps/keyboard/models/next_word.ptl",)}


@pytest.mark.parametrize(
    "name", ["with blank", 'quo"te', "new\nline", "ünïcode", "-dash", ":(top)x"]
)
def test_odd_paths(name: str, root: Path) -> None:
    write(root, {f"apps/camera/{name}/{name}.txt": "x"})
    odd = os.fsdecode(b"apps/camera/\xff\xfe.bin")
    (root / odd).write_bytes(b"\0")
    commit(root)
    write(root, {f"apps/camera/{name}/{name}.txt": "y", f"{name}": "untracked"})
    (root / odd).write_bytes(b"\1")
    (root / "apps/camera/models/classifier.ptl").write_bytes(b"\r\n")
    assert set(since(root)) == {ARM, HOST}
    changed = git_tree(root, ENV).changed(git(root, "rev-parse", "HEAD"))
    assert changed == {
        name,
        f"apps/camera/{name}/{name}.txt",
        odd,
        "apps/camera/models/classifier.ptl",
    }


def test_contents_are_read_byte_by_byte(root: Path) -> None:
    contents = {"a": b"", "b": b"\r\n\0\xff\n", "c": b"x" * 100_000}
    for name, content in contents.items():
        (root / name).write_bytes(content)
    tree = git_tree(root, ENV)
    blobs = tree.files(commit(root))
    assert {name: tree.contents([blobs[name]])[blobs[name]] for name in contents} == contents
    assert set(tree.contents(blobs.values())) == set(blobs.values())


@pytest.mark.parametrize(("most", "asked"), [(100_005, 1), (100_004, 2), (4, 3)])
def test_no_more_than_a_batch_is_read_at_once(
    root: Path, monkeypatch: pytest.MonkeyPatch, most: int, asked: int
) -> None:
    """A blob that is larger is alone; each file is read once."""
    contents = {"batch/a": b"", "batch/b": b"\r\n\0\xff\n", "batch/c": b"x" * 100_000}
    (root / "batch").mkdir()
    for name, content in contents.items():
        (root / name).write_bytes(content)
    tree, read = git_tree(root, ENV), list[set[str]]()
    blobs = tree.files(commit(root), "batch")
    whole = GitTree.contents

    def counted(self: GitTree, names: Sequence[str]) -> dict[str, bytes]:
        read.append({*names})
        return whole(self, names)

    monkeypatch.setattr(git_tree_module, "BATCH", most)
    monkeypatch.setattr(GitTree, "contents", counted)
    found = dict(tree.in_batches(blobs.values()))
    assert {name: found[blobs[name]] for name in contents} == contents
    assert set.union(*read) == {*blobs.values()}
    assert len(read) <= asked
    assert list(tree.in_batches([])) == []


def test_a_workspace_that_is_new_or_was_broken(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", ".")
    write(tmp_path, {"README": "nothing else"})
    commit(tmp_path)
    workspace(tmp_path)
    assert since(tmp_path) == dict.fromkeys((ARM, HOST, KEYS), ("the workspace is new",))
    write(tmp_path, {"toolchains/linux-arm64.yaml": "abi: []\n"})
    commit(tmp_path)
    workspace(tmp_path)
    assert set(since(tmp_path).values()) == {("the previous declarations cannot be read",)}


def test_an_app_that_was_broken(root: Path) -> None:
    write(root, {"apps/camera/app.yaml": "model: []\n"})
    commit(root)
    workspace(root)
    assert since(root) == {ARM: ("new",), HOST: ("new",)}


def test_an_app_that_is_broken_since(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no job that would tell of it; one that was broken before keeps nobody."""
    write(root, {"apps/camera/app.yaml": "model: []\n"})
    with pytest.raises(OrchestratorError) as caught:
        since(root)
    assert caught.value.render().startswith("apps/camera/app.yaml:1:1: error: ")
    with pytest.raises(OrchestratorError):
        since(root, "0" * 40)
    commit(root)
    write(root, {"apps/keyboard/models/next_word.ptl": "other"})
    assert since(root) == {KEYS: ("apps/keyboard/models/next_word.ptl",)}
    assert cli.main(["matrix", "--since", "HEAD"], env=ENV, cwd=root) == 0
    assert capsys.readouterr().err.startswith("warning: //apps/camera is skipped: apps/camera/app.")
    # broken in another way
    write(root, {"apps/camera/app.yaml": "models: 1\n"})
    with pytest.raises(OrchestratorError):
        since(root)


def test_what_another_branch_changed_is_no_change_of_this_one(root: Path) -> None:
    git(root, "branch", "behind")
    write(root, {"apps/keyboard/app.yaml": KEYBOARD + "version: 2.0.0\n"})
    newer = commit(root)
    git(root, "checkout", "--quiet", "behind")
    write(root, {"apps/camera/models/classifier.ptl": "other"})
    commit(root)
    assert set(since(root, newer)) == {ARM, HOST}
    # two histories that share nothing
    git(root, "checkout", "--quiet", "--orphan", "alone")
    commit(root)
    assert set(since(root, newer)) == {ARM, HOST, KEYS}


def test_the_first_push_of_a_branch_has_no_commit_before_it(root: Path) -> None:
    assert since(root, "0" * 40) == dict.fromkeys((ARM, HOST, KEYS), ("no commit to compare with",))


def test_the_orchestrators_own_sources_touch_everything(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = root / "tools/orchestrator"
    monkeypatch.setattr(pipeline_matrix, "_PACKAGE", package)
    project = '[project]\nversion = "{}"\ndependencies = ["ziglang==1"]\n[tool.x]\ny = {}\n'
    write(root, {"tools/orchestrator/plan.py": "1", "tools/pyproject.toml": project.format(1, 1)})
    commit(root)
    assert since(root) == {}
    write(root, {"tools/pyproject.toml": project.format(1, 2)})
    assert since(root) == {}
    write(root, {"tools/orchestrator/plan.py": "2", "tools/orchestrator/new.py": "2"})
    assert set(since(root).values()) == {("orchestrator: new.py and 1 more",)}
    write(root, {"tools/pyproject.toml": project.format(2, 2)})
    assert set(since(root).values()) == {
        ("orchestrator: new.py and 1 more", "pyproject.toml: version")
    }


def test_sources_that_lie_elsewhere_say_nothing(root: Path, tmp_path: Path) -> None:
    assert git_tree(root, ENV).top == root
    assert since(root) == {}


# --- what a CI system reads ---

NOTHING = Matrix("c" * 40, ())
SOME = Matrix(
    "c" * 40,
    (
        Job("camera", "linux-arm64", ("new",)),
        Job("camera", "linux-x86_64", ("WORKSPACE: runtime.tree", 'apps/camera/a "b": x')),
    ),
)


def test_json() -> None:
    assert json.loads(NOTHING.to_json()) == {
        "format": 1,
        "commit": "c" * 40,
        "any": False,
        "jobs": [],
    }
    assert json.loads(SOME.to_json())["jobs"][0] == {
        "label": "//apps/camera:linux-arm64",
        "app": "camera",
        "abi": "linux-arm64",
        "reasons": ["new"],
    }


def github(matrix: Matrix) -> dict[str, str]:
    """The outputs, as GitHub reads them: a `name=value` line each."""
    return dict(line.split("=", 1) for line in matrix.to_github().splitlines())


def test_github() -> None:
    assert github(NOTHING) == {"matrix": '{"include": []}', "any": "false", "count": "0"}
    outputs = github(SOME)
    assert (outputs["any"], outputs["count"]) == ("true", "2")
    assert json.loads(outputs["matrix"])["include"][1] == {
        "label": "//apps/camera:linux-x86_64",
        "app": "camera",
        "abi": "linux-x86_64",
        "reason": 'WORKSPACE: runtime.tree; apps/camera/a "b": x',
    }


GITLAB = """\
# Written by `orchestrator matrix`.
include:
- local: ci/torch.yml
build //apps/camera:linux-arm64:
  extends: .libtorch
  variables:
    LABEL: //apps/camera:linux-arm64
    APP: camera
    ABI: linux-arm64
    REASON: new
build //apps/camera:linux-x86_64:
  extends: .libtorch
  variables:
    LABEL: //apps/camera:linux-x86_64
    APP: camera
    ABI: linux-x86_64
    REASON: 'WORKSPACE: runtime.tree; apps/camera/a "b": x'
"""


def test_gitlab() -> None:
    assert SOME.to_gitlab("ci/torch.yml") == GITLAB
    # a pipeline without a job would be refused
    (job,) = yaml.safe_load(NOTHING.to_gitlab("ci/torch.yml")).values()
    assert job == {"variables": {"GIT_STRATEGY": "none"}, "script": ["echo 'no app is touched'"]}


@pytest.mark.parametrize("form", ["json", "github", "gitlab"])
def test_the_command(form: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(root, {"apps/keyboard/models/next_word.ptl": "other"})
    words = ["matrix", "--since", "HEAD", "--format", form]
    assert cli.main(words, env=ENV, cwd=root) == 0
    matrix = matrix_since(context(root), load_workspace(root, ENV), "HEAD")
    texts = {
        "json": matrix.to_json(),
        "github": matrix.to_github(),
        "gitlab": matrix.to_gitlab(".gitlab/libtorch.yml"),
    }
    assert capsys.readouterr().out == texts[form]


# --- bad input ---


def _not_a_git_tree(folder: Path) -> tuple[Path, str, dict[str, str]]:
    return workspace(folder / "w"), "HEAD", ENV


def _unknown_revision(folder: Path) -> tuple[Path, str, dict[str, str]]:
    return repository(folder / "w"), "--upload-pack=x", ENV


def _shallow_clone(folder: Path) -> tuple[Path, str, dict[str, str]]:
    origin = repository(folder / "origin")
    first = git(origin, "rev-parse", "HEAD")
    commit(origin)
    git(folder, "clone", "--quiet", "--depth=1", f"file://{origin}", "w")
    return folder / "w", first, ENV


def _no_git(folder: Path) -> tuple[Path, str, dict[str, str]]:
    return repository(folder / "w"), "HEAD", {**ENV, "PATH": str(folder)}


def _another_owner(folder: Path) -> tuple[Path, str, dict[str, str]]:
    # how git's own tests have it: another owner needs rights
    return repository(folder / "w"), "HEAD", {**ENV, "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}


def _no_revision(folder: Path) -> tuple[Path, str, dict[str, str]]:
    return repository(folder / "w"), "", ENV


MAKE: dict[str, Callable[[Path], tuple[Path, str, dict[str, str]]]] = {
    "not_a_git_tree": _not_a_git_tree,
    "unknown_revision": _unknown_revision,
    "shallow_clone": _shallow_clone,
    "no_git": _no_git,
    "another_owner": _another_owner,
    "no_revision": _no_revision,
}


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_bad_input(case: str, tmp_path: Path, golden: Golden) -> None:
    root, revision, env = MAKE[case](tmp_path)
    with pytest.raises(OrchestratorError) as caught:
        matrix_since(context(root, env), load_workspace(root, env), revision)
    text = caught.value.render().replace(str(root), "<workspace>")
    text = text.replace(revision, "<revision>") if revision else text
    golden(CASES / case / "expected.txt", text + "\n")


def test_a_git_that_fails_is_told_in_its_own_words(root: Path) -> None:
    commit = "0" * 40
    with pytest.raises(GitFailedError) as caught:
        git_tree(root, ENV).changed(commit)
    assert caught.value.render() == (f"error: git diff failed\n  | fatal: bad object {commit}")
