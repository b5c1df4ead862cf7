"""Targets that are groups of several ABIs (`ios-simulator`), and the apps that name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from orchestrator.load.declared import App


def abis_of(targets: Iterable[str], groups: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The ABIs that targets stand for, in order; one that is named twice is there twice."""
    return [abi for target in targets for abi in groups.get(target, (target,))]


def without_groups(app: App, groups: Mapping[str, tuple[str, ...]]) -> App:
    """The app with each group replaced by its members; a group's budget is each member's."""
    config = app.config
    budgets = {
        abi: size for target, size in config.budgets.items() for abi in groups.get(target, ())
    }
    budgets |= {target: size for target, size in config.budgets.items() if target not in groups}
    targets = tuple(dict.fromkeys(abis_of(config.targets, groups)))
    return replace(app, config=config.model_copy(update={"targets": targets, "budgets": budgets}))
