"""Which packages a build makes, of which folders, and what it says about those that it cannot."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import package_toy as toy
import pytest
import yaml
from golden_files import Golden
from toy_workspace import toy_invocation
from zips import zipped

from orchestrator.build.delivering import package as packaging
from orchestrator.build.delivering.package import OnePackageError, OtherCLibraryError
from orchestrator.deliver import provenance, vex
from orchestrator.deliver.delivered import Delivery, read_delivery
from orchestrator.deliver.files import (
    RECORD,
    File,
    ForeignFileError,
    sha256_of,
    write_package,
    write_package_folder,
)
from orchestrator.deliver.record import claim_packages, drop_packages
from orchestrator.deliver.variant import DeliverInputs, deliver
from orchestrator.errors import OrchestratorError, Place
from orchestrator.packagers.contents import bills_in
from orchestrator.packagers.registry import PACKAGERS
from orchestrator.packagers.sums import SUMS
from orchestrator.platforms.declared import default_packages, suitable_packages
from orchestrator.report.packages import MissingAbi, PackageReport
from orchestrator.values.config.app import PackageKind
from orchestrator.values.config.toolchain import Processor, System, ToolchainConfig
from orchestrator.values.labels import VariantLabel

CASES = toy.ROOT / "tests/failing/packages"
# What lies beside the packages of a kind, named after the first.
BESIDE = (provenance.SUFFIX, vex.SUFFIX)
TARGETS: Mapping[str, tuple[System, Processor, str]] = {
    "linux-x86_64": ("linux", "x86_64", "x86_64-linux-gnu.2.28"),
    "linux-arm64": ("linux", "arm64", "aarch64-linux-gnu.2.28"),
    "linux-older": ("linux", "x86_64", "x86_64-linux-gnu.2.17"),
    "linux-arm64-musl": ("linux", "arm64", "aarch64-linux-musl"),
    "android-arm64-v8a": ("android", "arm64", "aarch64-linux-android.24"),
    "android-x86_64": ("android", "x86_64", "x86_64-linux-android.24"),
    "ios-arm64": ("ios", "arm64", "aarch64-ios.15.0"),
}


def toolchain(abi: str) -> ToolchainConfig:
    system, processor, target = TARGETS[abi]
    return ToolchainConfig.model_validate(
        {
            "abi": abi,
            "system": system,
            "processor": processor,
            "format": "macho" if system == "ios" else "elf",
            "compiler": {"zig": {"target": target}},
            "run": "none",
        }
    )


@pytest.mark.parametrize(
    ("abi", "default", "suitable"),
    [
        ("linux-x86_64", ("tar", "deb"), ("tar", "deb", "wheel")),
        ("linux-arm64-musl", ("tar",), ("tar", "wheel")),
        ("android-arm64-v8a", ("aar",), ("aar", "tar")),
        ("ios-arm64", ("xcframework",), ("xcframework", "tar")),
    ],
)
def test_what_suits_a_target(abi: str, default: tuple[str, ...], suitable: tuple[str, ...]) -> None:
    assert default_packages(toolchain(abi)) == default
    assert suitable_packages(toolchain(abi)) == suitable


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> DeliverInputs:
    return toy.judged_inputs(tmp_path_factory.mktemp("quick"))


class Workspace:
    """A workspace with the app `toy`.

    resolved  ABI -> its compiler, as far as packaging asks for it
    """

    def __init__(self, root: Path, quick: DeliverInputs, *targets: str, added: str = "") -> None:
        self.quick, self.root, self.dist = quick, root, root / "dist"
        self.targets = targets
        self.said: list[str] = []
        self.resolved: dict[str, Any] = {
            abi: SimpleNamespace(driver=SimpleNamespace(c_library="gnu")) for abi in targets
        }
        self.into = self.dist / "toy/packages"
        # the only one that we do not ship
        older = root / "toolchains/linux-older.yaml"
        older.parent.mkdir()
        older.write_text(toolchain("linux-older").model_dump_json(exclude_unset=True))
        models = [{"file": "models/toy.ptl"}]
        self._app: dict[str, Any] = {"targets": [*targets], "models": models, "version": "1.2.0"}
        self._edges: dict[str, Any] = {"env": {"HOME": str(root), "JAVA_HOME": "/jdk"}}
        self.declare(added)

    def declare(self, added: str = "", **changes: object) -> None:
        """Change app.yaml, and add to WORKSPACE; both are read again."""
        self._app |= changes
        text = yaml.safe_dump(self._app, default_flow_style=None, sort_keys=False)
        self.here = toy_invocation(
            self.root,
            {"toy": text},
            added=added,
            log=self.said.append,
            found=self.resolved,
            **self._edges,
        )

    def run_with(self, **edges: object) -> None:
        """Run commands with other edges, see `toy_context`."""
        self._edges = edges
        self.declare()

    def deliver(self, abi: str, **changes: Any) -> None:
        system, processor, target = TARGETS[abi]
        inputs = replace(
            self.quick,
            abi=abi,
            system=system,
            processor=processor,
            toolchain=self.quick.toolchain.model_copy(update={"target": target}),
            **changes,
        )
        deliver(inputs, self.dist)

    def build(self, *abis: str) -> tuple[PackageReport, ...]:
        return packaging.make_packages(self.here, [VariantLabel("toy", abi) for abi in abis])

    def names(self) -> list[str]:
        return sorted(p.name for p in self.into.iterdir() if p.name not in (RECORD, SUMS))


class Joiner(ModuleType):
    """A kind of package that holds all ABIs: an archive with their names, and perhaps a folder."""

    JOINS_ABIS = True
    env: Mapping[str, str] | None = None
    folder: str | None = None

    def pack(
        self, deliveries: Sequence[Delivery], into: Path, env: Mapping[str, str]
    ) -> tuple[Path, ...]:
        self.env = env
        text = " ".join(delivery.manifest.abi for delivery in deliveries)
        held = zipped({"abis": text.encode()})
        write_package(into / "toy.aar", text, lambda file: file.write(held))
        if self.folder is None:
            return (into / "toy.aar",)
        files = [File("a/toy.pom", text.encode()), File("toy.xml", b"")]
        write_package_folder(into / self.folder, text, lambda: files)
        return (into / "toy.aar", into / self.folder)


@pytest.fixture
def joiner(monkeypatch: pytest.MonkeyPatch) -> Joiner:
    joiner = Joiner("joiner")
    monkeypatch.setattr(packaging, "PACKAGERS", {"aar": joiner})
    return joiner


@pytest.fixture
def android(tmp_path: Path, quick: DeliverInputs, joiner: Joiner) -> Workspace:
    return Workspace(tmp_path, quick, "android-arm64-v8a", "android-x86_64")


def test_each_linux_abi_has_packages_of_its_own(
    tmp_path: Path, quick: DeliverInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(tmp_path, quick, "linux-x86_64", "linux-arm64-musl")
    workspace.deliver("linux-x86_64")
    workspace.deliver("linux-arm64-musl")
    read = list[str]()

    def noted(folder: Path) -> Delivery:
        read.append(folder.name)
        return read_delivery(folder)

    monkeypatch.setattr(packaging, "read_delivery", noted)
    reports = workspace.build("linux-x86_64", "linux-arm64-musl")
    assert read == ["linux-x86_64", "linux-arm64-musl"], "each once, for all kinds"
    assert [(r.kind, r.abis, len(r.files), r.missing) for r in reports] == [
        ("tar", ("linux-x86_64",), 2, ()),
        ("tar", ("linux-arm64-musl",), 2, ()),
        ("deb", ("linux-x86_64",), 3, ()),
    ]
    main = reports[0].files[0]
    assert main.path == "dist/toy/packages/toy-libtorch-1.2.0-linux-x86_64.tar.zst"
    assert main.bytes == (tmp_path / main.path).stat().st_size
    assert workspace.names() == [
        "toy-libtorch-1.2.0-linux-arm64-musl-symbols.tar.zst",
        "toy-libtorch-1.2.0-linux-arm64-musl.tar.zst",
        "toy-libtorch-1.2.0-linux-arm64-musl.tar.zst.intoto.json",
        "toy-libtorch-1.2.0-linux-arm64-musl.tar.zst.vex.cdx.json",
        "toy-libtorch-1.2.0-linux-x86_64-symbols.tar.zst",
        "toy-libtorch-1.2.0-linux-x86_64.tar.zst",
        "toy-libtorch-1.2.0-linux-x86_64.tar.zst.intoto.json",
        "toy-libtorch-1.2.0-linux-x86_64.tar.zst.vex.cdx.json",
        "toy-libtorch-dbgsym_1.2.0_amd64.deb",
        "toy-libtorch-dev_1.2.0_amd64.deb",
        "toy-libtorch_1.2.0_amd64.deb",
        "toy-libtorch_1.2.0_amd64.deb.intoto.json",
        "toy-libtorch_1.2.0_amd64.deb.vex.cdx.json",
    ]


def test_two_targets_of_one_debian_package(tmp_path: Path, quick: DeliverInputs) -> None:
    """glibc's versions are two ABIs of ours and one architecture of Debian's."""
    workspace = Workspace(tmp_path, quick, "linux-x86_64", "linux-older", "linux-arm64")
    for abi in workspace.targets:
        workspace.deliver(abi)
    workspace.build("linux-x86_64")
    deb = workspace.into / "toy-libtorch_1.2.0_amd64.deb"
    first = deb.read_bytes()
    with pytest.raises(OnePackageError) as caught:
        workspace.build("linux-older", "linux-arm64")
    assert caught.value.render() == (
        "apps/toy/app.yaml:1:10: error: two targets of toy have one package of kind deb\n"
        "  expected: a name for each\n"
        f"  seen:     {deb.name}, for linux-x86_64 and linux-older\n"
        "  do:       list `packages:` without `deb`, or build one of them as another app"
    )
    assert deb.read_bytes() == first
    # the first one is built again, and then it is no target
    workspace.build("linux-x86_64")
    workspace.declare(targets=["linux-older"])
    workspace.build("linux-older")
    assert "linux-older" in (workspace.into / RECORD).read_text()


def test_a_compiler_for_musl_that_is_given_as_a_command(
    tmp_path: Path, quick: DeliverInputs
) -> None:
    """What it compiles for is known when it has been asked, not by its declaration."""
    workspace = Workspace(tmp_path, quick, "linux-x86_64")
    place = Place("toolchains/linux-x86_64.yaml", 6, 3)
    driver = SimpleNamespace(c_library="musl")
    workspace.resolved["linux-x86_64"] = SimpleNamespace(
        driver=driver, version="x86_64-alpine-linux-musl-g++ 14.2.0", place=place
    )
    workspace.declare()
    workspace.deliver("linux-x86_64")
    assert [report.kind for report in workspace.build("linux-x86_64")] == ["tar"]
    workspace.declare(packages=["deb"])
    with pytest.raises(OtherCLibraryError) as caught:
        workspace.build("linux-x86_64")
    assert caught.value.render() == (
        "toolchains/linux-x86_64.yaml:6:3: error: a library for linux-x86_64 cannot be in a"
        " package of kind deb\n"
        "  expected: a compiler for glibc\n"
        "  seen:     one for musl: x86_64-alpine-linux-musl-g++ 14.2.0\n"
        "  do:       take `deb` out of toy's packages, or linux-x86_64 out of its targets"
    )


def test_a_build_of_one_abi_leaves_the_other_packages(tmp_path: Path, quick: DeliverInputs) -> None:
    workspace = Workspace(tmp_path, quick, "linux-x86_64", "linux-arm64")
    workspace.declare(packages=["tar"])
    workspace.deliver("linux-x86_64")
    workspace.deliver("linux-arm64")
    workspace.build("linux-x86_64")
    assert len(workspace.names()) == 4
    (report,) = workspace.build("linux-arm64")
    assert report.abis == ("linux-arm64",)
    assert len(workspace.names()) == 8


def test_packages_of_an_earlier_version_or_declaration_go(
    tmp_path: Path, quick: DeliverInputs
) -> None:
    workspace = Workspace(tmp_path, quick, "linux-x86_64")
    workspace.deliver("linux-x86_64")
    workspace.build("linux-x86_64")
    (workspace.into / "notes.txt").write_text("mine")
    workspace.deliver("linux-x86_64", version="1.3.0")
    workspace.build("linux-x86_64")
    assert [name for name in workspace.names() if "1.2.0" in name] == []
    workspace.declare(packages=["tar"])
    workspace.build("linux-x86_64")
    assert workspace.names() == [
        "notes.txt",
        "toy-libtorch-1.3.0-linux-x86_64-symbols.tar.zst",
        "toy-libtorch-1.3.0-linux-x86_64.tar.zst",
        "toy-libtorch-1.3.0-linux-x86_64.tar.zst.intoto.json",
        "toy-libtorch-1.3.0-linux-x86_64.tar.zst.vex.cdx.json",
    ]


def test_a_packager_gets_the_environment_of_the_command(android: Workspace, joiner: Joiner) -> None:
    android.deliver("android-arm64-v8a")
    android.deliver("android-x86_64")
    android.build("android-arm64-v8a", "android-x86_64")
    assert joiner.env == android.here.context.env
    assert joiner.env["JAVA_HOME"] == "/jdk"


def test_a_joined_package_of_one_label_takes_the_current_others(android: Workspace) -> None:
    android.deliver("android-arm64-v8a")
    android.deliver("android-x86_64")
    (report,) = android.build("android-x86_64")
    assert report.abis == ("android-arm64-v8a", "android-x86_64")
    assert report.missing == ()
    with zipfile.ZipFile(android.into / "toy.aar") as held:
        assert held.read("abis") == b"android-arm64-v8a android-x86_64"


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("absent", "is not built"),
        ("older", "was built from a different state of the app"),
        ("unproven", "has not passed its checks"),
    ],
)
def test_a_joined_package_says_which_abi_is_missing(
    state: str, why: str, android: Workspace
) -> None:
    android.deliver("android-x86_64")
    if state != "absent":
        fingerprint = "state 0" if state == "older" else "state 1"
        android.deliver("android-arm64-v8a", fingerprint=fingerprint)
    if state == "unproven":
        packaging.mark_unproven(android.here, VariantLabel("toy", "android-arm64-v8a"))
    (report,) = android.build("android-x86_64")
    assert report.missing == (MissingAbi("android-arm64-v8a", why),)
    assert report.files == ()
    assert not android.into.exists()
    assert report.why_not() == (
        f"//apps/toy: no aar: android-arm64-v8a {why}; build //apps/toy to make it"
    )


def test_a_proven_variant_joins_again(android: Workspace) -> None:
    label = VariantLabel("toy", "android-arm64-v8a")
    android.deliver("android-arm64-v8a")
    android.deliver("android-x86_64")
    packaging.mark_unproven(android.here, label)
    packaging.mark_proven(android.here, label)
    (report,) = android.build("android-x86_64")
    assert report.missing == ()


def test_a_build_without_android_says_nothing_about_aars(
    tmp_path: Path, quick: DeliverInputs
) -> None:
    workspace = Workspace(tmp_path, quick, "linux-x86_64", "android-x86_64")
    workspace.deliver("linux-x86_64")
    assert [report.kind for report in workspace.build("linux-x86_64")] == ["tar", "deb"]


def in_the_way(case: str, workspace: Workspace) -> None:
    """Puts something where packages go."""
    elsewhere = workspace.root / "elsewhere"
    if case == "folder_is_file":
        workspace.into.write_text("mine")
    elif case == "folder_is_link":
        elsewhere.mkdir()
        workspace.into.symlink_to(elsewhere)
    elif case == "foreign_sums":
        workspace.into.mkdir()
        (workspace.into / SUMS).write_text("mine")
    elif case == "foreign_file":
        workspace.into.mkdir()
        (workspace.into / "toy-libtorch-dev_1.2.0_amd64.deb").write_text("mine")
    elif case == "foreign_link":
        workspace.into.mkdir()
        elsewhere.write_text("mine")
        (workspace.into / "toy-libtorch-1.2.0-linux-x86_64.tar.zst").symlink_to(elsewhere)
    elif case == "changed_package":
        workspace.build("linux-x86_64")
        (workspace.into / "toy-libtorch_1.2.0_amd64.deb").write_text("mine")
    else:
        assert case == "changed_delivery"
        (workspace.dist / "toy/linux-x86_64/include/libtorch_app.h").write_text("mine")


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_bad_input(case: str, tmp_path: Path, quick: DeliverInputs, golden: Golden) -> None:
    workspace = Workspace(tmp_path, quick, "linux-x86_64")
    workspace.deliver("linux-x86_64")
    in_the_way(case, workspace)
    before = snapshot(tmp_path)
    with pytest.raises(OrchestratorError) as caught:
        workspace.build("linux-x86_64")
    told = caught.value.render().replace(str(tmp_path), "$root")
    golden(CASES / case / "expected.txt", told + "\n")
    after = snapshot(tmp_path)
    assert {path: after.get(path) for path in before} == before


def snapshot(root: Path) -> dict[str, bytes]:
    """What a failure does not change: all but the record, and the list of what is still ours."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name not in (RECORD, SUMS)
    }


