"""Runs the pinned tree's own torchgen, in a process of its own.

Called as `python -P torchgen_worker.py <tree> <request.json>`. The tree comes first where Python
looks for modules, so that `import torchgen` is the pinned one, and nothing of it enters the
orchestrator. It must not import the orchestrator.

The request is a list of {"operators": [...], "calls": [...], "kernels": {...}, "direct": {...},
"resolved": {...}, "output": folder}:

operators   what gets a schema
calls       operators that need a typed entry point `at::_ops::X::call`; of one that is neither in
            `operators` nor in `resolved` it raises what the dispatcher would
kernels     dispatch key -> operators to write into `Register<key>.cpp`; whole native function
            groups without a selected member are dropped before torchgen's generators run (its
            selector alone leaves 96 % of the text)
direct      dispatch key -> operators whose kernels are written too, and not registered: for code
            that calls them as `at::cpu::X`, which torchgen defines beside each kernel
resolved    operator -> dispatch key: its typed entry point calls the one kernel that it has, in
            `Resolved.cpp`; such operators are in `calls`, and in `direct` under that key

One call serves many apps, since parsing native_functions.yaml costs as much as writing for ten.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

# Not by PYTHONPATH, which cannot hold a path with a colon.
sys.path.insert(0, sys.argv[1])

from torchgen import gen
from torchgen.api.types import CppSignature, CppSignatureGroup, DispatcherSignature
from torchgen.model import DispatchKey, NativeFunction, NativeFunctionsGroup
from torchgen.selective_build.selector import SelectiveBuilder
from torchgen.utils import FileManager, Target


def _parse(tree: Path) -> Any:
    native = tree / "aten/src/ATen/native"
    return gen.parse_native_yaml(
        str(native / "native_functions.yaml"),
        str(native / "tags.yaml"),
        {DispatchKey.MPS, DispatchKey.XPU},
    )


def _full_name(function: NativeFunction) -> str:
    return f"{function.namespace}::{function.func.name}"


def _members(group: NativeFunction | NativeFunctionsGroup) -> list[NativeFunction]:
    return [group] if isinstance(group, NativeFunction) else list(group.functions())


def _selector(operators: list[str]) -> SelectiveBuilder:
    return SelectiveBuilder.from_yaml_dict(
        {
            "operators": {
                name: {
                    "is_root_operator": True,
                    "is_used_for_training": False,
                    "include_all_overloads": False,
                }
                for name in operators
            }
        }
    )


# Here, not in a unit of its own: each entry point becomes two instructions and a name.
_ABSENT = """
namespace {
// What Dispatcher::findSchemaOrThrow raises of an operator that nobody registered.
[[noreturn]] __attribute__((noinline, cold)) void lta_absent(const char* name) {
  throw c10::Error(
      {"lta_absent", "Operators.cpp", 0}, ::std::string("Could not find schema for ") + name);
}
} // namespace
"""


class _Request:
    def __init__(self, parsed: Any, templates: Path, request: dict[str, Any]) -> None:
        self.parsed = parsed
        self.operators = set(request["operators"])
        self.calls = set(request["calls"])
        self.kernels: dict[str, list[str]] = request["kernels"]
        self.direct: dict[str, list[str]] = request["direct"]
        self.resolved: dict[str, str] = request["resolved"]
        self.output = Path(request["output"])
        self.output.mkdir(parents=True, exist_ok=True)
        self.selector = _selector(sorted(self.operators))
        self.files = FileManager(
            install_dir=str(self.output), template_dir=str(templates), dry_run=False
        )
        self.groups = gen.get_grouped_native_functions(parsed.native_functions)
        self.functions = [f for f in parsed.native_functions if _full_name(f) in self.operators]

    def write(self) -> None:
        for key in sorted({*self.kernels, *self.direct}):
            registered = self.kernels.get(key, [])
            self.write_kernels(
                DispatchKey.parse(key), {*registered, *self.direct.get(key, [])}, registered
            )
            self.name_wrappers(key)
        self.write_schema()
        self.write_backend_select()
        self.write_operators()
        if self.resolved:
            self.write_resolved()

    def write_kernels(self, key: DispatchKey, operators: set[str], registered: list[str]) -> None:
        gen.gen_source_files(
            native_functions=[],
            grouped_native_functions=[
                group
                for group in self.groups
                if any(_full_name(f) in operators for f in _members(group))
            ],
            structured_native_functions=[],
            view_groups=[],
            selector=_selector(sorted(registered)),
            static_dispatch_idx=[],
            backend_indices=self.parsed.backend_indices,
            core_fm=_Discard(),
            cpu_fm=_Only(self.files, f"Register{key}.cpp"),
            cpu_vec_fm=_Discard(),
            dispatch_keys=[key],
            functions_keys={
                DispatchKey.CPU,
                DispatchKey.CompositeImplicitAutograd,
                DispatchKey.CompositeExplicitAutograd,
                DispatchKey.CompositeExplicitAutogradNonFunctional,
            },
            rocm=False,
            force_schema_registration=False,
            per_operator_headers=True,
            skip_dispatcher_op_registration=False,
            **{name: value for name, value in _ELSEWHERE.items() if name in _PARAMETERS},
        )

    def name_wrappers(self, key: str) -> None:
        """Put the key into the wrappers' names, where torchgen does not: an operator with kernels
        under two keys (native_layer_norm: CPU, CompositeExplicitAutograd) has wrappers of one
        name."""
        path = self.output / f"Register{key}.cpp"
        named = re.sub(
            rf"\bwrapper_(?!{key}_)", f"wrapper_{key}_", path.read_text(encoding="utf-8")
        )
        path.write_text(named, encoding="utf-8")

    def write_schema(self) -> None:
        aten, other = gen.get_native_function_schema_registrations(
            native_functions=self.functions, schema_selector=self.selector
        )
        self.files.write(
            "RegisterSchema.cpp",
            lambda: {"aten_schema_registrations": aten, "schema_registrations": other},
        )

    def write_backend_select(self) -> None:
        relevant = [f for f in self.functions if gen.needs_backend_select(f, self.selector)]
        define = gen.ComputeBackendSelect(Target.DEFINITION, self.selector)
        register = gen.ComputeBackendSelect(Target.REGISTRATION, self.selector)
        self.files.write(
            "RegisterBackendSelect.cpp",
            lambda: {
                "ops_headers": [f"#include <ATen/ops/{f.root_name}_ops.h>" for f in relevant],
                "backend_select_method_definitions": [d for d in map(define, relevant) if d],
                "backend_select_function_registrations": [r for r in map(register, relevant) if r],
            },
        )

    def write_operators(self) -> None:
        called = sorted(
            (f for f in self.parsed.native_functions if _full_name(f) in self.calls),
            key=lambda f: str(f.func.name),
        )
        here = [f for f in called if _full_name(f) not in self.resolved]
        compute = gen.ComputeOperators(Target.DEFINITION, static_dispatch_backend_indices=[])
        self.files.write(
            "Operators.cpp",
            lambda: {
                "operator_headers": sorted(
                    {f"#include <ATen/ops/{f.root_name}_ops.h>" for f in here}
                ),
                "static_dispatch_extra_headers": [],
                "definitions": [
                    _ABSENT,
                    *(compute(f) if _full_name(f) in self.operators else _absent(f) for f in here),
                ],
            },
        )

    def write_resolved(self) -> None:
        """Typed entry points that call a kernel; the unit that includes this has `lta::resolved`,
        which raises where the arguments would have led the dispatcher elsewhere."""
        functions = sorted(
            (f for f in self.parsed.native_functions if _full_name(f) in self.resolved),
            key=lambda f: str(f.func.name),
        )
        headers = {f"{f.root_name}_ops" for f in functions} | {
            f"{f.root_name}_{self.resolved[_full_name(f)].lower()}_dispatch" for f in functions
        }
        lines = [f"#include <ATen/ops/{name}.h>" for name in sorted(headers)]
        lines += ["", "namespace at { namespace _ops {"]
        lines += [self.resolved_entry(f, self.resolved[_full_name(f)]) for f in functions]
        lines += ["", "}} // namespace at::_ops", ""]
        (self.output / "Resolved.cpp").write_text("\n".join(lines), encoding="utf-8")

    def resolved_entry(self, function: NativeFunction, key: str) -> str:
        with gen.native_function_manager(function):
            signature = DispatcherSignature.from_schema(function.func)
            # all arguments, as the dispatcher: of those that are no tensors it takes no keys
            arguments = ", ".join(a.name for a in signature.arguments())
            target = _faithful(function)
            call = f"{target.name()}({gen.translate_args(signature, target)})"
        keys = f"c10::detail::multi_dispatch_key_set({arguments})"
        if gen.needs_backend_select(function, _selector([_full_name(function)])):
            made = "c10::DispatchKeySet(c10::computeDispatchKey(dtype, layout, device))"
            keys = f"{made} |\n          {keys}"
        return _entry(
            function,
            f"  ::lta::resolved<c10::DispatchKey::{key}>(\n"
            f'      "{_full_name(function)}",\n'
            f"      {keys});\n"
            f"  return at::{key.lower()}::{call};",
        )


def _faithful(function: NativeFunction) -> CppSignature:
    """The signature of `at::cpu::X` that has the schema's own arguments: no TensorOptions."""
    group = CppSignatureGroup.from_native_function(function, method=False, fallback_binding=False)
    if function.func.has_symint() and group.symint_signature is not None:
        return group.symint_faithful_signature or group.symint_signature
    return group.faithful_signature or group.signature


