"""Loading: places of YAML nodes, what YAML is refused, and the bad inputs of tests/failing/config.

A folder there is a workspace with something wrong; `expected.txt` is the whole error text. A folder
without a WORKSPACE of its own gets a good one, and the same for its toolchain and its model files.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from golden_files import Golden

from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.validate import MOST_ERRORS, DeclarationErrors, raise_all
from orchestrator.load.workspace import (
    NoWorkspaceError,
    Workspace,
    expand,
    find_root,
    load_config,
    load_workspace,
)
from orchestrator.load.yaml import (
    YamlConflictError,
    YamlSyntaxError,
    YamlTooLargeError,
    YamlUnsupportedError,
    load_located,
)
from orchestrator.values.config.app import Budget
from orchestrator.values.config.forms import CORES

ROOT = Path(__file__).parents[3]
CASES = ROOT / "tests" / "failing" / "config"
WORKSPACE = f"""\
version: 1
runtime:
  pytorch: 1.13.1
  tree: "{"0" * 64}"
  sources: [path: here]
"""
TOOLCHAIN = """\
abi: linux-x86_64
system: linux
processor: x86_64
format: elf
compiler: {zig: {target: x86_64-linux-gnu.2.28}}
run: native
"""
APP = """\
models: [{file: models/small.ptl}]
targets: [linux-x86_64]
"""


def _complete(root: Path) -> None:
    """Give a workspace whatever good files it lacks."""
    for file, text in (
        ("WORKSPACE", WORKSPACE),
        ("toolchains/linux-x86_64.yaml", TOOLCHAIN),
    ):
        if not (root / file).exists():
            (root / file).parent.mkdir(exist_ok=True)
            (root / file).write_text(text)
    for app in root.glob("apps/*"):
        (app / "models").mkdir(exist_ok=True)
        (app / "models" / "small.ptl").touch()


def faults(workspace: Workspace) -> list[OrchestratorError]:
    """What is wrong with any of its apps."""
    return [fault for app in workspace.broken.values() for fault in app]


def good_workspace(root: Path) -> Path:
    """Make the folder a workspace with one app, camera, for one ABI; an empty file is its model."""
    (root / "apps" / "camera").mkdir(parents=True)
    (root / "apps" / "camera" / "app.yaml").write_text(APP)
    _complete(root)
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return good_workspace(tmp_path)


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_bad_input(case: str, tmp_path: Path, golden: Golden) -> None:
    root = tmp_path / "workspace"
    shutil.copytree(CASES / case, root)
    _complete(root)
    with pytest.raises(OrchestratorError) as caught:
        raise_all(faults(load_workspace(root, {"HOME": "/home/me"})))
    golden(CASES / case / "expected.txt", caught.value.render() + "\n")


def test_a_good_workspace(root: Path) -> None:
    workspace = load_workspace(root, {"HOME": "/home/me"})
    app = workspace.apps["camera"]
    assert workspace.cache == Path("/home/me/.cache/libtorch-orchestrator")
    assert workspace.targets == {"camera": ("linux-x86_64",)}
    assert workspace.broken == {}
    assert not workspace.toolchains["linux-x86_64"].built_in
    assert app.place == Place("apps/camera/app.yaml")
    assert (app.optimize, app.selection, app.kernels) == ("balanced", "guarded", "auto")
    assert app.package_name == "camera-libtorch"
    assert app.model_path(app.config.models[0]) == root / "apps/camera/models/small.ptl"
    assert app.places.value(("models", 0, "file")) == Place("apps/camera/app.yaml", 1, 17)


def test_an_app_overrides_the_defaults(root: Path) -> None:
    (root / "WORKSPACE").write_text(WORKSPACE + "defaults: {optimize: size, selection: static}\n")
    file = root / "apps" / "camera" / "app.yaml"
    assert load_workspace(root, {}).apps["camera"].optimize == "size"
    file.write_text(
        APP + "optimize: speed\nselection: traced\npackage_name: lens\nkernels: native\n"
    )
    app = load_workspace(root, {}).apps["camera"]
    assert (app.optimize, app.selection, app.package_name) == ("speed", "traced", "lens")
    assert app.kernels == "native"


@pytest.mark.parametrize(
    ("default", "own", "threads"),
    [
        ("", "", 1),
        ("4", "", 4),
        ("4", "2", 2),
        ("4", "1", 1),
        ("cores", "", CORES),
        ("", "cores", CORES),
        ("", "1024", 1024),
    ],
)
def test_an_apps_threads(root: Path, default: str, own: str, threads: int) -> None:
    if default:
        (root / "WORKSPACE").write_text(WORKSPACE + f"defaults: {{threads: {default}}}\n")
    if own:
        (root / "apps" / "camera" / "app.yaml").write_text(APP + f"threads: {own}\n")
    assert load_workspace(root, {}).apps["camera"].threads == threads


@pytest.mark.parametrize("value", ["0", "-1", "1025", "all", "2.0", "true", "[2]", "'2'"])
def test_threads_that_are_none(root: Path, value: str) -> None:
    for file, text, place in (
        ("WORKSPACE", WORKSPACE + f"defaults: {{threads: {value}}}\n", "21"),
        ("apps/camera/app.yaml", APP + f"threads: {value}\n", "10"),
    ):
        before = (root / file).read_text()
        (root / file).write_text(text)
        with pytest.raises(OrchestratorError) as caught:
            raise_all(faults(load_workspace(root, {})))
        (root / file).write_text(before)
        first, expected = caught.value.render().splitlines()[:2]
        line = text.count("\n")
        assert (
            first
            == f"{file}:{line}:{place}: error: `threads` is not valid: not a number of threads"
        )
        assert expected == "  expected: a number from 1 to 1,024, or `cores`"


def test_toolchains_that_we_ship(root: Path) -> None:
    """They are there without a file, say that they are ours, and a file takes the place of one."""
    shutil.rmtree(root / "toolchains")
    shipped = load_workspace(root, {}).toolchains
    assert [*shipped] == sorted(shipped)
    assert {*shipped} >= {"linux-x86_64", "linux-arm64", "android-arm64-v8a", "ios-arm64"}
    assert all(one.built_in for one in shipped.values())
    assert shipped["linux-arm64"].place == Place("toolchains/linux-arm64.yaml (built in)")
    assert load_workspace(root, {}).groups["ios-simulator"] == (
        "ios-simulator-arm64",
        "ios-simulator-x86_64",
    )
    (root / "toolchains").mkdir()
    own = TOOLCHAIN + "compile_flags: [-DOURS]\n"
    (root / "toolchains/linux-x86_64.yaml").write_text(own)
    declared = load_workspace(root, {}).toolchains
    assert declared["linux-x86_64"].config.compile_flags == ("-DOURS",)
    assert declared["linux-x86_64"].place == Place("toolchains/linux-x86_64.yaml")
    assert [abi for abi, one in declared.items() if not one.built_in] == ["linux-x86_64"]
    # one that is broken is not replaced by ours
    (root / "toolchains/linux-x86_64.yaml").write_text("abi: [\n")
    with pytest.raises(OrchestratorError) as caught:
        load_workspace(root, {})
    assert caught.value.render().startswith("toolchains/linux-x86_64.yaml:2:1: error: ")


def test_a_broken_app_is_kept_apart(root: Path) -> None:
    shutil.copytree(root / "apps/camera", root / "apps/vad")
    shutil.copytree(root / "apps/camera", root / "apps/old")
    (root / "apps/old/app.yaml").rename(root / "apps/old/app.yml")
    (root / "apps/vad/app.yaml").write_text(APP + "optimise: size\nbudgets: {x: 1MB}\n")
    workspace = load_workspace(root, {})
    assert list(workspace.apps) == ["camera"]
    assert {app: [fault.what for fault in found] for app, found in workspace.broken.items()} == {
        "old": ["the file name is not recognised"],
        "vad": ["unknown key `optimise`", "a budget for x, which is not a target of this app"],
    }
    # with a fault that is of all apps everything is told
    (root / "toolchains/pair.yaml").write_text("abi: pair\nmembers: [nope]\n")
    with pytest.raises(DeclarationErrors) as caught:
        load_workspace(root, {})
    assert len(caught.value.errors) == 4


def test_apps_are_sorted_and_other_folders_are_not_apps(root: Path) -> None:
    for name in ("zoo", "Attic"):
        shutil.copytree(root / "apps" / "camera", root / "apps" / name)
    (root / "apps" / "shared").mkdir()
    assert list(load_workspace(root, {}).apps) == ["Attic", "camera", "zoo"]


def test_this_repository_loads() -> None:
    workspace = load_workspace(ROOT, {"HOME": "/home/me"})
    assert "linux-x86_64" in workspace.toolchains
    assert {pin.pytorch for pin in workspace.config.pins.values()} == {"1.13.1", "2.6.0"}


def test_at_most_ten_errors_are_shown(root: Path) -> None:
    keys = "".join(f"key{number:02}: 1\n" for number in range(MOST_ERRORS + 2))
    (root / "apps" / "camera" / "app.yaml").write_text(APP + keys)
    with pytest.raises(OrchestratorError) as caught:
        raise_all(faults(load_workspace(root, {})))
    lines = caught.value.render().splitlines()
    assert lines[0] == "apps/camera/app.yaml:3:1: error: unknown key `key00`"
    assert lines[-1] == "12 errors in the workspace files, 2 not shown"
    assert sum(": error: " in line for line in lines) == MOST_ERRORS


def test_text_that_is_not_utf8(root: Path) -> None:
    (root / "apps" / "camera" / "app.yaml").write_bytes(b"# caf\xe9\n")
    with pytest.raises(OrchestratorError) as caught:
        raise_all(faults(load_workspace(root, {})))
    assert caught.value.render() == (
        "apps/camera/app.yaml: error: the file is not UTF-8 text\n"
        "  expected: UTF-8\n"
        "  seen:     byte 0xe9 at offset 5\n"
        "  do:       save it as UTF-8"
    )


def test_a_byte_order_mark_is_fine(root: Path) -> None:
    file = root / "apps" / "camera" / "app.yaml"
    file.write_text("\ufeff" + APP, encoding="utf-8")
    assert load_workspace(root, {}).apps["camera"].config.targets == ("linux-x86_64",)


def test_the_root_is_found_from_below(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert find_root(root / "apps" / "camera") == find_root(root) == root
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with pytest.raises(NoWorkspaceError) as caught:
        find_root(elsewhere)
    assert caught.value.render() == (
        "error: no workspace found\n"
        "  expected: a file WORKSPACE in this folder or a parent folder\n"
        f"  seen:     {elsewhere}\n"
        "  do:       change to a workspace, pass --workspace DIR, or create one here:"
        " orchestrate init"
    )


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a/b", "/base/a/b"),
        ("/a/b", "/a/b"),
        ("~", "/home/me"),
        ("~/a", "/home/me/a"),
        ("$ONE/a", "/one/a"),
        ("${ONE}a", "/onea"),
        ("~x/$REL", "/base/~x/here"),
        ("$NONE/a", None),
        ("$EMPTY/a", None),
    ],
)
def test_expand(text: str, path: str | None) -> None:
    env = {"HOME": "/home/me", "ONE": "/one", "REL": "here", "EMPTY": ""}
    assert expand(text, Path("/base"), env) == (Path(path) if path else None)


def test_places() -> None:
    text = (
        "models:\n- file: a\n  inputs: [{args: [1, {shape: [2]}]}]\n'x': &same {y: 1}\nz: *same\n"
    )
    data, places = load_located(text, "f")
    assert data == {
        "models": [{"file": "a", "inputs": [{"args": [1, {"shape": [2]}]}]}],
        "x": {"y": 1},
        "z": {"y": 1},
    }
    assert places.value(()) == Place("f", 1, 1)
    assert places.value(("models", 0, "file")) == Place("f", 2, 9)
    assert places.key(("models", 0, "file")) == Place("f", 2, 3)
    inner = ("models", 0, "inputs", "runs", 0, "args", 1, "tensor", "shape", 0)
    assert places.value(inner) == Place("f", 3, 32)
    assert places.find(inner).path == ("models", 0, "inputs", 0, "args", 1, "shape", 0)
    assert places.key(("models", 1)) == Place("f", 2, 1)
    assert places.key(("models", 0)) == Place("f", 2, 3)
    assert places.key(("x",)) == Place("f", 4, 1)
    assert places.value(("z", "y")) == Place("f", 4, 16)
    assert places.key(("z", "missing")) == Place("f", 4, 6)


def test_an_empty_text_is_nothing() -> None:
    data, places = load_located("# only words\n", "f")
    assert data is None
    assert places.value(("a", 0)) == Place("f", 1, 1)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "a: [1,\nb: 2",
            "f:2:5: error: invalid YAML: expected ',' or ']', but got '<stream end>',"
            " while parsing a flow sequence\n"
            "  | b: 2\n"
            "  |     ^",
        ),
        (
            "a:\n\t- 1",
            "f:2:1: error: invalid YAML: found a tab that cannot start any token,"
            " while scanning for the next token\n"
            "  do:       indent with blanks\n"
            "  | \t- 1\n"
            "  | ^",
        ),
        (
            "a: *b",
            "f:1:4: error: invalid YAML: found undefined alias 'b'\n  | a: *b\n  |    ^",
        ),
        (
            "a: 1\n--- \nb: 2",
            "f:2:1: error: invalid YAML: expected a single document in the stream,"
            " but found another document\n"
            "  | --- \n"
            "  | ^",
        ),
        ("a: \x01", "f:1:4: error: invalid YAML: a control character\n  seen:     U+0001"),
        (
            'a: "\\U00110000"',
            "f:1:7: error: invalid YAML: found invalid Unicode character escape code, while"
            " parsing a"
            " quoted scalar",
        ),
        (
            f"a: 1{':1' * 200}.5",
            "f:1:4: error: a value cannot be read\n"
            f"  seen:     1{':1' * 99}:...\n"
            "  do:       put it in quotes if it is text",
        ),
        (
            "a: 2022-99-99",
            "f:1:4: error: a value cannot be read\n"
            "  seen:     2022-99-99\n"
            "  do:       put it in quotes if it is text",
        ),
    ],
)
def test_text_that_is_not_yaml(text: str, error: str) -> None:
    with pytest.raises(YamlSyntaxError) as caught:
        load_located(text, "f")
    assert caught.value.render() == error


@pytest.mark.parametrize(
    ("opening", "column"), [("[", 101), ("{a: ", 401), ("- ", 201), ("? ", 201)]
)
@pytest.mark.parametrize("times", [900, 50_000])
def test_nesting_without_end_is_refused(opening: str, column: int, times: int) -> None:
    with pytest.raises(YamlTooLargeError) as caught:
        load_located(opening * times, "f")
    assert caught.value.render() == (
        f"f:1:{column}: error: this nesting exceeds the limit\n"
        "  expected: at most 100 nested lists or mappings"
    )


def laughs(levels: int, width: int) -> str:
    """A short text that stands for a long one: each list has the one before it several times."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            laughs(7, 9),
            "f:1:10: error: this file exceeds the limit\n"
            "  expected: at most 100,000 values, those of aliases included",
        ),
        (
            laughs(150, 1),
            "f:1:5: error: this nesting exceeds the limit\n"
            "  expected: at most 100 nested lists or mappings",
        ),
        (
            "".join(f"k{n}: 1\n" for n in range(60_000)),
            "f:50000:9: error: this file exceeds the limit\n"
            "  expected: at most 100,000 values, those of aliases included",
        ),
        (
            "x: " + "y" * 2**22,
            "f: error: this text exceeds the limit\n"
            "  expected: at most 4,194,304 characters\n"
            "  seen:     4,194,307",
        ),
        (
            f"x: 0x{'f' * 300}",
            "f:1:4: error: this number exceeds the limit\n"
            "  expected: at most 1000 bits\n"
            f"  seen:     0x{'f' * 198}...",
        ),
    ],
    ids=["aliases", "nested aliases", "keys", "text", "number"],
)
def test_more_than_any_declaration_needs(text: str, error: str) -> None:
    started = time.process_time()
    with pytest.raises(YamlTooLargeError) as caught:
        load_located(text, "f")
    assert caught.value.render() == error
    assert time.process_time() - started < 5


