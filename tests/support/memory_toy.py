"""A model's memory, as tests of reports and limits have it."""

from __future__ import annotations

from orchestrator.values.memory import Block, ModelMemory, RunMemory, Site

CONV = Site("aten::conv2d", "forward at net.py:12")
RELU = Site("aten::relu", "forward at net.py:13")
FIRST = RunMemory(
    method="forward",
    index=0,
    again=False,
    before=1_000_000,
    inputs=602_112,
    peak=5_200_000,
    at=RELU,
    model=1_000_000,
    earlier=0,
    own=4_200_000,
    blocks=(
        Block(3_211_264, "run", False, CONV, "float32", (1, 64, 112, 112)),
        Block(800_000, "run", True, CONV, None, None),
        Block(600_000, "model", True, None, "float32", (64, 3, 7, 7)),
        Block(100_000, "run", False, None, None, None),
    ),
    others=12,
    others_bytes=488_736,
    loaded=600_000,
    left=800_000,
)
MEMORY = ModelMemory("net", 900_000, 300_000, 1_000_000, 800_000, 1_100_000, (FIRST,))
