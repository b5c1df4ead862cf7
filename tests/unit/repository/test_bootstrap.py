"""The scripts at the root, run with a stand-in for Python that notes how it was called."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOOLS = (
    "cat",
    "chmod",
    "cmp",
    "cp",
    "dirname",
    "grep",
    "mkdir",
    "mktemp",
    "mv",
    "readlink",
    "rm",
    "sed",
    "sh",
    "tail",
)
# Its answers are set through the environment: OLD, PIP_SAYS, PIP_FAILS, PIP_DIES, PIP_REFUSES,
# FAILS, CODE.
PYTHON = """\
#!/bin/sh
case "$*" in
*version_info*) [ -z "${OLD-}" ]; exit ;;
--version) echo "Python 3.9.2"; exit ;;
"-m pip --version") exit 0 ;;
esac
echo "python $*" >>"$LOG"
case "$*" in
"-m venv --clear"*)
    mkdir -p "$4/bin"
    cp "$0" "$4/bin/python" ;;
"-m pip install"*)
    printf '%s\\n' "${PIP_SAYS-}"
    [ -z "${PIP_FAILS-}" ] || { printf 'WARNING: retrying\\nERROR: no such thing\\n'; exit 1; }
    [ -z "${PIP_DIES-}" ] || { printf '%s\\n' one two three four; exit 1; }
    [ -z "${PIP_REFUSES-}" ] || { printf '%s\\n' "$PIP_REFUSES" >&2; exit 1; }
    for tool in ruff mypy; do
        printf '#!/bin/sh\\necho "%s $*" >>"$LOG"\\n[ "${FAILS-}" != %s ]\\n' $tool $tool \\
            >"$PWD/.venv/bin/$tool"
        chmod +x "$PWD/.venv/bin/$tool"
    done ;;
*) exit "${CODE-0}" ;;
esac
"""


@dataclass(frozen=True)
class Project:
    """A folder with the scripts, and a PATH on which little but the stand-in is."""

    root: Path
    path: Path
    log: Path

    def run(
        self, *words: str | Path, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        self.log.unlink(missing_ok=True)
        return subprocess.run(
            [str(word) for word in words],
            cwd=cwd or self.root,
            env={"PATH": str(self.path), "LOG": str(self.log)} | env,
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self) -> Sequence[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root, path, log = tmp_path / "a project", tmp_path / "bin", tmp_path / "log"
    root.mkdir()
    path.mkdir()
    for name in ("orchestrate", "check"):
        shutil.copy(ROOT / name, root / name)
    (root / "pyproject.toml").write_text("[project]\n")
    (root / "requirements").mkdir()
    (root / "requirements/run.txt").write_text("a==1 --hash=sha256:1\n")
    (root / "requirements/dev.txt").write_text("a==1 --hash=sha256:1\nb==1 --hash=sha256:2\n")
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found
        (path / tool).symlink_to(found)
    (path / "python3").write_text(PYTHON)
    (path / "python3").chmod(0o755)
    return Project(root, path, log)


PIP = "python -m pip install --progress-bar off --no-input --disable-pip-version-check"
SETTING_UP = "orchestrate: setting up .venv: 1 packages, among them a compiler\n"
LOCKED = f"{PIP} --require-hashes --only-binary :all: --requirement requirements"
OURSELVES = f"{PIP} --no-index --no-deps --no-build-isolation --editable ."
INSTALL = [f"{LOCKED}/run.txt", OURSELVES]
RUN = "python -P -m orchestrator"


def test_the_first_use_sets_up_and_the_second_does_not(project: Project) -> None:
    first = project.run("./orchestrate", "build", "//apps/a b", CODE="7")
    assert (first.returncode, first.stdout) == (7, "")
    assert first.stderr == SETTING_UP
    venv = project.root / ".venv"
    assert project.calls() == [
        f"python -m venv --clear {venv}",
        *INSTALL,
        f"{RUN} build //apps/a b",
    ]
    second = project.run("./orchestrate")
    assert (second.returncode, second.stderr, project.calls()) == (0, "", [RUN])


# What pip 24 says where nobody watches.
SAYS = """\
Collecting pyyaml==6.0.2 (from -r requirements/run.txt (line 1))
  Downloading PyYAML-6.0.2-cp311-cp311-manylinux_2_17_x86_64.whl (762 kB)
