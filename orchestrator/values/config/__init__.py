"""The declaration files as values: `WORKSPACE`, `apps/<app>/app.yaml`, `toolchains/<abi>.yaml`.

The models here are the only definition of those files: the loader validates against them, and the
JSON schemas under `schemas/` are generated from them, so every key has its description. They are
strict (no conversions, no unknown keys) and frozen. `orchestrator.load` checks what needs more than
one file, or the disk.
"""
