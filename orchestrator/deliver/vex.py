"""Verdicts on vulnerabilities as VEX: CycloneDX 1.5 JSON (https://cyclonedx.org/docs/1.5/json/,
`vulnerabilities`).

Contract: pure and stable, as the bills of `sbom.py` are. What is affected is PyTorch: in the
document itself, and of a package also in the bills that are in it, by BOM-Link
(https://cyclonedx.org/capabilities/bomlink/).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from cyclonedx.model import XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.impact_analysis import ImpactAnalysisJustification, ImpactAnalysisState
from cyclonedx.model.vulnerability import (
    BomTarget,
    Vulnerability,
    VulnerabilityAnalysis,
    VulnerabilitySource,
)
from cyclonedx.output.json import JsonV1Dot5
from packageurl import PackageURL

from orchestrator.deliver.sbom import pytorch_component, stable
from orchestrator.values.advisories import LibraryVerdicts, Verdict

SUFFIX: Final = ".vex.cdx.json"
# Names our serial numbers; made once with uuid4.
_NAMESPACE: Final = uuid.UUID("b2b0b0a5-0c0b-4a52-9a53-5b7a3f6d1f0e")


def text(library: LibraryVerdicts) -> str:
    """The statements on a library that is planned as JSON with a last newline."""
    label = str(library.label)
    root = Component(type=ComponentType.LIBRARY, name=label, bom_ref=label)
    return _text(root, library.pytorch, library.verdicts)


def text_of_package(
    name: str, version: str, bills: Collection[str], libraries: Sequence[LibraryVerdicts]
) -> str:
    """The same on a package of one app: of each vulnerability, the worst that is true of one of its
    libraries.

    bills: serial numbers of those in the package
    """
    root = Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        bom_ref=f"{name}@{version}",
        purl=PackageURL("generic", None, name, version),
    )
    worst = dict[str, Verdict]()
    for library in libraries:
        for one in library.verdicts:
            worst[one.advisory.id] = max(worst.get(one.advisory.id, one), one, key=_badness)
    return _text(root, libraries[0].pytorch, worst.values(), bills)


def _badness(verdict: Verdict) -> int:
    return ("not present", "not reachable", "mended", "reachable").index(verdict.word)


def _text(
    root: Component, version: str, verdicts: Iterable[Verdict], bills: Collection[str] = ()
) -> str:
    pytorch = pytorch_component(version)
    affected = str(pytorch.bom_ref.value)
    linked = [f"urn:cdx:{serial.removeprefix('urn:uuid:')}/1#{affected}" for serial in bills]
    bom = Bom()
    bom.metadata.component = root
    bom.components.add(pytorch)
    bom.register_dependency(root, [pytorch])
    for one in verdicts:
        bom.vulnerabilities.add(_vulnerability(one, [affected, *linked]))
    seen = stable(json.loads(JsonV1Dot5(bom).output_as_string()))
    seen.pop("serialNumber", None)
    contents = json.dumps(seen, sort_keys=True)
    seen["serialNumber"] = f"urn:uuid:{uuid.uuid5(_NAMESPACE, contents)}"
    return json.dumps(seen, indent=2, sort_keys=True) + "\n"


def _vulnerability(verdict: Verdict, affected: Iterable[str]) -> Vulnerability:
    advisory = verdict.advisory
    justification = verdict.justification
    return Vulnerability(
        bom_ref=advisory.id,
        id=advisory.id,
        description=advisory.title,
        source=VulnerabilitySource(url=XsUri(advisory.source)),
        affects=[BomTarget(ref=ref) for ref in affected],
        analysis=VulnerabilityAnalysis(
            state=ImpactAnalysisState(verdict.state),
            justification=ImpactAnalysisJustification(justification) if justification else None,
            detail="\n".join(verdict.lines) or None,
        ),
    )