Collecting ziglang==0.17.0 (from -r requirements/run.txt (line 3))
  Downloading https://index/ziglang-0.17.0-py3-none-manylinux_2_12_x86_64.whl (90.1 MB)
  Using cached cmake-4.0.0-py3-none-manylinux_2_17_x86_64.whl (27.0 MB)
Installing collected packages: ziglang, pyyaml
Successfully installed pyyaml-6.0.2 ziglang-0.17.0"""


def test_what_is_fetched_is_told(project: Project) -> None:
    done = project.run("./orchestrate", PIP_SAYS=SAYS)
    once = "  fetching ziglang-0.17.0 (90.1 MB)\n  installing\n"
    assert done.stderr == SETTING_UP + 2 * once, "the stand-in says it for both calls of pip"
    assert not list((project.root / ".venv").glob("pip.*"))


def test_it_runs_from_anywhere_and_through_links(project: Project) -> None:
    elsewhere = project.root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "direct").symlink_to(project.root / "orchestrate")
    (elsewhere / "chained").symlink_to("direct")
    assert project.run("./chained", "clean", cwd=elsewhere).returncode == 0
    assert project.calls()[-1] == f"{RUN} clean"
    assert (project.root / ".venv" / "stamp-run").is_file()
    assert sorted(path.name for path in elsewhere.iterdir()) == ["chained", "direct"]


def test_a_changed_pyproject_is_installed_again(project: Project) -> None:
    project.run("./orchestrate")
    (project.root / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    project.run("./orchestrate")
    assert project.calls() == [*INSTALL, RUN]


@pytest.mark.parametrize(("use", "other"), [("run", "dev"), ("dev", "run")])
def test_a_changed_lock_is_installed_again(project: Project, use: str, other: str) -> None:
    project.run("./orchestrate", ORCHESTRATE_FOR="check" if use == "dev" else "run")
    (project.root / f"requirements/{other}.txt").write_text("a==2 --hash=sha256:3\n")
    project.run("./orchestrate")
    assert project.calls() == [RUN], "the lock of the other use was not installed from"
    (project.root / f"requirements/{use}.txt").write_text("a==2 --hash=sha256:3\n")
    project.run("./orchestrate")
    assert project.calls() == [*INSTALL, RUN]


def test_a_moved_folder_is_installed_again(project: Project) -> None:
    project.run("./orchestrate")
    moved = project.root.rename(project.root.parent / "moved")
    project.run("./orchestrate", cwd=moved)
    assert project.calls() == [*INSTALL, RUN]


def test_a_failed_install_says_why_and_is_done_again(project: Project) -> None:
    done = project.run("./orchestrate", PIP_FAILS="1")
    assert done.returncode == 1
    assert done.stderr == (
        f"{SETTING_UP}"
        "orchestrate: error: the dependencies could not be installed\n"
        "  | ERROR: no such thing\n"
        "  do:   look at the network, or at the package index that pip is set up for;"
        " then run this again\n"
    )
    project.run("./orchestrate")
    assert project.calls() == [*INSTALL, RUN]


# What pip 23.2 says.
REFUSED = """\
WARNING: Location 'file:///wheels' is ignored
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the \
package versions, please update the hashes. Otherwise, examine the package contents carefully; \
someone may have tampered with them.
    a==1 from https://index/a-1-py3-none-any.whl#sha256=33 (from -r requirements/run.txt (line 1)):
        Expected sha256 11
        Expected     or 22
             Got        33