def test_aliases_within_bounds_are_read() -> None:
    data, _ = load_located(laughs(5, 9), "f")
    assert [len(data[f"a{n}"]) for n in range(5)] == [1, 9, 9, 9, 9]


@pytest.mark.parametrize(
    ("text", "line"), [("<<<<<<< HEAD\na: 1\n", 1), ("a: 1\n<<<<<<< ours\nb: 2\n=======\n", 2)]
)
def test_a_merge_conflict(text: str, line: int) -> None:
    with pytest.raises(YamlConflictError) as caught:
        load_located(text, "f")
    assert caught.value.render() == (
        f"f:{line}:1: error: unresolved merge conflict\n"
        "  do:       keep one side and remove the conflict markers"
    )
    assert load_located("a: a <<<<<<< b\n", "f")[0] == {"a": "a <<<<<<< b"}


@pytest.mark.parametrize(
    ("make", "seen"),
    [
        (lambda file: file.mkdir(), "Is a directory"),
        (lambda file: file.symlink_to("nowhere"), "No such file or directory"),
        (lambda file: file.symlink_to(file.name), "Too many levels of symbolic links"),
        (lambda file: file.symlink_to("/dev/zero"), "Not a plain file"),
        (os.mkfifo, "Not a plain file"),
    ],
    ids=["folder", "dangling", "loop", "endless", "pipe"],
)
def test_a_declaration_that_is_no_file(
    make: Callable[[Path], object], seen: str, root: Path
) -> None:
    make(root / "toolchains/other.yaml")
    with pytest.raises(OrchestratorError) as caught:
        load_workspace(root, {"HOME": "/home/me"})
    assert caught.value.render() == (
        "toolchains/other.yaml: error: the file cannot be read\n"
        "  expected: a text file\n"
        f"  seen:     {seen}"
    )


