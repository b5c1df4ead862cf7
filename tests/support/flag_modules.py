"""Random modules whose attributes decide branches, and a program of torch's Python that runs them.

Each branch has a number of its own, which a run that takes it appends to the result. So the results
say which branches can be taken, and the numbers in the bytecode where each is.

    python flag_modules.py FOLDER     scripts FOLDER/flags*.py, writes a .ptl beside each, calls its
                                      methods at random in torch's lite interpreter, and prints the
                                      numbers that results had: {"flags0": [1000, ...]}
"""

from __future__ import annotations

import importlib
import json
import random
import sys
from pathlib import Path

_FIRST = 1000
_CALLS = 30
_HEAD = """import torch
from torch import Tensor, nn
from typing import List, Optional
"""


class _Writer:
    """Writes a module, and two classes of parts that it has, which may be shared."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.number = _FIRST
        self.lines: list[str] = []

    def pick(self, *options: str) -> str:
        return self.source.choice(options)

    def attributes(self) -> dict[str, str]:
        """Names and values; what a name starts with says its type."""
        values = {
            "n": lambda: str(self.source.randint(0, 3)),
            "b": lambda: self.pick("True", "False"),
            "s": lambda: self.pick("'zeros'", "'same'", "'valid'"),
            "f": lambda: self.pick("0.0", "0.5", "1.0"),
        }
        kinds = [self.source.choice([*values]) for _ in range(self.source.randint(2, 5))]
        return {f"{kind}{number}": values[kind]() for number, kind in enumerate(kinds)}

    def condition(self, attributes: dict[str, str], depth: int = 0) -> str:
        name = self.source.choice([*attributes])
        what = name.rpartition(".")[2][0]
        options = [
            "flag",
            "x > 1",
            "here",
            {
                "n": f"self.{name} {self.pick('==', '!=', '<', '>=')} {self.source.randint(0, 3)}",
                "b": f"self.{name}",
                "s": f"self.{name} {self.pick('==', '!=')} 'zeros'",
                "f": f"self.{name} {self.pick('==', '<')} {self.pick('0.0', '0.5')}",
                "o": f"self.{name} is {self.pick('', 'not ')}None",
            }[what],
        ]
        if depth < 2:
            one, other = (self.condition(attributes, depth + 1) for _ in range(2))
            options += [f"not ({one})", f"({one}) and ({other})", f"({one}) or ({other})"]
        # mostly of attributes
        return options[3] if self.source.random() < 0.6 else self.source.choice(options)

    def block(self, attributes: dict[str, str], indent: int, calls: list[str]) -> None:
        pad = " " * indent
        for _ in range(self.source.randint(1, 3)):
            self.lines.append(f"{pad}seen.append({self.number})")
            self.number += 1
            kind = self.source.random()
            if kind < 0.5 and indent < 20:
                self.lines.append(f"{pad}if {self.condition(attributes)}:")
                self.block(attributes, indent + 4, calls)
                if self.source.random() < 0.5:
                    self.lines.append(f"{pad}else:")
                    self.block(attributes, indent + 4, calls)
            elif kind < 0.6:
                self.lines.append(f"{pad}here = {self.condition(attributes)}")
            elif kind < 0.65 and indent < 20:
                self.lines.append(f"{pad}for _i in range(x):")
                self.block(attributes, indent + 4, calls)
            elif kind < 0.75:
                self.set_one(attributes, pad)
            elif kind < 0.85 and calls:
                self.lines.append(f"{pad}seen.extend({self.source.choice(calls)})")
            elif kind < 0.88 and indent > 8:
                self.lines.append(f"{pad}return seen")
                return

    def set_one(self, attributes: dict[str, str], pad: str) -> None:
        able = [name for name in attributes if name.rpartition(".")[2][0] in "nb"]
        if not able:
            return
        name = self.source.choice(able)
        if name.rpartition(".")[2][0] == "n":
            value = self.pick("x", "1", f"self.{name} + 1")
        else:
            value = self.pick("flag", "True", "here")
        self.lines.append(f"{pad}self.{name} = {value}")

    def method(self, name: str, attributes: dict[str, str], calls: list[str]) -> None:
        if name != "forward":
            self.lines.append("    @torch.jit.export")
        self.lines.append(f"    def {name}(self, x: int, flag: bool) -> List[int]:")
        self.lines.append("        seen: List[int] = []")
        self.lines.append("        here = False")
        self.block(attributes, 8, calls)
        self.lines.append("        return seen")

    def part(self, name: str) -> dict[str, str]:
        attributes = self.attributes()
        named = ", ".join(attributes)
        self.lines += [f"class {name}(nn.Module):", f"    def __init__(self, {named}):"]
        self.lines += ["        super().__init__()"]
        self.lines += [f"        self.{one} = {one}" for one in attributes]
        self.method("forward", attributes, [])
        return attributes

    def module(self) -> str:
        parts = {name: self.part(name) for name in ("A", "B")}
        own = self.attributes()
        self.lines += ["class Flags(nn.Module):", "    def __init__(self):"]
        self.lines += ["        super().__init__()"]
        self.lines += [f"        self.{name} = {value}" for name, value in own.items()]
        own["o0"] = self.pick("None", "torch.zeros(2)")
        self.lines.append(f"        self.register_buffer('o0', {own['o0']})")
        inside = dict[str, str]()
        for number in range(self.source.randint(1, 4)):
            name, of = f"p{number}", self.source.choice([*parts])
            if number and self.source.random() < 0.3:
                earlier = self.source.choice([*inside])
                inside[name] = inside[earlier]
                self.lines.append(f"        self.{name} = self.{earlier}")
                continue
            inside[name] = of
            values = ", ".join(
                value if self.source.random() < 0.7 else self.other(one)
                for one, value in parts[of].items()
            )
            self.lines.append(f"        self.{name} = {of}({values})")
        for name, of in inside.items():
            own |= {f"{name}.{one}": value for one, value in parts[of].items()}
        calls = [f"self.{name}(x, flag)" for name in inside]
        self.method("forward", own, calls)
        if self.source.random() < 0.6:
            self.method("change", own, calls)
        return _HEAD + "\n".join(self.lines) + "\n"

    def other(self, name: str) -> str:
        return {"n": "2", "b": "True", "s": "'same'", "f": "1.0"}[name[0]]


def module_text(source: random.Random) -> str:
    """The source of one module."""
    return _Writer(source).module()


def _run(folder: Path) -> dict[str, list[int]]:
    import torch
    from torch.jit.mobile import _load_for_lite_interpreter

    sys.path.insert(0, str(folder))
    seen = {}
    for path in sorted(folder.glob("flags*.py")):
        module = importlib.import_module(path.stem).Flags().eval()
        file = path.with_suffix(".ptl")
        torch.jit.script(module)._save_for_lite_interpreter(str(file))
        source, found = random.Random(path.stem), set[int]()
        for _ in range(4):
            loaded = _load_for_lite_interpreter(str(file))
            for _ in range(_CALLS):
                name = source.choice(["forward", "change"])
                if not hasattr(module, name):
                    name = "forward"
                found.update(loaded.run_method(name, source.randint(0, 3), source.random() < 0.5))
        seen[path.stem] = sorted(found)
    return seen


if __name__ == "__main__":
    print(json.dumps(_run(Path(sys.argv[1]))))
