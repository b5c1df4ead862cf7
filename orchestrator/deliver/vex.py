"""Verdicts on vulnerabilities as VEX: CycloneDX 1.5 JSON (https://cyclonedx.org/docs/1.5/json/,
`vulnerabilities`).

Contract: pure and stable, as the bills of `sbom.py` are.
"""

from __future__ import annotations

import json
import uuid
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

from orchestrator.deliver.sbom import pytorch_component, stable
from orchestrator.values.advisories import LibraryVerdicts, Verdict

# Names our serial numbers; made once with uuid4.
_NAMESPACE: Final = uuid.UUID("b2b0b0a5-0c0b-4a52-9a53-5b7a3f6d1f0e")


def text(library: LibraryVerdicts) -> str:
    """The statements on one library as JSON with a last newline."""
    pytorch = pytorch_component(library.pytorch)
    bom = Bom()
    label = str(library.label)
    root = Component(type=ComponentType.LIBRARY, name=label, bom_ref=label)
    bom.metadata.component = root
    bom.components.add(pytorch)
    bom.register_dependency(root, [pytorch])
    for one in library.verdicts:
        bom.vulnerabilities.add(_vulnerability(one, str(pytorch.bom_ref.value)))
    seen = stable(json.loads(JsonV1Dot5(bom).output_as_string()))
    seen.pop("serialNumber", None)
    contents = json.dumps(seen, sort_keys=True)
    seen["serialNumber"] = f"urn:uuid:{uuid.uuid5(_NAMESPACE, contents)}"
    return json.dumps(seen, indent=2, sort_keys=True) + "\n"


def _vulnerability(verdict: Verdict, affected: str) -> Vulnerability:
    advisory = verdict.advisory
    justification = verdict.justification
    return Vulnerability(
        bom_ref=advisory.id,
        id=advisory.id,
        description=advisory.title,
        source=VulnerabilitySource(url=XsUri(advisory.source)),
        affects=[BomTarget(ref=affected)],
        analysis=VulnerabilityAnalysis(
            state=ImpactAnalysisState(verdict.state),
            justification=ImpactAnalysisJustification(justification) if justification else None,
            detail="\n".join(verdict.lines) or None,
        ),
    )
