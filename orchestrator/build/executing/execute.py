"""Writes an action graph as build.ninja, and runs ninja on it."""

from __future__ import annotations

import secrets
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from orchestrator.build.executing.launch import launching, with_headers
from orchestrator.build.executing.linked import (
    Checked,
    Known,
    made_files,
    note_linked,
    outdated,
    remove_unknown,
)
from orchestrator.build.executing.stored_links import StoredLinks, deciding
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.compilers.resolve import (
    ResolvedToolchain,
    checked_environment,
    compiler_environment,
    zig_caches,
)
from orchestrator.compilers.zig_results import note_results
from orchestrator.execute.ninja_file import RUN, Tools, member_lists, ninja_text
from orchestrator.execute.ninja_progress import Costs, ProgressSink, parse_status
from orchestrator.execute.ninja_run import NinjaResult, failure_error, run_ninja
from orchestrator.plan.graph import VariantObjects, action_graph, texts_of
from orchestrator.plan.unity import shard_files
from orchestrator.system.limits import limits, this_machine
from orchestrator.system.staging import remove_no_file, write_if_changed
from orchestrator.values.action import (
    ActionGraph,
    Compile,
    Link,
    count_units,
    precompiled_headers,
    unit_names,
)

# Makes a progress view from expected costs and the number of jobs.
View = Callable[[Costs, int], ProgressSink]


@dataclass(frozen=True)
class Execution:
    """Result of executing a graph: the objects that were to be compiled because the user's cache
    lacked them, and ninja's result.

    If nothing failed, the command of each such object ran. The command may be a compiler
    launcher's, which does not tell whether its own cache had the object.
    """

    compiled: frozenset[str]
    result: NinjaResult


def execute_actions(
    here: Invocation,
    graph: ActionGraph,
    texts: Mapping[str, str],
    *,
    name: str,
    targets: Sequence[str] = (),
    jobs: int | None,
    keep_going: bool,
    view: View,
) -> Execution:
    """Write `<state>/<name>.ninja` and run it.

    texts: file (`$cache/...`) -> text, for the files that the plan needs first. Cached objects are
    checked and linked into the workspace first, then what was linked of them
    (`build.stored_links`); other linked files (`build.linked`) and zig's own libraries
    (`compilers.zig_results`) are checked.
    Objects are stored in the cache as soon as each is finished, so that an interrupted run keeps
    them too; linked files when ninja has ended.
    """
    cache = here.context.cache
    write_texts(here, {**texts, **shards_of(here, graph)})
    objects = _restored(here, graph.compiles)
    headers = precompiled_headers(_todo(graph, objects))
    abis = abis_of(graph)
    launched = launching(here, sorted(abis))
    memory = [runtime.version.memory for runtime in here.runtimes.prepared]
    unit = max(one.unit_mb for one in memory) * 10**6
    heavy = max(one.heavy_unit_mb for one in memory) * 10**6
    allowed = limits(this_machine(), jobs, unit, heavy)
    links = _Links(here, graph, name, objects)
    write_texts(here, member_lists(links.todo, here.runtimes.fill))
    present = frozenset((*objects, *_restored(here, headers), *links.present))
    text = ninja_text(
        with_headers(graph) if launched.texts else graph,
        folders={**here.runtimes.folders, **launched.folders},
        toolchains={abi: _tools(here.toolchains.of(abi)) for abi in sorted(abis)},
        present=present,
        launchers=launched.texts,
        heavy_cost=min(one.heavy_cost for one in memory),
        heavy_jobs=allowed.heavy_jobs,
        python=sys.executable,
    )
    build_file = here.context.state / f"{name}.ninja"
    write_if_changed(build_file, text)
    if links.todo:
        compilers = linking_environment(here)
    else:
        # links alone take what zig keeps
        compilers = compiler_environment(cache, here.context.env, here.context.state)
    # ninja starts over from a damaged log, but not from what is no file
    for log in (".ninja_log", ".ninja_deps"):
        remove_no_file(build_file.with_name(log))
    costs = _costs(here, graph, present)
    with view(costs, allowed.jobs) as sink, _Keeper(here, graph, present) as keeper:

        def feed(line: str) -> None:
            keeper.finished(line)
            sink.feed(line)

        # ninja knows no target without an edge, and without targets it makes all that there is
        missing = [here.runtimes.fill(target) for target in targets if target not in present]
        result = NinjaResult(0, {})
        if missing or not targets:
            result = run_ninja(
                build_file,
                missing,
                env={**compilers, **launched.env, RUN: secrets.token_hex(8)},
                folder=cache,
                jobs=allowed.jobs,
                keep_going=keep_going,
                feed=feed,
                runner=here.context.runner,
            )
    links.keep()
    if links.todo:
        for folder in zig_caches(compilers):
            note_results(folder)
    return Execution(frozenset(graph.compiles) - present, result)


