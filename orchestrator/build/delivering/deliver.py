"""Delivers a linked variant."""

from __future__ import annotations

from pathlib import Path

from orchestrator.build.delivering.licences import licences, source_of_app
from orchestrator.build.delivering.public_headers import consumer_definitions, delivered_headers
from orchestrator.build.planning.app_state import common_fingerprint
from orchestrator.build.planning.plan import Variant
from orchestrator.build.planning.selected import selection_fact
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.native import NATIVE
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.build.workshop.traced import with_traces
from orchestrator.compilers.driver import AndroidFacts
from orchestrator.deliver.manifest import (
    AndroidFact,
    KernelsFact,
    ModelFact,
    RuntimeFact,
    ToolchainFact,
)
from orchestrator.deliver.variant import DeliverInputs, model_path
from orchestrator.index.layers import called_symbols
from orchestrator.load.declared import App
from orchestrator.models.methods import declared_call
from orchestrator.models.stripped import stripped
from orchestrator.plan.static_links import StaticLinks
from orchestrator.plan.variant import VariantSpec
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.trace import Trace


def deliver_inputs(here: Invocation, runtime: Runtime, variant: Variant) -> DeliverInputs:
    """Collect the files to deliver of a linked variant, and the facts for its manifest."""
    app, abi = variant.app, variant.label.abi
    toolchain = here.toolchains.of(abi)
    links = variant.links
    selection = variant.selection
    shared = registrations = core = static = None
    if isinstance(links, StaticLinks):
        static = Path(runtime.fill(links.library.output))
    else:
        shared, registrations, core = (
            Path(runtime.fill(link.output))
            for link in (links.shared, links.registrations, links.core)
        )
    return DeliverInputs(
        app=app.name,
        abi=abi,
        version=app.config.version,
        package_name=app.package_name,
        maven_group=app.maven_group,
        java_api=app.config.java_api,
        cxx_api=app.config.cxx_api,
        system=toolchain.config.system,
        processor=toolchain.config.processor,
        shared_library=shared,
        registrations=registrations,
        core=core,
        static_library=static,
        c_header=NATIVE / "capi" / "libtorch_app.h",
        headers=() if static else delivered_headers(here, runtime, abi),
        definitions=() if static else consumer_definitions(here, runtime, abi),
        models=tuple(
            _model(here, app, model, trace) for model, trace in with_traces(app, variant.traces)
        ),
        selection=selection_fact(runtime, selection, variant.objects.plan.request),
        runtime=_runtime(runtime),
        sources=None if runtime.sources is None else source_of_app(runtime.sources),
        source_calls=called_symbols(runtime.own_units),
        kernels=_kernels(runtime, variant.objects.plan.spec),
        threads=app.threads,
        toolchain=ToolchainFact(
            compiler=toolchain.driver.kind,
            version=toolchain.version,
            identity=toolchain.identity,
            cxx_library=toolchain.driver.cxx_library,
            target=toolchain.driver.consumer_target,
            android=_android(toolchain.driver.android),
        ),
        licences=licences(
            here,
            runtime,
            abi,
            [unit for compile in variant.objects.compiles for unit in compile.units],
            shared,
        ),
        for_release=toolchain.for_release,
        beside=toolchain.driver.beside,
        fingerprint=common_fingerprint(runtime, app, variant.traces, variant.request),
        model_files=delivered_models(here, app),
    )


def _runtime(runtime: Runtime) -> RuntimeFact:
    version, loads = runtime.version.version, runtime.dialect.models
    return RuntimeFact(
        pytorch=version,
        tree=runtime.fetched.digest,
        bytecode=(loads.bytecode.start, loads.bytecode.stop - 1),
        archive=(loads.archive.start, loads.archive.stop - 1),
    )


def delivered_models(here: Invocation, app: App) -> dict[str, bytes | Path]:
    """Contents of an app's models to deliver, by name: the file itself if there is nothing to
    strip."""
    if not app.config.deliver_models:
        return {}
    paths = {model.name: here.models.shipped(app, model).path for model in app.config.models}
    return {name: stripped(path) or path for name, path in paths.items()}


def _model(here: Invocation, app: App, model: ModelConfig, trace: Trace) -> ModelFact:
    info = here.models.info(app, model)
    call = declared_call(model.runs[0]) if model.runs else here.models.bundled_call(app, model)
    return ModelFact(
        name=model.name,
        file=here.models.shipped(app, model).path.name,
        sha256=trace.identity.model,
        methods=info.own_methods,
        call=call,
        delivered=model_path(app.name, model.name) if app.config.deliver_models else None,
    )


def _kernels(runtime: Runtime, spec: VariantSpec) -> KernelsFact | None:
    if not spec.features or runtime.library is None:
        return None
    facts = runtime.library.facts
    return KernelsFact(
        features=spec.features, library=facts.name, version=facts.version, levels=spec.levels
    )


def _android(facts: AndroidFacts | None) -> AndroidFact | None:
    if facts is None:
        return None
    return AndroidFact(api=facts.api, ndk=facts.ndk, stl=facts.stl)