def test_a_declaration_larger_than_memory(root: Path) -> None:
    with (root / "WORKSPACE").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(OrchestratorError) as caught:
        load_config(root)
    assert caught.value.render() == (
        "WORKSPACE: error: this text exceeds the limit\n"
        "  expected: at most 4,194,304 characters\n"
        "  seen:     16,777,220"
    )


def test_thousands_of_unknown_keys_are_told_in_time(root: Path) -> None:
    text = WORKSPACE + "".join(f"key{n}: 1\n" for n in range(20_000))
    (root / "WORKSPACE").write_text(text)
    started = time.process_time()
    with pytest.raises(DeclarationErrors) as caught:
        load_config(root)
    first, *_, last = caught.value.render().splitlines()
    assert first == f"WORKSPACE:{len(WORKSPACE.splitlines()) + 1}:1: error: unknown key `key0`"
    assert last == "20,000 errors in the workspace files, 19,990 not shown"
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "x: !!str 3",
            "f:1:4: error: YAML tags are not supported\n"
            "  seen:     !!str\n"
            "  do:       remove the tag; quote the value if it is text",
        ),
        (
            "x: !mine 3",
            "f:1:4: error: YAML tags are not supported\n"
            "  seen:     !mine\n"
            "  do:       remove the tag; quote the value if it is text",
        ),
        (
            "a: &a [*a]",
            "f:1:4: error: a value contains itself\n"
            "  do:       write the inner value out instead of the alias",
        ),
        (
            "<<: {a: 1}",
            "f:1:1: error: YAML merge keys are not supported\n"
            "  seen:     <<\n"
            "  do:       write the keys out",
        ),
    ],
)
def test_yaml_that_is_not_read(text: str, error: str) -> None:
    with pytest.raises(YamlUnsupportedError) as caught:
        load_located(text, "f")
    assert caught.value.render() == error


