"""Real invocations and runtimes, in a folder of a test's own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from core_toy import FACTS, ROOT, make_index
from shipped_index import shipped, shipped_facts
from toy_natives import natives

from orchestrator.build.workshop.fetch import FetchedRuntime
from orchestrator.build.workshop.invocation import Invocation, invocation
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.build.workshop.runtime_index import with_ours
from orchestrator.compilers.capabilities import Capabilities
from orchestrator.compilers.driver import Driver, Tools
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.context import Context
from orchestrator.errors import Place
from orchestrator.index.model import RuntimeIndex
from orchestrator.load.workspace import load_workspace
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.pytorch.v2_6.dialect import DIALECT as V2_6
from orchestrator.system.process import LOCAL, CommandRunner
from orchestrator.values.config.toolchain import ToolchainConfig
from orchestrator.values.config.workspace import RuntimePin, Source

NOTHING: Mapping[str, Any] = MappingProxyType({})
DIGEST = "7" * 64


def toy_context(root: Path, **changes: Any) -> Context:
    """The edges of a workspace in `root`, whose cache is in it."""
    env = {"HOME": str(root)}
    context = Context(root, root / "cache", root / ".orchestrator", root / "dist", env)
    return replace(context, **changes)


def toy_invocation(
    root: Path,
    apps: Mapping[str, str] = NOTHING,
    *,
    added: str = "",
    log: Callable[[str], None] = lambda line: None,
    ready: Iterable[Runtime] = (),
    found: Mapping[str, ResolvedToolchain] = NOTHING,
    **changes: Any,
) -> Invocation:
    """An invocation in `root`, with this repository's WORKSPACE where the test has none there.

    apps     name -> the text of its app.yaml, which is written, with an empty file for each model
             that is not there
    added    to WORKSPACE
    ready, found  runtimes and toolchains (by ABI) that nothing has to make
    changes  of `toy_context`
    """
    declared = root / "WORKSPACE"
    if not declared.exists():
        root.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "WORKSPACE", declared)
    if added:
        declared.write_text(declared.read_text() + added)
    for name, text in apps.items():
        folder = root / "apps" / name
        for model in yaml.safe_load(text)["models"]:
            (folder / model["file"]).parent.mkdir(parents=True, exist_ok=True)
            (folder / model["file"]).touch()
        (folder / "app.yaml").write_text(text)
    context = toy_context(root, **changes)
    workspace = load_workspace(root, context.env)
    assert not workspace.broken.keys() & apps.keys(), workspace.broken
    return invocation(workspace, context, log, ready=ready, found=found)


def toy_dialect(**changes: Any) -> Dialect:
    """PyTorch 1.13.1, of which some facts are other ones."""
    dialect = replace(DIALECT)
    dialect.__dict__["facts"] = DIALECT.facts.model_copy(update=changes)
    return dialect


def toy_runtime(
    name: str = "pytorch_2_6",
    folders: Mapping[str, str] = NOTHING,
    index: RuntimeIndex | None = None,
    **changes: Any,
) -> Runtime:
    """A runtime of the toy's facts and index, which nothing has fetched.

    folders  ninja variable -> folder
    """
    source = Source(path="/toy/tree")
    pin = RuntimePin(pytorch="1.13.1", tree=DIGEST, sources=(source,))
    tree = Path(folders.get("tree", "/toy/tree"))
    runtime = Runtime(
        name=name,
        pin=pin,
        dialect=DIALECT,
        fetched=FetchedRuntime("1.13.1", tree, DIGEST, {}),
        generated=Path("/toy/generated"),
        configured=Path("/toy/configured"),
        folders=folders,
        renamed={},
        facts=FACTS,
        native=natives(),
        parts={},
        backends=("CPU", "QuantizedCPU"),
    )
    runtime = replace(runtime, **changes)
    runtime.__dict__["index"] = make_index() if index is None else index
    return runtime


def toy_toolchain(
    config: ToolchainConfig, *, runner: CommandRunner = LOCAL, **driver: Any
) -> ResolvedToolchain:
    """A toolchain that can do everything, whose compiler is in no place. driver: fields of it."""
    wrapper = Path("/toy/cxx")
    values: dict[str, Any] = {
        **{"version": "1", "target": config.abi, "identity": {}, "commands": {}, "kind": "zig"},
        **{"cxx_library": "libc++", "c_library": "glibc"},
    }
    toolchain = ResolvedToolchain(
        config=config,
        place=Place(f"toolchains/{config.abi}.yaml"),
        driver=Driver(**{**values, **driver}),
        identity="t" * 64,
        tools=Tools(wrapper, wrapper, wrapper, {}),
        runner=runner,
    )
    able = dict.fromkeys((one.name for one in fields(Capabilities)), True)
    toolchain.__dict__["capabilities"] = Capabilities(**able)
    return toolchain


def shipped_runtime(dialect: Dialect = V2_6, name: str = "pytorch_2_6", **changes: Any) -> Runtime:
    """A runtime with the shipped index of a version, which nothing has fetched."""
    index = shipped(dialect)
    fetched = FetchedRuntime(dialect.version, Path("/toy/tree"), index.tree, {})
    facts = shipped_facts(dialect)
    changes = {"dialect": dialect, "fetched": fetched, "facts": facts, **changes}
    return toy_runtime(name, index=with_ours(index, dialect), **changes)
