"""The provenance of packages: an in-toto statement with SLSA's predicate, from their manifests.

Contract: pure and stable. It has no time and no number of the run, which SLSA leaves optional, so
that equal packages have equal statements.

A whole source tree is identified by in-toto's `dirHash`, which is the digest that WORKSPACE pins;
chosen files by the sha256 of `SourceFact`, and their globs are beside it. External parameters have
the names of app.yaml's keys; `pytorch` is the runtime's version.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
https://slsa.dev/spec/v1.0/provenance
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from packageurl import PackageURL

from orchestrator.deliver.manifest import LicenceFact, Manifest, SourceFact
from orchestrator.deliver.sbom import PYTORCH, pytorch_component
from orchestrator.values.config.app import PackageKind

SUFFIX: Final = ".intoto.json"
BUILDER: Final = "libtorch-orchestrator"
# Names the meaning of the parameters: another number where that changes.
_BUILD_TYPE: Final = f"pkg:generic/{BUILDER}/build@1"

_Json = dict[str, object]


def text(
    kind: PackageKind, manifests: Sequence[Manifest], subjects: Mapping[str, str], version: str
) -> str:
    """The statement as JSON with a last newline.

    manifests  of the variants in the packages, which are of one state of an app
    subjects   file name -> sha256, of the packages
    version    the orchestrator's
    """
    ordered = sorted(manifests, key=lambda one: one.abi)
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": name, "digest": {"sha256": sha256}}
            for name, sha256 in sorted(subjects.items())
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": _external(kind, ordered),
                "internalParameters": {one.abi: _internal(one) for one in ordered},
                "resolvedDependencies": _dependencies(ordered),
            },
            "runDetails": {"builder": {"id": _purl(BUILDER, version)}},
        },
    }
    return json.dumps(statement, indent=2, sort_keys=True) + "\n"


def _external(kind: PackageKind, manifests: Sequence[Manifest]) -> _Json:
    """Declarations of the app and its workspace, as far as manifests have them."""
    first = manifests[0]
    declared: _Json = {
        "app": first.app,
        "packages": [kind],
        "targets": [one.abi for one in manifests],
        "version": first.version,
        "package_name": first.package_name,
        "maven_group": first.maven_group,
        "java_api": first.java_api,
        "cxx_api": first.cxx_api,
        "deliver_models": any(model.delivered is not None for model in first.models),
        "pytorch": first.runtime.pytorch,
        "threads": first.threads,
    }
    return {key: value for key, value in declared.items() if value is not None}


def _internal(manifest: Manifest) -> _Json:
    """Facts about a variant that follow from the declarations."""
    return {
        "fingerprint": manifest.fingerprint,
        "for_release": manifest.for_release,
        "kernels": manifest.kernels.model_dump(mode="json") if manifest.kernels else None,
        "selection_digest": manifest.selection.digest,
    }


def _dependencies(manifests: Sequence[Manifest]) -> list[_Json]:
    """Sources, models and compilers of all variants, each once, sorted."""
    found = {
        json.dumps(one, sort_keys=True): one
        for manifest in manifests
        for one in (*_sources(manifest), *_models(manifest), _toolchain(manifest))
    }
    return sorted(found.values(), key=lambda one: (str(one["name"]), json.dumps(one)))


def _sources(manifest: Manifest) -> Iterator[_Json]:
    runtime = manifest.runtime
    yield {
        "name": PYTORCH,
        "uri": str(pytorch_component(runtime.pytorch).purl),
        "digest": {"dirHash": runtime.tree},
    }
    if manifest.sources is not None:
        yield {"name": f"{manifest.app}-sources", **_digest(manifest.sources)}
    for fact in manifest.licences:
        if fact.source is not None and not _is_in_another(manifest, fact):
            yield {
                "name": fact.component,
                "uri": _purl(fact.component, fact.version),
                **_digest(fact.source),
            }


def _is_in_another(manifest: Manifest, fact: LicenceFact) -> bool:
    """True if another source has the part's files: PyTorch's (see `LicenceFact`), or the app's."""
    return not fact.version or fact.component == PYTORCH or fact.source == manifest.sources


def _digest(source: SourceFact) -> _Json:
    if not source.files:
        return {"digest": {"dirHash": source.sha256}}
    return {"digest": {"sha256": source.sha256}, "annotations": {"files": [*source.files]}}


def _models(manifest: Manifest) -> Iterator[_Json]:
    for model in manifest.models:
        yield {"name": model.file, "digest": {"sha256": model.sha256}}


def _toolchain(manifest: Manifest) -> _Json:
    """The compiler. Its identity is no digest of a file, but of its content and its flags."""
    fact = manifest.toolchain
    details = fact.model_dump(mode="json", exclude={"compiler", "version"}, exclude_none=True)
    return {
        "name": fact.compiler,
        "uri": _purl(fact.compiler, fact.version),
        "annotations": {"abi": manifest.abi, **details},
    }


def _purl(name: str, version: str) -> str:
    return str(PackageURL("generic", None, name, version))