def test_what_fails_for_one_kind_leaves_the_other_whole(
    tmp_path: Path, quick: DeliverInputs
) -> None:
    workspace = Workspace(tmp_path, quick, "linux-x86_64")
    workspace.deliver("linux-x86_64")
    in_the_way("foreign_file", workspace)
    with pytest.raises(ForeignFileError):
        workspace.build("linux-x86_64")
    assert "toy-libtorch-1.2.0-linux-x86_64.tar.zst" in workspace.names()
    told = [line.partition("  ")[2] for line in (workspace.into / SUMS).read_text().splitlines()]
    assert "toy-libtorch-1.2.0-linux-x86_64.tar.zst" in told
    assert "toy-libtorch-dev_1.2.0_amd64.deb" not in told, "it is somebody else's"


def checked(folder: Path) -> list[str]:
    """What coreutils says to the list."""
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", SUMS],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_packages_come_with_their_digests(tmp_path: Path, quick: DeliverInputs) -> None:
    workspace = Workspace(tmp_path, quick, "linux-x86_64")
    workspace.deliver("linux-x86_64")
    workspace.build("linux-x86_64")
    assert checked(workspace.into) == [f"{name}: OK" for name in workspace.names()]
    (workspace.into / "notes.txt").write_text("mine")
    sums = workspace.into / SUMS
    before = sums.read_bytes(), sums.stat().st_ino
    workspace.build("linux-x86_64")
    assert (sums.read_bytes(), sums.stat().st_ino) == before, "a build of nothing writes nothing"
    assert workspace.said == []