def linking_environment(here: Invocation) -> dict[str, str]:
    """The environment of a linker: what zig keeps of its own is compared with what zig made, and
    seen through the workspace where the cache is read-only. The caller holds the workspace's lock.

    Raises OSError.
    """
    context = here.context
    compilers, damaged = checked_environment(context.cache, context.env, context.state)
    if damaged:
        here.log(
            f"{damaged} file{'s' if damaged > 1 else ''} in zig's cache changed since zig made "
            f"{'them' if damaged > 1 else 'it'}: made again"
        )
    return compilers


# CPU seconds of a link, whatever is linked, and of an archive (`.ninja_log` of builds of all apps).
_LINK_SECONDS, _ARCHIVE_SECONDS = 0.5, 0.02


def _costs(
    here: Invocation, graph: ActionGraph, present: Collection[str]
) -> dict[str, list[float]]:
    """Expected costs in seconds, by the descriptions of ninja's rules: see `Progress`."""
    todo = {output: one for output, one in graph.compiles.items() if output not in present}
    headers = precompiled_headers(todo.values())
    runs = set(todo)
    found = defaultdict[str, list[float]](list)
    for one in todo.values():
        found[one.unit].append(one.seconds)
    found["precompile"] = [one.cost for output, one in headers.items() if output not in present]
    for link in (link for link in graph.links if link.output not in present):
        there = Path(here.runtimes.fill(link.output)).exists()
        if there and runs.isdisjoint((*link.whole, *link.on_demand, *link.inputs)):
            continue
        runs.add(link.output)
        archive = link.kind in {"archive", "code_archive"}
        name, seconds = ("archive", _ARCHIVE_SECONDS) if archive else ("link", _LINK_SECONDS)
        found[name].append(seconds)
    return {name: each for name, each in found.items() if each}


@dataclass(frozen=True)
class Linked:
    """Number of units in all links, and names of the units that were compiled now."""

    units: int
    compiled: tuple[str, ...]


def execute_linked(
    here: Invocation,
    objects: VariantObjects,
    links: Iterable[Link],
    runner_compiles: Iterable[Compile],
    *,
    name: str,
    jobs: int | None,
    view: View,
) -> Linked:
    """Compile and link one variant with its model runner, all of it. Raises ActionFailedError."""
    graph = action_graph([objects], links)
    runners = {c.object: c for c in runner_compiles}
    graph = replace(graph, compiles={**graph.compiles, **runners})
    execution = execute_actions(
        here,
        graph,
        texts_of([objects]),
        name=name,
        jobs=jobs,
        keep_going=False,
        view=view,
    )
    require_success(here, graph, execution)
    compiled = (graph.compiles[output] for output in execution.compiled)
    return Linked(count_units(graph.compiles.values()), unit_names(compiled))


def abis_of(graph: ActionGraph) -> set[str]:
    """The ABIs whose compilers its actions run."""
    return {c.abi for c in graph.compiles.values()} | {link.abi for link in graph.links}


def require_success(here: Invocation, graph: ActionGraph, execution: Execution) -> None:
    """Raises ActionFailedError where an action of a run failed, and what finding a compiler raises
    where it is gone by then; all failures go to a log."""
    result = execution.result
    if result.failures:
        here.toolchains.require(abis_of(graph))
        log = here.context.state / "failures.log"
        raise failure_error(result, names_of(here, graph), result.actions, log)


def _restored(here: Invocation, outputs: Iterable[str]) -> dict[str, str]:
    """Restore objects and precompiled headers from the store into the workspace, checked; return
    the sha256 of those that are there.

    Any other file with one of their names, for example a half-written one, is removed. Ask only for
    headers that something is compiled with: checking one reads hundreds of megabytes.
    """
    names = {here.runtimes.stored_name(output): output for output in outputs}
    wanted = {name: Path(here.runtimes.fill(output)) for name, output in names.items()}
    restored = here.store.restore(wanted)
    _tell_damaged(here, restored.damaged, "object", "compiled")
    return {names[name]: digest for name, digest in restored.digests.items()}


def _tell_damaged(here: Invocation, damaged: Sequence[str], what: str, again: str) -> None:
    if damaged:
        several = "s" if len(damaged) > 1 else ""
        here.log(
            f"{len(damaged)} damaged {what}{several} in the cache: "
            f"removed, to be {again} again ({damaged[0][:12]}...)"
        )


