"""The workflows in docs/guide/ci-matrix.md: valid YAML, run with what `matrix` really prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from git_toy import ENV, git, repository, write

PAGE = Path(__file__).parents[3] / "docs/guide/ci-matrix.md"


def example(name: str) -> Any:
    """The YAML file of this name in the guide, with `on` as the text that it is for GitHub."""
    (text,) = re.findall(rf"^```yaml {re.escape(name)}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    return yaml.load(text, Loader=yaml.BaseLoader)


GITHUB = example(".github/workflows/libtorch.yml")
GITLAB = example(".gitlab-ci.yml")
TEMPLATE = example(".gitlab/libtorch.yml")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose ./orchestrate is this one's."""
    root = repository(tmp_path / "repository")
    script = root / "orchestrate"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m orchestrator "$@"\n')
    script.chmod(0o755)
    git(root, "add", "--all", ".")
    git(root, "commit", "--quiet", "-m", "second")
    return root


def shell(command: str, root: Path, **env: str) -> str:
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=root,
        env={**ENV, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def github_outputs(root: Path) -> dict[str, str]:
    """What the step `matrix` of the workflow gives to the other jobs."""
    (step,) = (one for one in GITHUB["jobs"]["touched"]["steps"] if one.get("id") == "matrix")
    file = root.parent / "output"
    file.touch()
    shell(step["run"], root, BASE="HEAD", GITHUB_OUTPUT=str(file))
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


def references(value: Any, of: str) -> set[str]:
    """`name` in every `${{ of.name }}` of a part of a workflow."""
    return set(re.findall(rf"\b{re.escape(of)}\.(\w+)", json.dumps(value)))


def test_github_runs_a_job_for_each_touched_variant(root: Path) -> None:
    write(root, {"apps/camera/models/classifier.ptl": "other"})
    outputs = github_outputs(root)
    include = json.loads(outputs["matrix"])["include"]
    assert [one["label"] for one in include] == [
        "//apps/camera:linux-arm64",
        "//apps/camera:linux-x86_64",
    ]
    assert outputs["any"] == "true"
    build = GITHUB["jobs"]["build"]
    assert references(GITHUB["jobs"]["touched"]["outputs"], "steps.matrix.outputs") <= set(outputs)
    assert references(build, "needs.touched.outputs") <= set(GITHUB["jobs"]["touched"]["outputs"])
    assert references(build, "matrix") == {"label", "app", "abi"} <= set(include[0])
    assert any(
        one.get("run") == "./orchestrate build ${{ matrix.label }}" for one in build["steps"]
    )


def test_github_skips_the_jobs_where_nothing_is_touched(root: Path) -> None:
    outputs = github_outputs(root)
    assert (outputs["matrix"], outputs["any"]) == ('{"include": []}', "false")
    build, done = GITHUB["jobs"]["build"], GITHUB["jobs"]["done"]
    assert build["if"] == "needs.touched.outputs.any == 'true'"
    # a skipped job is no failure: the last one says so, and nothing else passes
    assert done["if"] == "always()"
    for result, code in (("success", 0), ("skipped", 0), ("failure", 1), ("cancelled", 1)):
        line = done["steps"][1]["run"].replace("${{ needs.build.result }}", result)
        assert subprocess.run(["bash", "-e", "-c", line], check=False).returncode == code


def test_github_has_the_history_that_is_compared_with() -> None:
    (checkout,) = (s for s in GITHUB["jobs"]["touched"]["steps"] if "checkout" in s.get("uses", ""))
    assert checkout["with"]["fetch-depth"] == "0"
    assert GITLAB["touched"]["variables"]["GIT_DEPTH"] == "0"


def gitlab_child(root: Path, **env: str) -> dict[str, Any]:
    """The child pipeline that the job `touched` writes."""
    (command,) = (line for line in GITLAB["touched"]["script"] if "orchestrate" in line)
    shell(command, root, **env)
    (name,) = GITLAB["touched"]["artifacts"]["paths"]
    child: dict[str, Any] = yaml.safe_load((root / name).read_text())
    return child


@pytest.mark.parametrize("variable", ["CI_MERGE_REQUEST_DIFF_BASE_SHA", "CI_COMMIT_BEFORE_SHA"])
def test_gitlab_runs_a_job_for_each_touched_variant(variable: str, root: Path) -> None:
    write(root, {"apps/keyboard/models/next_word.ptl": "other"})
    child = gitlab_child(root, **{variable: "HEAD"})
    (trigger,) = GITLAB["build"]["trigger"]["include"]
    assert trigger == {"artifact": "jobs.yml", "job": "touched"}
    assert child.pop("include") == [{"local": ".gitlab/libtorch.yml"}]
    ((name, job),) = child.items()
    assert name == "build //apps/keyboard:linux-x86_64"
    assert job["extends"] in TEMPLATE
    used = set(re.findall(r"\$([A-Z]+)\b", json.dumps(TEMPLATE)))
    assert used <= set(job["variables"])


def test_gitlab_has_a_job_where_nothing_is_touched(root: Path) -> None:
    child = gitlab_child(root, CI_COMMIT_BEFORE_SHA="HEAD")
    (job,) = child.values()
    assert job["script"]