def test_the_digests_follow_the_packages(tmp_path: Path, quick: DeliverInputs) -> None:
    workspace = Workspace(tmp_path, quick, "linux-x86_64")
    workspace.deliver("linux-x86_64")
    workspace.build("linux-x86_64")
    workspace.deliver("linux-x86_64", version="1.3.0")
    workspace.declare(packages=["tar"])
    workspace.build("linux-x86_64")
    assert checked(workspace.into) == [
        "toy-libtorch-1.3.0-linux-x86_64-symbols.tar.zst: OK",
        "toy-libtorch-1.3.0-linux-x86_64.tar.zst: OK",
        "toy-libtorch-1.3.0-linux-x86_64.tar.zst.intoto.json: OK",
        "toy-libtorch-1.3.0-linux-x86_64.tar.zst.vex.cdx.json: OK",
    ]
    # a changed package is somebody else's, and clean leaves it; what is ours goes
    (workspace.into / "toy-libtorch-1.3.0-linux-x86_64.tar.zst").write_text("mine")
    assert drop_packages(workspace.into) == (
        SUMS,
        "toy-libtorch-1.3.0-linux-x86_64-symbols.tar.zst",
        "toy-libtorch-1.3.0-linux-x86_64.tar.zst.intoto.json",
        "toy-libtorch-1.3.0-linux-x86_64.tar.zst.vex.cdx.json",
    )


