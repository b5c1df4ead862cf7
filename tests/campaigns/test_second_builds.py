"""`verify --rebuild` for real: everything is compiled and packaged again, in other folders and an
empty cache, and the bytes are compared."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from real import V1_13, V2_6, orchestrator, workspace_copy
from test_old_archives import APP as APP_OF_BUMPS
from test_old_archives import bumps

pytestmark = [pytest.mark.real, pytest.mark.full_only]

# What all packages of Linux are made of. Both apps are the same but for their names, so that most
# of the second is compiled with the first.
APP = APP_OF_BUMPS + "packages: [tar, deb, wheel]\ndeliver_models: true\n"


def files_of(root: Path, app: str) -> set[str]:
    """What is compared of an app: all that it delivers, its packages too."""
    return {
        path.relative_to(root / "dist").as_posix()
        for path in (root / "dist" / app).rglob("*")
        if path.is_file()
    }


def forge(delivered: Path) -> set[str]:
    """Change a text in a delivered library, and what the manifest says of it: no digest and no
    model tells. The paths of both, from `dist`."""
    (library,) = delivered.glob("lib/lib*_torch.so")
    before = library.read_bytes()
    after = before.replace(b"the model is damaged: ", b"The model is damaged: ")
    assert before != after
    manifest = delivered / "manifest.json"
    old, new = (hashlib.sha256(data).hexdigest() for data in (before, after))
    text = manifest.read_text()
    assert old in text
    library.write_bytes(after)
    manifest.write_text(text.replace(old, new))
    dist = delivered.parents[1]
    return {path.relative_to(dist).as_posix() for path in (library, manifest)}


@pytest.mark.parametrize("runtime", [V2_6, V1_13])
def test_a_second_build_has_the_same_bytes_and_a_forged_library_is_told(
    runtime: str, tmp_path: Path
) -> None:
    root = workspace_copy(tmp_path, runtime=runtime)
    for name in ("honest", "forged"):
        (root / f"apps/{name}/models").mkdir(parents=True)
        (root / f"apps/{name}/models/bumps.ptl").write_bytes(bumps(10))
        (root / f"apps/{name}/app.yaml").write_text(APP)
    for verb in ("trace", "build"):
        ran = orchestrator(verb, "//...", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
    changed = forge(root / "dist/forged/linux-x86_64")
    assert orchestrator("verify", "//...", cwd=root).code == 0

    ran = orchestrator("verify", "//...", "--rebuild", "--json", "--quiet", cwd=root)
    assert ran.code == 1, ran.err
    told = {row["app"]: row for row in json.loads(ran.out)["variants"]}
    all_files = {name: files_of(root, name) for name in told}
    for kind in ("tar.zst", "deb", "whl", "intoto.json", "vex.cdx.json", "SHA256SUMS"):
        assert any(name.endswith(kind) for name in all_files["honest"]), kind
    assert told["honest"]["rebuilt"] == {"same": len(all_files["honest"]), "differing": []}
    assert told["honest"]["error"] is None
    assert told["forged"]["rebuilt"] == {
        "same": len(all_files["forged"]) - len(changed),
        "differing": sorted(changed),
    }
    assert ran.err.startswith("error: //apps/forged:linux-x86_64 built again has other bytes\n")
    assert f"  seen:     {', '.join(sorted(changed))}\n" in ran.err
    # nothing of the second build is left
    assert not [*(root / ".orchestrator").glob("rebuild-*")]
