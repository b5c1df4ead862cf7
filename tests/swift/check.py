"""The Swift package and the Swift of READMEs, by a Swift compiler, on the apps' Linux libraries.

For each app, SwiftPM builds the package as the packager writes it, with the C module of a Linux
library in the place of the XCFramework, and a program for each model: the README's `firstCall`.
Camera's package has more: `main.swift` here, the guide's lines, models by name, and samples for
other calls than those of the apps. A warning is an error, in Swift 5 and, of the samples, in
Swift 6. What the programs print is compared with `expected.txt`.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
FOLDERS = ("integration", "support", "unit/deliver", "unit/packagers")
sys.path[:0] = [str(ROOT), *(str(ROOT / "tests" / folder) for folder in FOLDERS)]

import crafted  # noqa: E402
from test_app_samples import MODELS  # noqa: E402
from test_calls import taking  # noqa: E402

from orchestrator.deliver.app_samples import swift_function  # noqa: E402
from orchestrator.deliver.manifest import Manifest, ModelFact, read_manifest  # noqa: E402
from orchestrator.packagers.xcframework import module_name  # noqa: E402
from orchestrator.system.templates import environment  # noqa: E402
from orchestrator.values.methods import Call  # noqa: E402

MORE = "camera"
CALL = "try firstCall(path: CommandLine.arguments[1])\n"
NAMED = """
do {
  print("named:", try Model(named: "classifier").methods.contains("forward"))
  _ = try Model(named: "other")
} catch {
  print("\\(error)")
}
"""
# Runs in the folder of the packages, where their programs find what they are given.
BUILD = """\
set -eu
here=$PWD
mkdir tmp
# SwiftPM leaves files in both
export TMPDIR="$here/tmp" HOME="$here/tmp"
swiftc --version >version.txt 2>/dev/null
for app in {apps}; do
  cd "$here/$app"
  options="--disable-sandbox -Xswiftc -warnings-as-errors"
  swift-build $options -Xlinker "-L$PWD/lib" >build.log 2>&1 || {{
    cat build.log >&2
    exit 1
  }}