def test_without_packages_there_are_no_digests(tmp_path: Path, quick: DeliverInputs) -> None:
    workspace = Workspace(tmp_path, quick, "linux-x86_64")
    workspace.deliver("linux-x86_64")
    workspace.build("linux-x86_64")
    workspace.declare(targets=["linux-x86_64", "android-x86_64"], packages=["aar"])
    workspace.build("linux-x86_64")
    assert list(workspace.into.iterdir()) == []


def statements(folder: Path) -> dict[str, tuple[dict[str, str], dict[str, Any]]]:
    """By the statement's file: the subjects' digests, and the parameters of the build."""
    found = {}
    for path in sorted(folder.glob(f"*{provenance.SUFFIX}")):
        statement = json.loads(path.read_text())
        assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
        subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
        external = statement["predicate"]["buildDefinition"]["externalParameters"]
        found[path.name.removesuffix(provenance.SUFFIX)] = (subjects, external)
    return found


def test_each_kind_of_an_abi_has_a_statement(tmp_path: Path, quick: DeliverInputs) -> None:
    workspace = Workspace(tmp_path, quick, "linux-x86_64")
    workspace.declare(packages=["tar", "deb", "wheel"])
    workspace.deliver("linux-x86_64")
    reports = workspace.build("linux-x86_64")
    told = {
        Path(one.files[0].path).name: ({Path(f.path).name: f.sha256 for f in one.files}, one.kind)
        for one in reports
    }
    assert [one.kind for one in reports] == ["tar", "deb", "wheel"]
    seen = statements(workspace.into)
    assert {name: (digests, *made["packages"]) for name, (digests, made) in seen.items()} == told
    assert {tuple(made["targets"]) for _, made in seen.values()} == {("linux-x86_64",)}


