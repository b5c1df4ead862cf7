"""Running a driver: what it is given, what is read back, and whatever goes wrong."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter

import orchestrator.verify.model_runner as driver
from orchestrator.values.config.app import ModelConfig
from orchestrator.verify.model_runner import run_model
from orchestrator.verify.verdict import RunnerResult, verify

BUNDLED = ModelConfig(file="models/m.ptl")
DECLARED = TypeAdapter(ModelConfig).validate_python(
    {"file": "models/m.ptl", "inputs": [{"args": [{"shape": [1], "fill": "ones"}, 3]}]}
)
# Writes a result that holds its own arguments.
ECHO = """
import json, sys
words = [w for w in sys.argv[1:] if w != "--no-args"]
options = dict(zip(words[::2], words[1::2]))
given = json.load(open(options["--inputs"])) if "--inputs" in options else None
json.dump({"model": options["--model"], "runs": [], "inputs": given,
           "quiet": "--no-args" in sys.argv}, open(options["--output"], "w"))
"""

# Writes an output that is a tuple in a tuple, and so on.
DEEP = """
import json, sys
value = {"none": True}
for _ in range(200):
    value = {"tuple": [value]}
run = {"method": "forward", "index": 0, "output": value, "error": None}
out = sys.argv[sys.argv.index("--output") + 1]
json.dump({"model": "m", "runs": [run], "error": None}, open(out, "w"))
"""


def run(
    script: str, model: ModelConfig = BUNDLED, env: dict[str, str] | None = None
) -> RunnerResult:
    argv = [sys.executable, "-c", script]
    return run_model(argv, Path("/apps/camera/models/m.ptl"), model, env or os.environ)


def test_bundled_inputs_need_no_file() -> None:
    # the model's path would make a recording differ from machine to machine
    assert run(ECHO) == RunnerResult(0, {"runs": [], "inputs": None, "quiet": True})


def test_what_the_library_says_of_its_selection_is_no_part_of_a_recording() -> None:
    said = 64 * "a"
    script = ECHO.replace('"runs": []', f'"runs": [], "selection": "{said}"')
    assert run(script) == RunnerResult(
        0, {"runs": [], "inputs": None, "quiet": True}, selection=said
    )


@pytest.mark.parametrize(
    ("said", "levels"),
    [
        ("[]", ()),
        ('["avx2", "avx512"]', ("avx2", "avx512")),
        ("null", None),
        ('"avx2"', None),
    ],
)
def test_what_the_runner_says_of_cpu_levels_is_no_part_of_a_recording(
    said: str, levels: tuple[str, ...] | None
) -> None:
    script = ECHO.replace('"runs": []', f'"runs": [], "cpu_levels": json.loads({said!r})')
    assert run(script) == RunnerResult(
        0, {"runs": [], "inputs": None, "quiet": True}, levels=levels
    )


def test_declared_inputs_are_handed_over() -> None:
    result = run(ECHO, DECLARED).result
    assert result is not None
    assert result["inputs"] == [
        {
            "method": "forward",
            "args": [
                {"tensor": {"dtype": "float32", "shape": [1], "data": "AACAPw=="}},
                {"int": 3},
            ],
        }
    ]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("import sys; sys.exit(2)", RunnerResult(2, None)),
        (
            "import sys; print('no such operator', file=sys.stderr); sys.exit(1)",
            RunnerResult(1, None, "no such operator\n"),
        ),
        ("import os; os.kill(os.getpid(), 11)", RunnerResult(-11, None)),
        # half a result is none
        (
            "import sys; open(sys.argv[sys.argv.index('--output') + 1], 'w').write('{\"runs\": [')",
            RunnerResult(
                0,
                None,
                "\nits result cannot be read:"
                " invalid JSON: Expecting value: line 1 column 11 (char 10)",
            ),
        ),
        # comparing outputs is recursive
        (
            DEEP,
            RunnerResult(
                0,
                None,
                "\nits result cannot be read:"
                " not a list of runs, or values of more than 100 levels",
            ),
        ),
        # what a damaged model is called need not be text
        (
            "import sys; sys.stderr.buffer.write(b'bad \\xff name'); sys.exit(1)",
            RunnerResult(1, None, "bad � name"),
        ),
    ],
)
def test_drivers_that_fail(script: str, expected: RunnerResult) -> None:
    assert run(script) == expected


def test_a_model_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "TIME_LIMIT", 0.3)
    ran = run("import time; time.sleep(60)")
    assert ran == RunnerResult(-signal.SIGKILL, None, "still running after 0.3 s")


def test_of_the_environment_only_what_a_program_needs_is_handed_over() -> None:
    script = "import json, os, sys; json.dump(dict(os.environ), sys.stderr)"
    kept = {
        "PATH": os.environ["PATH"],
        "HOME": "/home/u",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TMPDIR": "/tmp",
        "LD_LIBRARY_PATH": "/lib",
        "QEMU_LD_PREFIX": "/usr/aarch64-linux-gnu",
    }
    secrets = {
        "AWS_SECRET_ACCESS_KEY": "s",
        "GITHUB_TOKEN": "s",
        "LD_PRELOAD": "",
        "PYTHONPATH": "",
    }
    seen = json.loads(run(script, env={**kept, **secrets}).stderr)
    # of the interpreter's own
    seen.pop("LC_CTYPE", None)
    assert seen == kept


@pytest.mark.parametrize("name", ["plain", "a:b", "a;b", "a b"])
def test_a_loader_finds_libraries_in_a_folder_of_any_name(name: str, tmp_path: Path) -> None:
    """Colons and semicolons split the path that it searches."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "here").touch()
    script = (
        "import os, re, sys\n"
        "places = re.split('[:;]', os.environ['LD_LIBRARY_PATH'])\n"
        "print([os.path.exists(f'{place}/here') for place in places], file=sys.stderr)"
    )
    argv = [sys.executable, "-c", script]
    ran = run_model(argv, Path("/m.ptl"), BUNDLED, os.environ, libraries=folder)
    assert ran.stderr == "[True]\n"