def test_an_exclamation_mark_in_text_is_no_tag() -> None:
    assert load_located("a: '!x'  # hi!", "f")[0] == {"a": "!x"}


def test_a_target_that_stands_for_several(root: Path) -> None:
    for abi in ("phone-a", "phone-b"):
        text = TOOLCHAIN.replace("linux-x86_64", abi, 1)
        (root / f"toolchains/{abi}.yaml").write_text(text)
    (root / "toolchains/phones.yaml").write_text("abi: phones\nmembers: [phone-a, phone-b]\n")
    app = "models: [{file: models/small.ptl}]\n"
    app += "targets: [linux-x86_64, phones]\nbudgets: {phones: 2MB, phone-b: 1MB}\n"
    (root / "apps/camera/app.yaml").write_text(app)
    workspace = load_workspace(root, {"HOME": "/home/me"})
    own = [abi for abi, one in workspace.toolchains.items() if not one.built_in]
    assert own == ["linux-x86_64", "phone-a", "phone-b"]
    assert workspace.groups["phones"] == ("phone-a", "phone-b")
    assert dict(workspace.targets) == {"camera": ("linux-x86_64", "phone-a", "phone-b")}
    # a member's own budget goes before its group's
    assert workspace.apps["camera"].config.budgets == {
        "phone-a": Budget(total=2_000_000),
        "phone-b": Budget(total=1_000_000),
    }