class _Links:
    """The links of a graph: what of them is there before ninja runs, and what it makes of the rest.

    present  outputs that are in the workspace now, checked
    todo     the other links: ninja's
    """

    def __init__(
        self, here: Invocation, graph: ActionGraph, name: str, objects: Mapping[str, str]
    ) -> None:
        self._note = here.context.state / f"{name}.linked.json"
        self._stored = stored_links(here, graph.links, self._note, objects)
        found, damaged = self._stored.restore()
        _tell_damaged(here, damaged, "linked file", "linked")
        self.present: Collection[str] = found.keys()
        self.todo = [link for link in graph.links if link.output not in found]
        self._found = {Path(here.runtimes.fill(output)): one for output, one in found.items()}
        self._files = [Path(here.runtimes.fill(link.output)) for link in self.todo]
        self._before = self._checked(here)

    def _checked(self, here: Invocation) -> Checked:
        before = remove_unknown(self._note, self._files)
        if before.changed:
            others = f" and {len(before.changed) - 1} more" if len(before.changed) > 1 else ""
            here.log(f"{before.changed[0]}{others} changed since the link: linked again")
        of_others = (p for p, (_, known) in before.digests.items() if known.identity is not None)
        return outdated(before, of_others)

    def keep(self) -> None:
        """Store what ninja has linked, and note all that is there. Raises OSError."""
        made = made_files(self._files, self._before)
        stay = {path: known.sha256 for path, (_, known) in self._before.digests.items()}
        known: dict[Path, Known] = self._stored.keep(made, stay)
        note_linked(self._note, self._files, self._before, {**self._found, **known})


def stored_links(
    here: Invocation,
    links: Iterable[Link],
    note: Path,
    objects: Mapping[str, str],
    texts: Mapping[str, str] | None = None,
) -> StoredLinks:
    """The links of a graph as the user's cache has them; objects: their sha256, by output.

    texts: of files that links read and that may not be written yet
    """
    links, store, environment = tuple(links), here.store, link_environment(here)
    return StoredLinks(here, links, store, environment, note, dict(objects), texts or {})


def link_environment(here: Invocation) -> tuple[str, ...]:
    """The variables that may decide what links make: see `deciding`."""
    launcher = here.workspace.config.launcher
    return deciding({**here.context.env, **({} if launcher is None else launcher.env)})


def _todo(graph: ActionGraph, present: Collection[str]) -> list[Compile]:
    return [action for output, action in graph.compiles.items() if output not in present]


class _Keeper:
    """Passes objects to the store when ninja reports them as finished, and the rest at the end.

    An action renames its output into place as its last step, so existing outputs are complete.
    """

    def __init__(self, here: Invocation, graph: ActionGraph, present: Collection[str]) -> None:
        self._store = here.store
        self._missing: dict[str, list[tuple[str, Path]]] = {}
        self._finished = 0
        todo = _todo(graph, present)
        units = {action.object: action.unit for action in todo}
        for output in sorted((units.keys() | precompiled_headers(todo).keys()) - set(present)):
            item = (here.runtimes.stored_name(output), Path(here.runtimes.fill(output)))
            self._missing.setdefault(units.get(output, ""), []).append(item)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        for unit in list(self._missing):
            self._keep(unit)

    def finished(self, line: str) -> None:
        """Put an action's output into the store once its status line says that it has finished.

        One on its start counts no more finished actions than the line before. Lines in another form
        are output of commands: they are ignored.
        """
        status = parse_status(line)
        if status is not None and status.finished > self._finished:
            self._finished = status.finished
            self._keep(status.description)

    def _keep(self, unit: str) -> None:
        items = self._missing.pop(unit, [])
        left = [(name, path) for name, path in items if not path.is_file()]
        for name, path in items:
            if (name, path) not in left:
                self._store.put(name, path)
        if left:
            self._missing[unit] = left


def shards_of(here: Invocation, graph: ActionGraph) -> dict[str, str]:
    """Sources of the graph's unity shards: path (`$cache/unity/...`) -> text, to be written before
    ninja runs."""
    return {
        path: text
        for rules in {runtime.facts.unity for runtime in here.runtimes.prepared}
        for path, text in shard_files(rules, graph.compiles.values()).items()
    }


def write_texts(here: Invocation, texts: Mapping[str, str]) -> None:
    """Write files (`$cache/...`, `$state/...`): one that holds what it should stays as it is."""
    for file in sorted(texts):
        write_if_changed(Path(here.runtimes.fill(file)), texts[file])


def _tools(toolchain: ResolvedToolchain) -> Tools:
    return {
        "cxx": str(toolchain.cxx),
        "cc": str(toolchain.cc),
        "ar": str(toolchain.ar),
        "link": toolchain.link_flags,
    }


def names_of(here: Invocation, graph: ActionGraph) -> dict[str, str]:
    """Output path as ninja prints it -> the name for error messages: a unit's path in PyTorch, a
    header's or a link's base name."""
    names = {here.runtimes.fill(o): c.unit for o, c in graph.compiles.items()}
    headers = precompiled_headers(graph.compiles.values())
    names |= {here.runtimes.fill(o): Path(header.source).name for o, header in headers.items()}
    return names | {here.runtimes.fill(link.output): Path(link.output).name for link in graph.links}