def test_the_limits_are_the_childs_alone() -> None:
    script = """
import resource, sys
for kind in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
    print(*resource.getrlimit(kind), file=sys.stderr)
"""
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)
    before = [resource.getrlimit(kind) for kind in kinds]
    assert run(script).stderr.split("\n") == [
        "17179869184 17179869184",
        "1073741824 1073741824",
        "0 0",
        "",
    ]
    assert [resource.getrlimit(kind) for kind in kinds] == before


def test_a_lower_limit_of_the_users_stays() -> None:
    """It cannot be raised, and a run must not fail of that."""
    script = f"""
import resource, sys
sys.path[:0] = {sys.path!r}
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
import os
from pathlib import Path
from orchestrator.verify.model_runner import run_model
from orchestrator.values.config.app import ModelConfig
inner = "import resource, sys; print(*resource.getrlimit(resource.RLIMIT_AS), file=sys.stderr)"
argv = [sys.executable, "-c", inner]
print(run_model(argv, Path("m.ptl"), ModelConfig(file="models/m.ptl"), os.environ).stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "2147483648 2147483648\n\n"


def test_a_model_that_allocates_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "MEMORY_LIMIT", 2**29)
    ended = run("kept = []\nwhile True: kept.append(bytearray(2**24))")
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, "MemoryError")
    assert verify("m", {"runs": []}, ended).failures[0].text == (
        "the model runner exited with code 1: MemoryError"
    )


def test_a_model_that_writes_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "OUTPUT_LIMIT", 2**20)
    # as C has it; Python's own way is an exception
    default = "import signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
    ended = run(default + "while True: sys.stderr.write('x' * 2**16)")
    assert (ended.returncode, ended.result) == (-signal.SIGXFSZ, None)
    assert ended.stderr == "x" * 2**16
    assert (
        verify("m", {"runs": []}, ended)
        .failures[0]
        .text.startswith("the model runner was killed by SIGXFSZ: xxx")
    )


FRESH = """
import ctypes, sys
libc = ctypes.CDLL(None)
for take in (libc.malloc, libc.free):
    take.argtypes, take.restype = [ctypes.c_void_p], ctypes.c_void_p
libc.posix_memalign.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
libc.calloc.argtypes, libc.calloc.restype = [ctypes.c_size_t] * 2, ctypes.c_void_p
seen = set()
for size in (1, 12, 24, 64, 100, 1032, 5000, 131072, 40000000):
    # the second time it is what was freed before
    for _ in range(2):
        aligned = ctypes.c_void_p()
        libc.posix_memalign(ctypes.byref(aligned), 64, size)
        plain, zeros = libc.malloc(size), libc.calloc(1, size)
        assert not any(ctypes.string_at(zeros, min(size, 10**5)))
        for block in (aligned.value, plain):
            seen.update(ctypes.string_at(block, size))
        for block in (aligned.value, plain, zeros):
            ctypes.memset(block, 7, size)
            libc.free(block)
print(sorted(seen), file=sys.stderr)
"""


@pytest.mark.parametrize("byte", [0x55, 0xAA])
def test_fresh_memory_is_filled(byte: int) -> None:
    """As PyTorch's allocator asks for it, small and large, and mapped; zeros stay zeros."""
    argv = [sys.executable, "-c", FRESH]
    ended = run_model(argv, Path("m.ptl"), BUNDLED, os.environ, fill=byte)
    assert (ended.returncode, ended.stderr) == (0, f"[{byte}]\n")


def test_nothing_stays() -> None:
    script = "import sys; print(sys.argv[sys.argv.index('--output') + 1], file=sys.stderr)"
    assert not Path(run(script).stderr.strip()).parent.exists()