@pytest.mark.parametrize(
    ("key", "opens", "entries", "closes", "faults"),
    [
        ("targets", "[", [f"x{n}" for n in range(30_000)], "]", 30_000),
        ("targets", "[", ["linux-x86_64"] * 30_000, "]", 1),
        ("budgets", "{", [f"x{n}: 1MB" for n in range(30_000)], "}", 30_000),
    ],
    ids=["unknown", "repeated", "budgets"],
)
def test_long_lists_take_little_time(
    tmp_path: Path, key: str, opens: str, entries: list[str], closes: str, faults: int
) -> None:
    """Two seconds are promised (docs/reliability.md); these took 40, 8 and 4."""
    (tmp_path / "WORKSPACE").write_text(WORKSPACE)
    (tmp_path / "toolchains").mkdir()
    (tmp_path / "toolchains/linux-x86_64.yaml").write_text(TOOLCHAIN)
    (tmp_path / "apps/vad/models").mkdir(parents=True)
    (tmp_path / "apps/vad/models/vad.ptl").write_bytes(b"PK")
    lines = ["models: [{file: models/vad.ptl}]"]
    lines += ["targets: [linux-x86_64]"] if key != "targets" else []
    lines += [f"{key}: {opens}{', '.join(entries)}{closes}"]
    (tmp_path / "apps/vad/app.yaml").write_text("\n".join(lines))
    start = time.process_time()
    workspace = load_workspace(tmp_path, {})
    assert time.process_time() - start < 2
    found = workspace.broken["vad"]
    assert len(found) == min(faults, 101)
    if faults > 1:
        with pytest.raises(DeclarationErrors) as caught:
            raise_all(found)
        assert caught.value.errors[100].what == "and 29,900 more such faults"
        *_, last = caught.value.render().splitlines()
        assert last == "30,000 errors in the workspace files, 29,990 not shown"