@pytest.mark.parametrize("kind", [kind for kind, one in PACKAGERS.items() if one.JOINS_ABIS])
def test_a_joined_package_has_one_statement(
    kind: PackageKind, tmp_path: Path, quick: DeliverInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has all ABIs, and the files of a package that is a folder, as SHA256SUMS has them."""
    joiner = Joiner("joiner")
    joiner.folder = "maven"
    monkeypatch.setattr(packaging, "PACKAGERS", {kind: joiner})
    abis = {"aar": ("android-arm64-v8a", "android-x86_64"), "xcframework": ("ios-arm64",)}[kind]
    workspace = Workspace(tmp_path, quick, *abis)
    for abi in abis:
        workspace.deliver(abi)
    workspace.build(*abis)
    ((name, (digests, made)),) = statements(workspace.into).items()
    assert name == "toy.aar"
    assert (made["packages"], made["targets"]) == ([kind], [*abis])
    lines = [line.split("  ") for line in (workspace.into / SUMS).read_text().splitlines()]
    assert digests == {name: sha for sha, name in lines if not name.endswith(BESIDE)}
    assert {"toy.aar", "maven/a/toy.pom", "maven/toy.xml"} == digests.keys()


@pytest.mark.parametrize("suffix", BESIDE)
def test_a_statement_is_written_once_and_follows_its_package(
    suffix: str, tmp_path: Path, quick: DeliverInputs
) -> None:
    workspace = Workspace(tmp_path, quick, "linux-x86_64")
    workspace.declare(packages=["tar"])
    workspace.deliver("linux-x86_64")
    workspace.build("linux-x86_64")
    statement = workspace.into / f"toy-libtorch-1.2.0-linux-x86_64.tar.zst{suffix}"
    before = statement.read_bytes(), statement.stat().st_ino
    workspace.build("linux-x86_64")
    assert (statement.read_bytes(), statement.stat().st_ino) == before
    workspace.deliver("linux-x86_64", threads=2)
    workspace.build("linux-x86_64")
    ((_, (digests, made)),) = statements(workspace.into).items()
    assert made["threads"] == 2
    assert digests == {
        name: sha256_of(workspace.into / name)
        for name in workspace.names()
        if not name.endswith(BESIDE)
    }
    # the bill is another one with the second delivery, of which the verdicts say it
    ((serial, *_),) = {bills_in(statement.with_name(statement.name.removesuffix(suffix)))}
    verdicts = statement.with_name(statement.name.replace(suffix, vex.SUFFIX)).read_text()
    assert f"urn:cdx:{serial.removeprefix('urn:uuid:')}/1#PyTorch@1.13.1" in verdicts
    # somebody's own in its place
    statement.write_text("mine")
    with pytest.raises(ForeignFileError):
        workspace.build("linux-x86_64")
    assert statement.read_text() == "mine"


def write(path: Path, text: str) -> None:
    write_package(path, text, lambda file: file.write(text.encode()))


def test_a_changed_package_is_somebody_elses(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path / name, name)
        claim_packages(tmp_path, f"slot {name}", [name])
    (tmp_path / "b").write_text("mine")
    (tmp_path / "mine").write_text("mine")
    assert drop_packages(tmp_path, but=["slot c"]) == ("a",)
    assert sorted(p.name for p in tmp_path.iterdir()) == [RECORD, "b", "c", "mine"]
    assert drop_packages(tmp_path) == ("c",)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "mine"]


def test_a_link_in_a_packages_place_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "a", "a")
    outside = tmp_path / "outside"
    (tmp_path / "a").rename(outside)
    (tmp_path / "a").symlink_to(outside)
    assert drop_packages(tmp_path) == ()
    assert outside.read_text() == "a"


def test_a_rewritten_package_keeps_its_slot(tmp_path: Path) -> None:
    write(tmp_path / "a", "one")
    claim_packages(tmp_path, "slot", ["a"])
    write(tmp_path / "a", "two")
    assert drop_packages(tmp_path, but=["slot"]) == ()
    assert claim_packages(tmp_path, "slot", []) == ("a",)
