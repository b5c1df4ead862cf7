"""Where packages have an app's models, and how code finds them there."""

from __future__ import annotations

import io
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import package_toy as toy
import pytest
import zstandard

from orchestrator.deliver.delivered import read_delivery
from orchestrator.deliver.variant import DeliverInputs, deliver
from orchestrator.packagers import deb, tarball

MODEL = b"a model"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> DeliverInputs:
    """A toy that delivers its model."""
    bare = toy.quick_inputs(tmp_path_factory.mktemp("quick"))
    (model,) = bare.models
    return replace(
        bare,
        models=(model.model_copy(update={"delivered": "share/toy/models/toy.ptl"}),),
        model_files={"toy": MODEL},
    )


def extracted(data: bytes, into: Path) -> Path:
    plain = zstandard.ZstdDecompressor().stream_reader(data).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        tar.extractall(into, filter="data")
    return into


def models_dir(pkgconfig: Path, name: str) -> Path:
    """The folder that pkg-config has for code."""
    text = (pkgconfig / f"{name}.pc").read_text()
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line.split(":")[0])
    libdir = values["libdir"].replace("${pcfiledir}", str(pkgconfig))
    return Path(values["modelsdir"].replace("${libdir}", libdir)).resolve()


def test_the_delivered_folder_and_the_tarball(inputs: DeliverInputs, tmp_path: Path) -> None:
    done = deliver(inputs, tmp_path)
    assert done.manifest.files["share/toy/models/toy.ptl"].bytes == len(MODEL)
    assert dict(done.models) == {"toy": done.folder / "share/toy/models/toy.ptl"}
    assert done.models["toy"].read_bytes() == MODEL
    main, symbols = tarball.pack([read_delivery(done.folder)], tmp_path)
    stem = "toy-libtorch-1.2.0-linux-x86_64"
    top = extracted(main.read_bytes(), tmp_path / "main") / stem
    assert (top / "share/toy/models/toy.ptl").read_bytes() == MODEL
    for name in ("toy_libtorch", "toy_libtorch-static"):
        found = models_dir(top / "lib/pkgconfig", name)
        assert found == (top / "share/toy/models").resolve()
    cmake = (top / "lib/cmake/toy_libtorch/toy_libtorch-config.cmake").read_text()
    assert '"${_lta_lib}/../share/toy/models" ABSOLUTE)' in cmake
    assert "share/toy/models/NAME.ptl" in (top / "README.md").read_text()
    apart = extracted(symbols.read_bytes(), tmp_path / "symbols") / stem
    assert not (apart / "share/toy").exists()


def test_debian_packages(inputs: DeliverInputs, tmp_path: Path) -> None:
    done = deliver(inputs, tmp_path)
    root = tmp_path / "root"
    for package in deb.pack([read_delivery(done.folder)], tmp_path)[:2]:
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    path = root / "usr/share/toy-libtorch/models/toy.ptl"
    assert path.read_bytes() == MODEL
    lib = root / "usr/lib/x86_64-linux-gnu"
    assert models_dir(lib / "pkgconfig", "toy_libtorch") == path.parent.resolve()
    cmake = (lib / "cmake/toy_libtorch/toy_libtorch-config.cmake").read_text()
    assert '"${_lta_lib}/../../share/toy-libtorch/models" ABSOLUTE)' in cmake


def test_a_changed_model_is_a_changed_delivery(inputs: DeliverInputs, tmp_path: Path) -> None:
    assert deliver(inputs, tmp_path).changed
    assert not deliver(inputs, tmp_path).changed
    assert deliver(replace(inputs, model_files={"toy": b"another"}), tmp_path).changed


def test_without_models_nothing_names_them(inputs: DeliverInputs, tmp_path: Path) -> None:
    (model,) = inputs.models
    bare = replace(inputs, models=(model.model_copy(update={"delivered": None}),), model_files={})
    done = deliver(bare, tmp_path)
    assert not (done.folder / "share/toy").exists()
    assert "modelsdir" not in (done.folder / "lib/pkgconfig/toy_libtorch.pc").read_text()