def test_repeated_entries_are_told_in_the_files_order(root: Path) -> None:
    """So that those beyond the first hundred are told behind them."""
    targets = "".join(f"  - x{number:03}\n" for number in reversed(range(102)))
    text = f"models:\n  - file: models/small.ptl\ntargets:\n{targets}{targets}"
    (root / "apps/camera/app.yaml").write_text(text)
    found = load_workspace(root, {}).broken["camera"]
    twice = [one.what for one in found if "twice" in one.what]
    assert twice[:2] == ["`targets` lists `x101` twice", "`targets` lists `x100` twice"]
    (more,) = (one for one in found if one.what == "and 2 more such faults")
    assert str(more.place) == "apps/camera/app.yaml:206:5"


def test_faults_beyond_the_first_hundred_of_a_list_are_counted(root: Path) -> None:
    """In text by the last line, for machines by an error of their own."""
    for count, told in ((103, "3 more such faults"), (101, "1 more such fault")):
        targets = "".join(f"  - x{number}\n" for number in range(count))
        text = f"models:\n  - file: models/small.ptl\ntargets:\n{targets}"
        (root / "apps/camera/app.yaml").write_text(text)
        with pytest.raises(DeclarationErrors) as caught:
            raise_all(load_workspace(root, {}).broken["camera"])
        *_, unknown, more = caught.value.parts
        assert unknown.what == "no toolchain for x99"
        assert more.render() == f"apps/camera/app.yaml:104:5: error: and {told}"
        assert (more.code, more.facts) == ("FURTHER_FAULTS", {"faults": count - 100})
        lines = caught.value.render().splitlines()
        assert lines[-1] == f"{count} errors in the workspace files, {count - 10} not shown"


def test_values_beyond_the_first_hundred_faulty_ones_are_told_briefly(root: Path) -> None:
    budgets = "".join(f"  linux-x86_64-{number:03}: soon\n" for number in range(102))
    text = f"models:\n  - file: models/small.ptl\ntargets: [linux-x86_64]\nbudgets:\n{budgets}"
    (root / "apps/camera/app.yaml").write_text(text)
    with pytest.raises(DeclarationErrors) as caught:
        raise_all(load_workspace(root, {}).broken["camera"])
    *_, before, first, second = (one for one in caught.value.parts if one.code != "BUDGET_TARGET")
    assert (before.code, before.seen) == ("BAD_VALUE", '"soon"')
    told = "apps/camera/app.yaml:106:21: error: a value is not valid"
    assert (second.code, second.render()) == ("FURTHER_FAULT", told)
    assert first.code == "FURTHER_FAULT"
