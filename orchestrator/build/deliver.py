"""What a variant that has been linked is delivered as."""

from __future__ import annotations

from pathlib import Path

from orchestrator.build.licences import licences
from orchestrator.build.package import common_fingerprint
from orchestrator.build.plan import Variant, abi_of
from orchestrator.build.prepare import NATIVE
from orchestrator.build.public_headers import consumer_definitions, delivered_headers
from orchestrator.build.session import RuntimeSession
from orchestrator.compilers.driver import AndroidFacts
from orchestrator.deliver.manifest import (
    AndroidFact,
    KernelsFact,
    ModelFact,
    RuntimeFact,
    SelectionFact,
    ToolchainFact,
)
from orchestrator.deliver.variant import DeliverInputs
from orchestrator.load.declared import App
from orchestrator.models.methods import declared_call
from orchestrator.plan.static_links import StaticLinks
from orchestrator.values.config import ModelConfig
from orchestrator.values.trace import Trace


def deliver_inputs(session: RuntimeSession, variant: Variant) -> DeliverInputs:
    """What is delivered of a variant that has been linked, and what its manifest tells."""
    app, abi = variant.app, abi_of(variant.label)
    toolchain = session.toolchain(abi)
    links = variant.links
    selection = variant.selection
    zig = toolchain.config.compiler.zig
    shared = registrations = core = static = None
    if isinstance(links, StaticLinks):
        static = Path(session.fill(links.library.output))
    else:
        shared, registrations, core = (
            Path(session.fill(link.output))
            for link in (links.shared, links.registrations, links.core)
        )
    return DeliverInputs(
        app=app.name,
        abi=abi,
        version=app.config.version,
        package_name=app.package_name,
        maven_group=app.maven_group,
        system=toolchain.config.system,
        processor=toolchain.config.processor,
        shared_library=shared,
        registrations=registrations,
        core=core,
        static_library=static,
        c_header=NATIVE / "capi" / "libtorch_app.h",
        headers=() if static else delivered_headers(session, abi),
        definitions=() if static else consumer_definitions(session, abi),
        models=tuple(
            _model(session, app, model, trace)
            for model, trace in zip(app.config.models, variant.traces, strict=True)
        ),
        selection=SelectionFact(
            operators=tuple(selection.operators),
            kernel_dtypes={tag: tuple(d) for tag, d in selection.kernel_dtypes.items()},
            custom_classes=tuple(selection.custom_classes),
            build_features=tuple(selection.build_features),
        ),
        runtime=RuntimeFact(
            pytorch=session.runtime.version.version, tree=session.runtime.fetched.digest
        ),
        kernels=_kernels(session, variant.objects.plan.spec.features),
        threads=app.threads,
        toolchain=ToolchainFact(
            compiler=toolchain.driver.kind or ("zig" if zig is not None else "command"),
            version=toolchain.version,
            identity=toolchain.identity,
            cxx_library=toolchain.driver.cxx_library,
            target=toolchain.driver.target if static or zig else None,
            android=_android(toolchain.driver.android),
        ),
        licences=licences(
            session,
            abi,
            [unit for compile in variant.objects.compiles for unit in compile.units],
            shared,
        ),
        for_release=toolchain.for_release,
        beside=toolchain.driver.beside,
        fingerprint=common_fingerprint(session, app, variant.traces, selection),
    )


def _model(session: RuntimeSession, app: App, model: ModelConfig, trace: Trace) -> ModelFact:
    info = session.model(app, model)
    call = info.bundled_call if model.inputs == "bundled" else declared_call(model.inputs[0])
    return ModelFact(
        name=model.name,
        file=Path(model.file).name,
        sha256=trace.identity.model,
        methods=info.own_methods,
        call=call,
    )


def _kernels(session: RuntimeSession, features: tuple[str, ...]) -> KernelsFact | None:
    if not features or session.library is None:
        return None
    facts = session.library.facts
    return KernelsFact(features=features, library=facts.name, version=facts.version)


def _android(facts: AndroidFacts | None) -> AndroidFact | None:
    if facts is None:
        return None
    return AndroidFact(api=facts.api, ndk=facts.ndk, stl=facts.stl)
