"""JSON schemas of the declaration files, for editors that complete and check them.

`python -m orchestrator.load.schemas --write` writes them. They are generated from the models that
the loader validates with (draft 2020-12), and committed; a test ensures that they are current. A
schema checks the form only: the loader checks what needs a second file or the disk.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from orchestrator.values.config.app import AppConfig
from orchestrator.values.config.toolchain import ToolchainConfig, ToolchainGroup
from orchestrator.values.config.workspace import WorkspaceConfig

MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "app": AppConfig,
    "toolchain": ToolchainConfig,
    "toolchain-group": ToolchainGroup,
    "workspace": WorkspaceConfig,
}


class _Generator(GenerateJsonSchema):
    """pydantic's generator, without a title that only repeats each key's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema_text(name: str) -> str:
    """The schema file's text for a name of `MODELS`."""
    schema = MODELS[name].model_json_schema(schema_generator=_Generator)
    head = {"$schema": _Generator.schema_dialect}
    return json.dumps(head | schema, indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str], folder: Path) -> int:
    """Write the schemas into `folder`, or without `--write` list those that are not current."""
    stale = []
    for name in sorted(MODELS):
        file = folder / f"{name}.schema.json"
        text = schema_text(name)
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            stale.append(file.name)
            if "--write" in arguments:
                file.write_text(text, encoding="utf-8")
    print("\n".join(stale) or "current")
    return 1 if stale and "--write" not in arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], Path(__file__).parents[2] / "schemas"))