done
cd "$here"
for version in 5 6; do
  for sample in */Sources/*/FirstCall.swift; do
    app=${{sample%%/*}}
    swiftc -typecheck -parse-as-library -swift-version $version -warnings-as-errors \\
      -I "$app/mod" -I "$app/.build/debug/Modules" "$sample"
  done
done
while read -r app program argument; do
  echo "$app $program:"
  LD_LIBRARY_PATH="$app/lib" "$app/.build/debug/$program" $argument
done <programs.txt >printed.txt
"""
# $0 is the folder of Debian's packages, $1 a command.
ENTER = """\
set -eu
for folder in proc dev; do
  mount --rbind "/$folder" "$0/$folder"
done
PATH=$PATH:/usr/sbin exec chroot "$0" sh -c "$1"
"""


def dictionaries() -> bytes:
    """A model that gives a dictionary: its argument at `scores`, and a number at `count`."""
    keys = [crafted.text("scores"), crafted.text("count"), crafted.number(7)]
    return crafted.model(
        code=crafted.method(
            [
                ("STOREN", 1, 2),
                ("LOADC", 0, 0),
                ("MOVE", 2, 0),
                ("LOADC", 1, 0),
                ("LOADC", 2, 0),
                ("DICT_CONSTRUCT", 0, 4),
                ("RET", 0, 0),
            ],
            arguments=[crafted.argument("scores", "Tensor")],
            result="Dict[str, Any]",
            constants=keys,
            types=[crafted.text("Dict[str, Any]")],
            registers=2,
        )
    )


def others() -> Iterator[tuple[str, ModelFact, bytes]]:
    """Calls of every kind, by name, of models that give their last argument back, or a number."""
    for name, fact in MODELS.items():
        given = fact.call.arguments if fact.call else ()
        if fact.call is not None:
            # what is not forward there returns no tensor
            methods = fact.methods if fact.call.method == "forward" else ()
            call = Call(method="forward", arguments=given)
            fact = fact.model_copy(update={"call": call, "methods": methods})
        names = [f"a{index}" for index, _ in enumerate(given)]
        yield name, fact, taking(*((one, "Any") for one in names)) if names else crafted.model()


def programs(manifest: Manifest) -> Iterator[tuple[str, Mapping[str, str], str]]:
    """Of an app: a program's name, its files, and its arguments."""
    module = module_name(manifest)
    imports = f"import {module}Swift\n\n"
    for model in manifest.models:
        files = {"FirstCall.swift": imports + swift_function(model), "main.swift": CALL}
        yield f"first_{model.name}", files, f"models/{model.name}.ptl"
    if manifest.app == MORE:
        models = "models/classifier.ptl models/dictionary.ptl"
        text = (HERE / "main.swift").read_text(encoding="utf-8")
        yield "all", {"main.swift": text.replace("ToyLibtorch", module)}, models
        guide = (ROOT / "docs/guide/use-the-xcframework.md").read_text(encoding="utf-8")
        (shown,) = re.findall(r"^```swift\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
        text = shown.replace("\n\n", "\n\nlet path = CommandLine.arguments[1]\n", 1)
        yield "guide", {"main.swift": f"{text}print(scores.count)\n"}, "models/classifier.ptl"
        for name, fact, _ in others():
            files = {"FirstCall.swift": imports + swift_function(fact), "main.swift": CALL}
            yield f"other_{name}", files, f"models/other_{name}.ptl"
        yield "named", {"main.swift": imports + NAMED}, ""


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, (old, text)
        text = text.replace(old, new)
    return text


def package_texts(manifest: Manifest, names: list[str]) -> dict[str, str]:
    """The app's Swift package and its programs over the library for Linux. `names`: of the models
    that the package delivers."""
    module, library = module_name(manifest), Path(manifest.library.file).stem.removeprefix("lib")
    context = {"module": module, "minimum": "15.0", "delivered": names}
    templates = environment("orchestrator.packagers", "templates/xcframework")
    package, modules, api, delivered = (
        templates.get_template(f"{name}.j2").render(context)
        for name in ("Package.swift", "module.modulemap", "Model.swift", "Delivered.swift")
    )
    targets = "".join(
        f'    .executableTarget(name: "{name}", dependencies: ["{module}Swift"]),\n'
        for name, _, _ in programs(manifest)
    )
    sources = f"Sources/{module}Swift"
    texts = {
        "Package.swift": changed(
            package,
            (
                f'.binaryTarget(name: "{module}", path: "{module}.xcframework")',
                f'.systemLibrary(name: "{module}", path: "mod")',
            ),
            (f'["{module}", "{module}Swift"]', f'["{module}Swift"]'),
            ('.linkedLibrary("c++")', f'.linkedLibrary("{library}")'),
            ("    ),\n  ]\n)", f"    ),\n{targets}  ]\n)"),
        ),
        "mod/module.modulemap": changed(modules, ('  link "c++"\n', "")),
        f"{sources}/Model.swift": api,
        f"{sources}/PrivacyInfo.xcprivacy": "",
    }
    if names:
        texts[f"{sources}/Delivered.swift"] = delivered
    for name, files, _ in programs(manifest):
        texts |= {f"Sources/{name}/{path}": text for path, text in files.items()}
    return texts


def write_package(folder: Path, manifest: Manifest, delivered: Path) -> list[str]:
    """The package, the library and the models of an app; lines of `programs.txt`."""
    models = ROOT / "apps" / manifest.app / "models"
    names = [model.name for model in manifest.models] if manifest.app == MORE else []
    write(folder, package_texts(manifest, names))
    (header,) = delivered.glob("include/**/libtorch_app.h")
    shutil.copy(header, folder / "mod")
    (folder / "lib").mkdir()
    shutil.copy(delivered / manifest.library.file, folder / "lib")
    shutil.copytree(models, folder / "models")
    if names:
        shutil.copytree(models, folder / f"Sources/{module_name(manifest)}Swift/Models")
        (folder / "models/dictionary.ptl").write_bytes(dictionaries())
        for name, _, model in others():
            (folder / f"models/other_{name}.ptl").write_bytes(model)
    return [
        " ".join([manifest.app, name, *(f"{manifest.app}/{one}" for one in given.split())])
        for name, _, given in programs(manifest)
    ]


def write_all(folder: Path) -> None:
    """The packages, the list of their programs, and the script."""
    apps, lines = [], []
    for declaration in sorted(ROOT.glob("apps/*/app.yaml")):
        app = declaration.parent.name
        delivered = ROOT / "dist" / app / "linux-x86_64"
        lines += write_package(folder / app, read_manifest(delivered), delivered)
        apps.append(app)
    write(
        folder,
        {
            "programs.txt": "".join(f"{line}\n" for line in lines),
            "build.sh": BUILD.format(apps=" ".join(apps)),
        },
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="a folder with Debian 13's packages unpacked")
    root: Path | None = parser.parse_args().root
    with tempfile.TemporaryDirectory(dir=root and root / "tmp", prefix="swift-") as name:
        folder = Path(name)
        write_all(folder)
        argv = ["sh", "build.sh"]
        if root is not None:
            inside = f"cd /tmp/{folder.name} && exec sh build.sh"
            argv = ["unshare", "--mount", "--map-root-user", "sh", "-c", ENTER]
            argv += [str(root.resolve()), inside]
        done = subprocess.run(argv, cwd=folder, check=False)
        if done.returncode != 0:
            return 1
        printed = (folder / "printed.txt").read_text(encoding="utf-8")
        print((folder / "version.txt").read_text(encoding="utf-8").splitlines()[0])
    sys.stdout.write(printed)
    expected = (HERE / "expected.txt").read_text(encoding="utf-8")
    changes = difflib.unified_diff(
        expected.splitlines(), printed.splitlines(), "expected.txt", "printed", lineterm="", n=0
    )
    for line in changes:
        print(line, file=sys.stderr)
    return 0 if printed == expected else 1


if __name__ == "__main__":
    sys.exit(main())