"""


def test_a_package_that_is_not_the_locked_one_is_told_with_its_digest(project: Project) -> None:
    done = project.run("./orchestrate", PIP_REFUSES=REFUSED)
    assert (done.returncode, project.calls()[1:]) == (1, [f"{LOCKED}/run.txt"])
    assert done.stderr == (
        f"{SETTING_UP}"
        "orchestrate: error: pip was given another file than the locked one\n"
        "  | a==1 from https://index/a-1-py3-none-any.whl\n"
        "  | sha256 33\n"
        "  expected: a digest that requirements/run.txt lists\n"
        "  do:   it was not installed; see where pip gets its packages from (pip config list),\n"
        "        and do not trust that place until you know why its file differs\n"
    )
    assert not (project.root / ".venv/stamp-run").exists()


def test_a_failure_without_pips_own_words_shows_the_last_lines(project: Project) -> None:
    done = project.run("./orchestrate", PIP_DIES="1")
    assert "installed\n  | two\n  | three\n  | four\n  do:" in done.stderr


def test_an_install_that_fails_after_a_good_one_is_done_again(project: Project) -> None:
    project.run("./orchestrate")
    text = (project.root / "pyproject.toml").read_text()
    (project.root / "pyproject.toml").write_text(text + "# new\n")
    assert project.run("./orchestrate", PIP_FAILS="1").returncode == 1
    # What was installed half must not pass for the old state.
    (project.root / "pyproject.toml").write_text(text)
    project.run("./orchestrate")
    assert project.calls() == [*INSTALL, RUN]


def test_an_old_python_is_refused(project: Project) -> None:
    done = project.run("./orchestrate", OLD="1")
    assert (done.returncode, project.calls()) == (1, [])
    assert done.stderr == (
        f"{SETTING_UP}"
        "orchestrate: error: Python 3.11 or newer is needed\n"
        "  seen: Python 3.9.2\n"
        "  do:   install it (Debian: apt-get install python3 python3-venv)\n"
    )


def test_no_python_is_told(project: Project) -> None:
    (project.path / "python3").unlink()
    done = project.run("./orchestrate")
    assert done.returncode == 1
    assert "  seen: no python3\n" in done.stderr


def test_a_newer_python_under_another_name_will_do(project: Project) -> None:
    (project.path / "python3").rename(project.path / "python3.12")
    assert project.run("./orchestrate").returncode == 0


def test_check_runs_all_tools_and_passes_arguments_on(project: Project) -> None:
    done = project.run(project.root / "check", "tests/unit", "-k", "a b", cwd=Path("/"), CODE="5")
    assert done.returncode == 5
    assert project.calls()[1:] == [
        f"{LOCKED}/dev.txt",
        OURSELVES,
        "ruff check .",
        "ruff format --check .",
        "mypy ",
        "python -m pytest tests/unit -k a b",
    ]
    project.run("./orchestrate")
    assert project.calls() == [RUN], "what check installed includes what a run needs"


@pytest.mark.parametrize(("words", "more"), [((), "--brief"), (("--all",), "tests/campaigns")])
def test_check_leaves_much_to_who_asks_for_all(
    project: Project, words: tuple[str, ...], more: str
) -> None:
    assert project.run("./check", *words).returncode == 0
    runs = [call.split() for call in project.calls() if call.startswith("python -m pytest")]
    usual = ("tests/integration", "tests/first_hour", "tests/real", "tests/unit")
    assert [(*run[3:4], *run[5:]) for run in runs] == 2 * [("--share", more, *usual)]


@pytest.mark.parametrize("tool", ["ruff", "mypy"])
def test_check_stops_at_the_first_failure(project: Project, tool: str) -> None:
    assert project.run("./check", FAILS=tool).returncode == 1
    assert project.calls()[-1].startswith(tool)


def test_the_scripts_are_executable() -> None:
    for name in ("orchestrate", "check", ".ci/run", "requirements/renew"):
        assert os.access(ROOT / name, os.X_OK), name
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "exec ./check --all"
