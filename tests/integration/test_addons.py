"""An add-on for a library that has shipped: made, loaded, refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from android_toy import stub_toolchain
from clean_python import NUMPY, environment, run
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from guide import agrees, rough, shown
from java_programs import PROGRAMS as JAVA_PROGRAMS
from java_programs import Programs, compile_jni
from locale_symbols import ALLOWED, BY_LOCALE, imported
from real import EACH_RUNTIME, ROOT, V1_13, V2_6, orchestrator, workspace_copy

from orchestrator.binary.elf import exported_symbols
from orchestrator.binary.elf_symbols import needed_libraries
from orchestrator.compilers.relink import exported_name
from orchestrator.load.workspace import load_workspace
from orchestrator.packagers.aar_java import find_java_compiler

pytestmark = pytest.mark.real

TARGET = "//apps/camera:linux-x86_64"
PACKAGE = "dist/camera/linux-x86_64"
PAGES = "apps/scanner/models/pages.ptl"
WITHOUT_NDK = {"ANDROID_NDK_HOME": "", "ANDROID_NDK_ROOT": ""}
# What `trace` prints of scanner where it moves to camera's runtime, but for what the cache held,
# and for the values of outputs, whose last bits may be the processor's own.
MOVED = """\
//apps/scanner: development library of ... units, ... compiled
  pages: 59 operators ran, 19 kernel tags
    changed in the lock: operators +aten::_reshape_alias;\
 outputs (within the tolerance: ... apart...); calls;\
 runtime (pytorch_2_6 -> pytorch_1_13; a library of this model alone, with all dtypes,\
 by the index: 1.94 MB -> 1.72 MB)
"""
# What `addon.json` tells of a model besides its digest.
TOLD = ("of", "model", "status", "reason", "compared_with")
# In a process of its own: what an add-on has added stays until a process ends.
LOADING = """
import ctypes, json, sys, threading
library, classifier, pages, *addons = sys.argv[1:]
lta = ctypes.CDLL(library)
lta.lta_last_error.restype = ctypes.c_void_p
lta.lta_value_free.argtypes = [ctypes.c_void_p]
lta.lta_module_run.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t,
                               ctypes.c_void_p]
told = []
def say(what, status):
    error = ctypes.string_at(lta.lta_last_error()).decode() if status else ""
    told.append([what, status, error])
def load(path):
    module = ctypes.c_void_p()
    return lta.lta_module_load(path.encode(), ctypes.byref(module)), module
status, running = load(classifier)
say("classifier", status)
stop, runs, failed = False, 0, 0
def run():
    global runs, failed
    while not stop:
        result = ctypes.c_void_p()
        # bundled inputs: a method that needs no argument
        failed += lta.lta_module_run(running, b"get_all_bundled_inputs", None, 0,
                                     ctypes.byref(result)) != 0
        lta.lta_value_free(result)
        runs += 1
thread = threading.Thread(target=run)
thread.start()
say("pages", load(pages)[0])
for path in addons:
    say(path.rpartition("/")[2], lta.lta_library_extend(path.encode()))
say("pages", load(pages)[0])
before = runs
while runs < before + 3 and not failed:
    pass
stop = True
thread.join()
told.append(["runs that failed", failed, ""])
print(json.dumps(told))
"""


# In the wheel of the library that the add-on is for; numpy alone is installed beside it.
IN_PYTHON = """
import json, sys
import camera_libtorch as camera
pages, addon = sys.argv[1:]
def loaded():
    try:
        return sorted(camera.Model(pages).methods)
    except camera.MissingOperatorError as error:
        return error.operators
told = [loaded()]
camera.extend(addon)
model = camera.Model(pages)
results = [model(*arguments) for arguments in model.get_all_bundled_inputs()]
print(json.dumps([*told, loaded(), [list(result.shape) for result in results]]))
"""


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def shipped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with an extensible camera, built, and the add-on for scanner's model."""
    root, said = extended(tmp_path_factory.mktemp("addon"), request.param)
    assert rough(said) == rough(shown("docs/guide/add-ons.md", "dist/camera/addons/linux"))
    return root


