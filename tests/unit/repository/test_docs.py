"""The documents: links lead somewhere, commands exist, snippets are what the loader takes.

A YAML snippet is checked where its fence names the file that it is (`yaml apps/greeter/app.yaml`);
one that says `part` as well (`yaml WORKSPACE, part`) is laid over the shipped file of its kind.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from zig_tool import HOST_TARGET, zig

from orchestrator import cli
from orchestrator.commands import COMMANDS
from orchestrator.errors import OrchestratorError
from orchestrator.load.schemas import MODELS
from orchestrator.load.validate import validated
from orchestrator.load.yaml import load_located
from orchestrator.values.labels import Pattern

ROOT = Path(__file__).parents[3]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
]
# What benchmarks write, and how to run them: their links and commands count, too.
BENCHMARKS = sorted(ROOT.glob("benchmarks/*.md"))
DECISIONS = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
HEADINGS = ["## Context", "## Decision", "## Why", "## What it costs"]
SHIPPED = {
    "app": ROOT / "apps/camera/app.yaml",
    "workspace": ROOT / "WORKSPACE",
    "toolchain": ROOT / "toolchains/linux-x86_64.yaml",
}
_FENCE = re.compile(r"^( *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_COMMAND = re.compile(r"(?:(?<=[\s`])|^)\./orchestrate(?P<rest>(?: [^`\n#>|&;]*)?)", re.MULTILINE)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def fences(path: Path) -> Iterator[tuple[str, str]]:
    """(what stands behind the fence, the text) of each code block."""
    for match in _FENCE.finditer(path.read_text(encoding="utf-8")):
        yield match["info"].strip(), match["body"]


def links(text: str) -> list[str]:
    """The relative links of a page; code is not looked at."""
    prose = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text))
    return [link for link in _LINK.findall(prose) if not re.match(r"[a-z]+:", link)]


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings have on GitHub."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    """The links that lead to no file, or to no heading of one."""
    dead = []
    for link in links(page.read_text(encoding="utf-8")):
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        found = path.exists() and path.is_relative_to(ROOT)
        if found and anchor:
            found = anchor in anchors(path.read_text(encoding="utf-8"))
        if not found:
            dead.append(link)
    return dead


def commands(text: str) -> list[str]:
    """What stands behind `./orchestrate` wherever a page writes it."""
    return [match["rest"].strip() for match in _COMMAND.finditer(text)]


def refusal(command: str) -> str | None:
    """Why the command line would not be taken; None where it would."""
    # what a CI system fills in
    command = re.sub(r"\$(\{\{.*?\}\}|[A-Z_]+)", "//...", command)
    words = [word for word in shlex.split(command) if word != "..."]
    try:
        chosen = cli._parsed(cli._main_parser(), words or ["--help"])
        if chosen is None or chosen.verb is None:
            return None
        if chosen.verb not in COMMANDS:
            return f"no verb {chosen.verb}"
        parser = cli._verb_parser(COMMANDS[chosen.verb].load())
        arguments = cli._parsed(parser, chosen.rest, chosen)
        for label in getattr(arguments, "patterns", []):
            Pattern.parse(re.sub(r"<(\w+)>", r"\1", label))
    except OrchestratorError as error:
        return error.what
    return None


def kind_of(info: str) -> tuple[str, bool] | None:
    """(kind of declaration, whether it is a part) of a snippet; None for any other text."""
    match = re.fullmatch(r"yaml ([\w./-]+)(, part)?", info)
    if match is None or match[1].startswith("."):  # a CI system's file
        return None
    path = Path(match[1])
    kinds = {
        "app.yaml": "app",
        "WORKSPACE": "workspace",
        "ios-simulator.yaml": "toolchain-group",
    }
    return kinds.get(path.name, "toolchain"), bool(match[2])


def snippets() -> Iterator[tuple[str, str, bool, str]]:
    """(page, kind, is a part, text) of each declaration in the documents."""
    for page in PAGES:
        for info, body in fences(page):
            found = kind_of(info)
            if found:
                yield name(page), *found, body


def faults(kind: str, part: bool, text: str) -> list[str]:
    """What the loader, and the schema that editors use, have against a snippet."""
    data, places = load_located(text, kind)
    if part:
        shipped, _ = load_located(SHIPPED[kind].read_text(encoding="utf-8"), kind)
        assert isinstance(shipped, dict)
        assert isinstance(data, dict)
        data = {**shipped, **data}
    _, errors = validated(MODELS[kind], data, places)
    schema = json.loads((ROOT / f"schemas/{kind}.schema.json").read_text(encoding="utf-8"))
    against: Iterator[Any] = Draft202012Validator(schema).iter_errors(data)
    return [error.what for error in errors] + [error.message for error in against]


def plain(text: str) -> str:
    """A message without its variable parts, as far as they stand at its ends, and without ticks."""
    return re.sub(r"…( ?…)*", "…", text.replace("`", "")).strip("… ")


def raised() -> Iterator[str]:
    """Every text in the orchestrator's own code; `…` stands for what an f-string fills in."""
    for file in sorted(ROOT.glob("orchestrator/**/*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
                yield plain("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield plain(node.value)
    yield (ROOT / "orchestrate").read_text(encoding="utf-8")


def told_messages(text: str) -> list[str]:
    """The messages in the first columns of a page's tables of messages."""
    tables = re.findall(r"^\| message \|.*\n\|---.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    cells = [row.split(" | ")[0] for table in tables for row in table.splitlines()]
    return [message for cell in cells for message in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize("page", [*PAGES, *BENCHMARKS], ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    assert dead_links(page) == []


@pytest.mark.parametrize("page", [*PAGES, *BENCHMARKS], ids=name)
def test_commands_are_taken(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert {command: refusal(command) for command in commands(text) if refusal(command)} == {}


def test_every_verb_is_told() -> None:
    told = {
        command.split()[0] for page in PAGES for command in commands(page.read_text()) if command
    }
    assert told >= set(COMMANDS)


@pytest.mark.parametrize(
    ("kind", "part", "text"),
    [(kind, part, text) for _, kind, part, text in snippets()],
    ids=[f"{page}-{kind}" for page, kind, _, _ in snippets()],
)
def test_snippets_are_valid(kind: str, part: bool, text: str) -> None:
    assert faults(kind, part, text) == []


def test_every_kind_of_declaration_is_shown() -> None:
    assert {kind for _, kind, _, _ in snippets()} == set(MODELS)


def test_other_snippets_parse() -> None:
    for page in PAGES:
        for info, body in fences(page):
            if info == "json":
                json.loads(body)
            elif info == "python":
                compile(body, name(page), "exec")


def test_the_c_program_compiles(tmp_path: Path) -> None:
    (program,) = (
        text for info, text in fences(ROOT / "docs/guide/use-the-library.md") if info == "c"
    )
    source = tmp_path / "classify.c"
    source.write_text(program)
    flags = ["-target", HOST_TARGET, "-std=c11", "-Wall", "-Wextra", "-Werror"]
    include = ROOT / "orchestrator/native/capi"
    zig("cc", *flags, "-I", include, "-c", source, "-o", tmp_path / "classify.o")


def test_messages_that_are_explained_exist() -> None:
    text = (ROOT / "docs/guide/troubleshooting.md").read_text(encoding="utf-8")
    messages, known = told_messages(text), list(raised())
    assert len(messages) > 100
    assert [m for m in messages if not any(plain(m) in text for text in known)] == []


@pytest.mark.parametrize("file", DECISIONS, ids=name)
def test_a_decision_has_its_four_parts(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert re.findall(r"^## .*$", text, re.MULTILINE) == HEADINGS
    assert text.startswith(f"# {file.name[:4]}: ")
    assert all(part.strip() for part in re.split(r"^#+ .*$", text, flags=re.MULTILINE)[2:])


def test_decisions_are_numbered_and_listed() -> None:
    assert [file.name[:4] for file in DECISIONS] == [
        f"{n:04}" for n in range(1, len(DECISIONS) + 1)
    ]
    listed = links((ROOT / "docs/decisions/README.md").read_text(encoding="utf-8"))
    assert listed == [file.name for file in DECISIONS]


def test_every_page_can_be_reached_from_the_readme() -> None:
    found: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in found or page.suffix != ".md":
            continue
        found.add(page)
        targets = (link.partition("#")[0] for link in links(page.read_text(encoding="utf-8")))
        todo += [(page.parent / target).resolve() for target in targets if target]
    assert [name(page) for page in PAGES if page not in found] == []


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("build //...", None),
        ("build //apps/<app>:linux-x86_64 --json", None),
        ("", None),
        ("bild //...", "no verb bild"),
        ("build --jsn", "unrecognized arguments: --jsn"),
        ("build apps/camera", "`apps/camera` is not a label"),
        ("runtime", "the following arguments are required: action"),
    ],
)
def test_the_rule_for_commands(command: str, expected: str | None) -> None:
    assert refusal(command) == expected


def test_the_rules_for_links_and_snippets(tmp_path: Path) -> None:
    text = "[a](x.md) [b](https://example.com) `[c](y.md)` [d](#e-f)\n```\n[g](z.md)\n```\n"
    assert links(text) == ["x.md", "#e-f"]
    assert anchors("## 2. app.yaml, and `more`\n") == {"2-appyaml-and-more"}
    assert commands("`./orchestrate fetch`, ./orchestrate build //... # all\n") == [
        "fetch",
        "build //...",
    ]
    assert kind_of("yaml apps/x/app.yaml, part") == ("app", True)
    assert kind_of("yaml") is None
    assert told_messages("| message | do |\n|---|---|\n| `a …`, `b` | `c` |\n\n| `d` |\n") == [
        "a …",
        "b",
    ]
    assert plain("`…`…: no `…` here…") == ": no … here"
    assert faults("app", True, "budget: {}\n") == [
        "unknown key `budget`",
        "Additional properties are not allowed ('budget' was unexpected)",
    ]


def test_what_the_campaign_of_traces_covers() -> None:
    """As `corpus` in tests/campaigns/test_traces.py lists it."""
    parts, apps = (
        [
            len(load_located(path.read_text(encoding="utf-8"), str(path))[0]["models"])
            for path in sorted(ROOT.glob(pattern))
        ]
        for pattern in ("tests/integration/apps/*/app.yaml", "apps/*/app.yaml")
    )
    told = (
        f"all ({len(parts) + len(apps)} apps, {sum(parts) + sum(apps)} models; {len(parts)} of the"
        f" apps on both runtimes: {2 * sum(parts) + sum(apps)} traces)"
    )
    assert told in (ROOT / "docs/reliability.md").read_text(encoding="utf-8")


def test_numbers_for_people_of_pytorch_mobile_are_measured() -> None:
    """They are those of the README's build and of the table of speeds, which runs have printed."""
    guide = ROOT / "docs/guide"
    rows = re.findall(
        r"^\| ([^|]+) \| ([\d.,]+(?: MB)?) \| ([\d.,]+(?: MB)?) \|$",
        (guide / "from-pytorch-mobile.md").read_text(),
        re.MULTILINE,
    )
    built, speeds = (ROOT / "README.md").read_text(), (guide / "speed.md").read_text()
    assert len(rows) == 7
    for name, ours, others in rows:
        if ours.endswith("MB"):
            app = name.partition(",")[0]
            assert re.search(
                rf"^{app} +android-arm64-v8a .* {ours} +{others} ", built, re.MULTILINE
            )
        else:
            assert re.search(rf"^\| {name}[^|]* \| {others} \| {ours} \|", speeds, re.MULTILINE), (
                name
            )
