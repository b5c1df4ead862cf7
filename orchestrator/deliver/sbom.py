"""The software bill of materials of a variant: CycloneDX 1.5 JSON, from its manifest.

Contract: pure and stable. The serial number is derived from the contents (RFC 4122, version 5),
and there is no time stamp, so that equal variants have equal bills.

The licence of the whole is the conjunction of its components' licences (SPDX specification, annex
D): a shipped library must comply with all of them. A component's hash is that of its source
(`SourceFact`); a model's and a library's is that of its file. What of ours mends a component is in
its pedigree, by the advisories.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import (
    Component,
    ComponentType,
    Patch,
    PatchClassification,
    Pedigree,
)
from cyclonedx.model.issue import IssueClassification, IssueType
from cyclonedx.output.json import JsonV1Dot5
from packageurl import PackageURL

from orchestrator.deliver.manifest import LicenceFact, Manifest

PYTORCH: Final = "PyTorch"
# Names our serial numbers; made once with uuid4.
_NAMESPACE: Final = uuid.UUID("5f1f6f0c-54d0-4f3b-9b3e-3f0a6c1f7d52")


def text(manifest: Manifest, libraries: Mapping[str, str]) -> str:
    """The bill as JSON with a last newline; the manifest's files are not in it.

    libraries: path -> sha256 of those that are delivered with it.
    """
    bare = manifest.model_copy(update={"files": {}})
    contents = bare.text() + json.dumps(libraries, sort_keys=True)
    bom = Bom(serial_number=uuid.uuid5(_NAMESPACE, contents))
    root = _root(manifest, libraries)
    parts = [_part(fact) for fact in manifest.licences]
    models = [_model(fact.name, fact.sha256) for fact in manifest.models]
    bom.metadata.component = root
    for component in (*parts, *models):
        bom.components.add(component)
    bom.register_dependency(root, parts)
    seen = stable(json.loads(JsonV1Dot5(bom).output_as_string()))
    return json.dumps(seen, indent=2, sort_keys=True) + "\n"


def stable(bill: dict[str, Any]) -> dict[str, Any]:
    """A bill without what the library adds: the time that it ran at, its own name and version."""
    bill["metadata"].pop("timestamp", None)
    bill["metadata"].pop("tools", None)
    return bill


def pytorch_component(version: str) -> Component:
    """PyTorch, as scanners know it: by its repository, and by the name that the NVD has for it."""
    return Component(
        type=ComponentType.LIBRARY,
        name=PYTORCH,
        version=version,
        bom_ref=f"{PYTORCH}@{version}",
        purl=PackageURL("github", "pytorch", "pytorch", f"v{version}"),
        cpe=f"cpe:2.3:a:linuxfoundation:pytorch:{version}:*:*:*:*:*:*:*",
    )


def _root(manifest: Manifest, libraries: Mapping[str, str]) -> Component:
    return Component(
        type=ComponentType.LIBRARY,
        name=manifest.package_name,
        version=manifest.version,
        bom_ref=f"{manifest.package_name}@{manifest.version}",
        purl=PackageURL("generic", None, manifest.package_name, manifest.version),
        licenses=[LicenseFactory().make_from_string(licence_of_all(manifest))],
        components=[_library(path, sha256) for path, sha256 in libraries.items()],
        properties=[
            Property(name="libtorch:abi", value=manifest.abi),
            Property(name="libtorch:pytorch-tree", value=manifest.runtime.tree),
            Property(name="libtorch:toolchain", value=manifest.toolchain.identity),
        ],
    )


def _part(fact: LicenceFact) -> Component:
    known = pytorch_component(fact.version) if fact.component == PYTORCH else None
    return Component(
        type=ComponentType.LIBRARY,
        name=fact.component,
        version=fact.version or None,
        bom_ref=f"{fact.component}@{fact.version}" if fact.version else fact.component,
        purl=known.purl if known else PackageURL("generic", None, fact.component, fact.version),
        cpe=known.cpe if known else None,
        licenses=[LicenseFactory().make_from_string(fact.licence)],
        hashes=[_sha256(fact.source.sha256)] if fact.source else [],
        pedigree=_pedigree(fact.mended) if fact.mended else None,
        properties=[
            Property(
                name="libtorch:hashed-files",
                value=" ".join(fact.source.files) or "the whole pinned tree",
            )
        ]
        if fact.source
        else [],
    )


def _pedigree(mended: Iterable[str]) -> Pedigree:
    """A patch for each advisory that a header of ours mends."""
    security = IssueClassification.SECURITY
    return Pedigree(
        patches=[
            Patch(
                type=PatchClassification.UNOFFICIAL,
                resolves=[IssueType(type=security, id=name)],
            )
            for name in mended
        ]
    )


def licence_of_all(manifest: Manifest) -> str:
    """The SPDX expression of the whole library: each part's licence once, sorted, joined with AND.

    https://spdx.github.io/spdx-spec/v2.3/SPDX-license-expressions/
    """
    parts = sorted({part for fact in manifest.licences for part in fact.licence.split(" AND ")})
    return " AND ".join(parts)


def _library(path: str, sha256: str) -> Component:
    return Component(
        type=ComponentType.FILE, name=path, bom_ref=f"file:{path}", hashes=[_sha256(sha256)]
    )


def _model(name: str, sha256: str) -> Component:
    return Component(
        type=ComponentType.MACHINE_LEARNING_MODEL,
        name=name,
        bom_ref=f"model:{name}",
        hashes=[_sha256(sha256)],
    )


def _sha256(content: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=content)