def extended(folder: Path, runtime: str, more: str = "") -> tuple[Path, str]:
    """A workspace with an extensible camera, built, and what `addon` said of scanner's model.

    An add-on is of the library's runtime, and so is the trace of its model. Each app's committed
    trace is of one; what moves camera is kept, and scanner is traced again.

    more: more of camera's app.yaml
    """
    root = workspace_copy(folder, "camera", "scanner")
    app = root / "apps/camera/app.yaml"
    declared = app.read_text()
    assert f"\nruntime: {V1_13}\n" in declared
    declared = declared.replace(f"\nruntime: {V1_13}\n", f"\nruntime: {runtime}\n")
    app.write_text(f"{declared}extensible: true\ndeliver_models: true\n{more}")
    if runtime == V2_6:
        kept = ROOT / "tests/golden/traces/v2_6/camera"
        shutil.copytree(kept, root / "apps/camera/traces", dirs_exist_ok=True)
    else:
        move_scanner(root, runtime)
    ran = orchestrator("build", TARGET, cwd=root)
    assert ran.code == 0, ran.err
    assert " names for add-ons: " in ran.out
    ran = orchestrator("addon", "--for", PACKAGE, PAGES, cwd=root)
    assert ran.code == 0, ran.err
    told = re.search(r"about ([0-9.]+) kB for 1 operator\n", ran.err)
    facts = json.loads((root / "dist/camera/addons/linux-x86_64/pages/addon.json").read_text())
    assert told, ran.err
    assert 1000 * float(told[1]) == pytest.approx(facts["bytes"], rel=0.15)
    return root, ran.out


