"""`fetch --verify` finds what is damaged in the cache, and removes just that."""

from __future__ import annotations

from pathlib import Path

from orchestrator.cache.checks import remove_damaged
from orchestrator.cache.store import ObjectStore
from orchestrator.system.sums import publish


def made(cache: Path, name: str) -> Path:
    folder = cache / "staging" / "x"
    folder.mkdir(parents=True)
    (folder / "file").write_text(name)
    publish(folder, cache / name)
    return cache / name / "file"


def test_damaged_objects_and_folders_go(tmp_path: Path) -> None:
    cache, source = tmp_path / "cache", tmp_path / "made.o"
    source.write_bytes(b"code")
    store = ObjectStore((cache,))
    for name in ("objects/ab/abcd.o", "objects/ef/ef01.o", "pch/key/of.pch", "shards/12/12.so"):
        source.unlink()
        source.write_bytes(name.encode())
        assert store.put(name, source)
    files = [made(cache, name) for name in ("registrations/ab/abcd", "generated/g", "generated/h")]
    (cache / "generated" / "g-configured").mkdir()
    assert remove_damaged(cache) == ()
    (object_file,) = (cache / "objects/ef").iterdir()
    object_file.write_bytes(b"")
    (shard,) = (cache / "shards/12").iterdir()
    shard.write_bytes(b"")
    files[0].write_text("")
    files[2].unlink()
    expected = (
        "generated/h",
        f"objects/ef/{object_file.name}",
        "registrations/ab/abcd",
        f"shards/12/{shard.name}",
    )
    assert remove_damaged(cache) == expected
    assert [(cache / name).exists() for name in expected] == [False] * 4
    assert store.listed(["objects/ab/abcd.o", "pch/key/of.pch"]) == {
        "objects/ab/abcd.o",
        "pch/key/of.pch",
    }
    assert remove_damaged(cache) == ()