def _absent(function: NativeFunction) -> str:
    """Typed entry points of an operator that is not there."""
    name = function.func.name
    return _entry(function, f'  lta_absent("aten::{name.name}.{name.overload_name}");')


def _entry(function: NativeFunction, body: str) -> str:
    """The definition of an operator's typed entry points: `redispatch` looks at the keys again."""
    struct = function.func.name.unambiguous_name()
    with gen.native_function_manager(function):
        signature = DispatcherSignature.from_schema(function.func)
        call = signature.defn(name=f"{struct}::call", is_redispatching_fn=False)
        again = signature.defn(name=f"{struct}::redispatch", is_redispatching_fn=True)
        arguments = ", ".join(a.name for a in signature.arguments())
    return f"\n{call} {{\n{body}\n}}\n{again} {{\n  return {struct}::call({arguments});\n}}"


class _Discard:
    """A FileManager that writes nothing."""

    def write(self, *_args: object, **_kwargs: object) -> None: ...

    def write_with_template(self, *_args: object, **_kwargs: object) -> None: ...

    def write_sharded(self, *_args: object, **_kwargs: object) -> None: ...


class _Only(_Discard):
    """A FileManager that writes one file and drops the others."""

    def __init__(self, inner: FileManager, name: str) -> None:
        self.inner = inner
        self.name = name
        # torchgen's definitions substitute templates through the file manager that they are given
        self.substitute_with_template = inner.substitute_with_template

    def write_with_template(self, *args: Any, **kwargs: Any) -> None:
        if args[0] == self.name:
            self.inner.write_with_template(*args, **kwargs)


# What torchgen also writes, as its versions are told where to: nothing of it here. 1.13 asks for
# `cuda_fm`, 2.6 for the others (for AOTInductor, and for other devices' kernels).
_PARAMETERS = inspect.signature(gen.gen_source_files).parameters
_ELSEWHERE: dict[str, object] = {
    "cuda_fm": _Discard(),
    "device_fms": {},
    "aoti_fm": _Discard(),
    "aoti_backends": set(),
    "update_aoti_c_shim": False,
    "extend_aoti_c_shim": False,
}


def main(arguments: list[str]) -> int:
    tree, request = map(Path, arguments)
    value = _parse(tree)
    for one in json.loads(request.read_text(encoding="utf-8")):
        _Request(value, tree / "aten/src/ATen/templates", one).write()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