def move_scanner(root: Path, runtime: str) -> None:
    """Scanner to another runtime."""
    # else nobody has fetched what it is traced with, of which `trace` tells a size
    ran = orchestrator("plan", "//apps/scanner", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    with (root / "apps/scanner/app.yaml").open("a") as file:
        file.write(f"runtime: {runtime}\n")
    ran = orchestrator("trace", "//apps/scanner", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    assert agrees(MOVED, ran.out), ran.out


def test_it_is_small_and_tells_what_it_is_for(shipped: Path) -> None:
    folder = shipped / "dist/camera/addons/linux-x86_64/pages"
    facts = json.loads((folder / "addon.json").read_text())
    assert facts["operators"] == ["aten::hardswish"]
    assert facts["bytes"] < 40_000
    manifest = json.loads((shipped / "dist/camera/linux-x86_64/manifest.json").read_text())
    assert facts["library"]["build_id"] == manifest["library"]["build_id"]
    assert [[one[key] for key in TOLD] for one in facts["verified"]] == [
        ["add-on", "pages", "ok", "", "recorded outputs"],
        ["library", "classifier", "ok", "", "recorded outputs"],
    ]
    packages = {path.name for path in (shipped / "dist/camera/addons").glob("*x86_64.tar.zst")}
    assert packages == {"camera-libtorch-0.1.0-pages-linux-x86_64.tar.zst"}
    assert (shipped / "dist/camera/addons/camera-libtorch-pages_0.1.0_amd64.deb").is_file()
    assert imported(folder / "lib/libcamera_torch_pages.so") & BY_LOCALE <= ALLOWED.keys()


def test_what_is_no_add_on_for_this_library_is_refused_and_the_add_on_is_loaded(
    shipped: Path, tmp_path: Path
) -> None:
    """While another thread runs a model; the second copy of it throws when it registers itself."""
    good = shipped / "dist/camera/addons/linux-x86_64/pages/lib/libcamera_torch_pages.so"
    data = good.read_bytes()
    at = data.index(b"camera 0.1.0 for linux-x86_64") - 20
    (tmp_path / "empty.so").touch()
    (tmp_path / "cut.so").write_bytes(data[:9000])
    (tmp_path / "other.so").write_bytes(data[:at] + b"\1" * 20 + data[at + 20 :])
    shutil.copy(good, tmp_path / "again.so")
    with zipfile.ZipFile(tmp_path / "app.apk", "w") as apk:
        for name in ("other.so", "cut.so"):
            apk.write(tmp_path / name, f"lib/{name}")
        apk.write(good, "lib/good.so")
        apk.write(good, "lib/packed.so", zipfile.ZIP_DEFLATED)
    inside = [
        tmp_path / f"app.apk!/lib/{name}"
        for name in ("gone.so", "packed.so", "cut.so", "other.so", "good.so")
    ]
    library = shipped / "dist/camera/linux-x86_64/lib/libcamera_torch.so"
    names = ["gone.so", "empty.so", "cut.so", "other.so"]
    addons = [*(tmp_path / name for name in names), library, good, good, tmp_path / "again.so"]
    addons += inside
    models = (
        ROOT / "apps/camera/models/classifier.ptl",
        ROOT / "apps/scanner/models/pages.ptl",
    )
    done = subprocess.run(
        [sys.executable, "-c", LOADING, *map(str, (library, *models, *addons))],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    said = shown("docs/guide/add-ons.md", "this add-on is for another library").strip()
    said = re.sub(r"(build id(?: is)?) [0-9a-f]+\.\.\.", r"\1 ...", said)
    assert agrees(said.replace("1.0.0", "0.1.0"), told[5][2])
    build_id = json.loads((shipped / "dist/camera/linux-x86_64/manifest.json").read_text())
    own = build_id["library"]["build_id"]
    damaged = "not an add-on for this processor, or damaged: "
    assert told[0] == ["classifier", 0, ""]
    assert told[1][:2] == ["pages", 5]
    assert told[2:6] == [
        ["gone.so", 3, f"the add-on cannot be read: {tmp_path}/gone.so"],
        ["empty.so", 3, f"the add-on cannot be read: {tmp_path}/empty.so"],
        ["cut.so", 3, f"{damaged}{tmp_path}/cut.so"],
        [
            "other.so",
            3,
            "this add-on is for another library: for camera 0.1.0 for linux-x86_64,"
            f" build id {20 * '01'}; this library's build id is {own}",
        ],
    ]
    assert told[6] == ["libcamera_torch.so", 3, f"{damaged}{library}"]
    assert told[7] == told[8] == ["libcamera_torch_pages.so", 0, ""]
    assert told[9][:2] == ["again.so", 3]
    assert told[9][2].startswith("the add-on cannot be registered: ")
    # what only Android's loader can load is compared with the library all the same
    assert told[10:14] == [
        ["gone.so", 3, f"the add-on cannot be read: {inside[0]}"],
        ["packed.so", 3, f"the add-on cannot be read: {inside[1]}"],
        ["cut.so", 3, f"{damaged}{inside[2]}"],
        ["other.so", 3, told[5][2]],
    ]
    assert told[14][:2] == ["good.so", 3]
    assert told[14][2].startswith(f"the add-on cannot be loaded: {inside[4]}: ")
    assert told[15:] == [["pages", 0, ""], ["runs that failed", 0, ""]]


@pytest.mark.ci_only
def test_the_wheel_loads_it(tmp_path: Path) -> None:
    root, _ = extended(tmp_path, V2_6, "packages: [wheel]\n")
    (wheel,) = (root / "dist/camera/packages").glob("*.whl")
    python = environment(tmp_path / "venv", [wheel, NUMPY])
    addon = root / "dist/camera/addons/linux-x86_64/pages/lib/libcamera_torch_pages.so"
    missing, methods, shapes = json.loads(run(python, "-c", IN_PYTHON, root / PAGES, addon))
    assert missing == ["aten::hardswish"]
    assert "forward" in methods
    assert shapes
    assert all(shape == [1, 4] for shape in shapes)


def test_java_loads_it(shipped: Path, tmp_path: Path) -> None:
    compiler = find_java_compiler(os.environ)
    assert compiler, "the Java API needs a JDK: apt-get install default-jdk-headless"
    (tmp_path / "classes").mkdir()
    natives = compile_jni("natives", tmp_path / "natives.o")
    programs = Programs(tmp_path, shipped / "dist", compiler, natives)
    programs.compile_beside(tmp_path / "classes", ["camera"], JAVA_PROGRAMS / "Extends.java")
    addon = shipped / "dist/camera/addons/linux-x86_64/pages/lib/libcamera_torch_pages.so"
    ran = programs.run(["camera"], "Extends", ROOT / PAGES, addon, beside=tmp_path / "classes")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "MISSING_OPERATOR [aten::hardswish]\ntrue\n"


def test_an_add_on_for_arm64(shipped: Path) -> None:
    """Both models run in both, under qemu: an add-on that was not run is not written."""
    ran = orchestrator("build", "//apps/camera:linux-arm64", cwd=shipped)
    assert ran.code == 0, ran.err
    (line,) = (line for line in ran.out.splitlines() if " names for add-ons: " in line)
    assert rough(line) == rough(shown("docs/guide/add-ons.md", "//apps/camera:linux").strip())
    package = "dist/camera/linux-arm64"
    ran = orchestrator("addon", "--for", package, "apps/scanner/models/pages.ptl", cwd=shipped)
    assert ran.code == 0, ran.err
    said = "\n  with the library, pages: ok\n  with the library, its own classifier: ok\n"
    assert said in ran.out
    facts = json.loads((shipped / "dist/camera/addons/linux-arm64/pages/addon.json").read_text())
    assert facts["operators"] == ["aten::hardswish"]
    assert facts["bytes"] < 40_000


def test_an_add_on_for_android(shipped: Path) -> None:
    """Linked against the library, and not run: what a loader would look for is there."""
    target = "android-arm64-v8a"
    ran = orchestrator("build", f"//apps/camera:{target}", cwd=shipped, **WITHOUT_NDK)
    assert ran.code == 0, ran.err
    assert " names for add-ons: " in ran.out
    package = shipped / "dist/camera" / target
    library = package / "lib/libcamera_torch.so"
    words = ("addon", "--for", f"dist/camera/{target}", "apps/scanner/models/pages.ptl")
    ran = orchestrator(*words, cwd=shipped, **WITHOUT_NDK)
    assert ran.code == 0, ran.err
    said = ran.out.replace("-NOT-FOR-RELEASE", "")
    assert rough(said) == rough(shown("docs/guide/add-ons.md", "dist/camera/addons/android"))
    folder = shipped / "dist/camera/addons" / target / "pages"
    facts = json.loads((folder / "addon.json").read_text())
    assert facts["operators"] == ["aten::hardswish"]
    assert facts["bytes"] < 40_000
    why = "nothing on this machine runs its binaries"
    assert [[one[key] for key in TOLD] for one in facts["verified"]] == [
        ["add-on", "pages", "not run here", why, None],
        ["library", "classifier", "not run here", why, None],
    ]
    addon = folder / "lib/libcamera_torch_pages.so"
    require_loadable(addon, library)
    build_id = json.loads((package / "manifest.json").read_text())["library"]["build_id"]
    assert bytes.fromhex(build_id) + b"camera 0.1.0 for android-arm64-v8a\0" in addon.read_bytes()
    aar = shipped / f"dist/camera/addons/camera-libtorch-0.1.0-pages-{target}-NOT-FOR-RELEASE.aar"
    with zipfile.ZipFile(aar) as held:
        assert held.read("jni/arm64-v8a/libcamera_torch_pages.so") == addon.read_bytes()
    # from the AAR that was shipped, it is the same add-on
    aar = next((shipped / "dist/camera/packages").glob("*.aar"))
    ran = orchestrator("addon", "--for", str(aar), *words[3:], "--json", cwd=shipped, **WITHOUT_NDK)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["addon"]["bytes"] == facts["bytes"]
    ran = orchestrator(
        *("addon", "--for", str(aar), "--abi", "android-x86_64", *words[3:]), cwd=shipped
    )
    assert ran.code == 1
    assert "the package has no library for android-x86_64" in ran.err


def require_loadable(addon: Path, library: Path) -> None:
    """As bionic takes it on API level 24 (docs/android-changes-for-ndk-developers.md)."""
    own = exported_symbols(library)
    needed = needed_libraries(addon)
    assert needed[0] == library.name
    sysroot = next(
        Path(word.removeprefix("-L"))
        for word in stub_toolchain(
            "android-arm64-v8a", load_workspace(ROOT, os.environ).cache
        ).driver.commands["cxx"]
        if word.startswith("-L")
    )
    system = {name for file in needed[1:] for name in exported_symbols(sysroot / file)}
    with addon.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".dynsym")
        assert isinstance(table, SymbolTableSection)
        undefined = {s.name for s in table.iter_symbols() if s["st_shndx"] == "SHN_UNDEF"} - {""}
        assert undefined <= own | system
        # of the library are all of PyTorch, of the C++ library, and threads' own variables
        of_library = {name for name in undefined if name.startswith("l_")}
        assert of_library <= own
        assert exported_name("camera", "__emutls_get_address") in own
        assert not [name for name in undefined - of_library if name.startswith(("_Z", "__emutls"))]
        assert {s["p_align"] for s in elf.iter_segments("PT_LOAD")} == {0x4000}
        dynamic = elf.get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        tags = [str(tag.entry.d_tag) for tag in dynamic.iter_tags()]
        packed = elf.get_section_by_name(".rela.dyn")
        assert packed is not None
        assert packed.data()[:4] == b"APS2"
    assert "DT_ANDROID_RELA" in tags
    assert "DT_GNU_HASH" in tags
    assert tags.index("DT_NULL") > 10
    assert not {"DT_INIT", "DT_INIT_ARRAY", "DT_TEXTREL", "DT_ANDROID_RELR", "DT_RELR"} & set(tags)


def test_a_model_of_the_library_that_was_replaced(shipped: Path, tmp_path: Path) -> None:
    """By a new export: nothing but the package, if that, has the file that has shipped."""
    app = shipped / "apps/camera"
    model, traces = app / "models/classifier.ptl", tmp_path / "traces"
    was = model.read_bytes()
    (app / "traces").rename(traces)
    bare = tmp_path / "camera"
    shutil.copytree(shipped / PACKAGE, bare)
    (bare / "share/camera/models/classifier.ptl").unlink()
    addons = shipped / "dist/camera/addons/linux-x86_64"
    try:
        with zipfile.ZipFile(model, "a") as archive:
            archive.writestr("classifier/extra/x", b"x")
        words = (PAGES, "--name", "winter")
        ran = orchestrator("addon", "--for", PACKAGE, *words, cwd=shipped)
        assert ran.code == 0, ran.err
        told = "\n  with the library, its own classifier: ok, compared with the library alone\n"
        assert told in ran.out
        shutil.rmtree(addons / "winter")
        ran = orchestrator("addon", "--for", str(bare), *words, cwd=shipped)
        assert ran.code == 1
        assert (
            f"{bare}: error: not all models of camera 0.1.0 for linux-x86_64 are here to be run"
            " with the add-on\n"
        ) in ran.err
        assert "apps/camera/models/classifier.ptl is another file\n" in ran.err
        assert not (addons / "winter").exists()
        ran = orchestrator("addon", "--for", str(bare), *words, "--unverified", cwd=shipped)
        assert ran.code == 0, ran.err
        said = shown("docs/guide/add-ons.md", "  with the library, its own classifier: not here")
        assert said in ran.out
    finally:
        model.write_bytes(was)
        traces.rename(app / "traces")
    facts = json.loads((addons / "winter/addon.json").read_text())
    assert [[one[key] for key in TOLD] for one in facts["verified"]] == [
        ["add-on", "pages", "ok", "", "recorded outputs"],
        ["library", "classifier", "not here", said.rpartition(": ")[2].strip(), None],
    ]


def test_a_model_that_needs_nothing_more_fits(shipped: Path) -> None:
    words = ("addon", "--for", PACKAGE, "apps/camera/models/classifier.ptl")
    ran = orchestrator(*words, cwd=shipped)
    assert (ran.code, ran.out) == (
        0,
        "camera 0.1.0 for linux-x86_64 needs no add-on:"
        " the library was built for exactly this model\n",
    )


def test_packages_that_no_add_on_can_be_for_are_refused(shipped: Path, tmp_path: Path) -> None:
    def said(package: Path) -> str:
        ran = orchestrator(
            *("addon", "--for", str(package), "apps/scanner/models/pages.ptl"), cwd=shipped
        )
        assert ran.code == 1, ran.out
        return next(line for line in ran.err.splitlines() if "error: " in line)

    foreign = tmp_path / "foreign.tar.zst"
    foreign.write_bytes(b"\x28\xb5\x2f\xfdnothing of ours")
    assert said(foreign)
    damaged = tmp_path / "damaged"
    shutil.copytree(shipped / "dist/camera/linux-x86_64", damaged)
    (damaged / "lib/libcamera_torch.so").write_bytes(b"\x7fELF")
    assert "damaged" in said(damaged) or "changed" in said(damaged)
    other = tmp_path / "other"
    shutil.copytree(shipped / "dist/camera/linux-x86_64", other)
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["toolchain"]["identity"] = 64 * "0"
    (other / "manifest.json").write_text(json.dumps(manifest))
    assert said(other).endswith(
        "error: the library was built with another toolchain than the one for linux-x86_64 here"
    )
