"""The option `--jobs`."""

from __future__ import annotations

import argparse


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add --jobs, which takes an integer of at least 1; None by default."""
    parser.add_argument(
        "--jobs",
        "-j",
        type=count,
        metavar="N",
        help="number of parallel commands (default: one per core, limited by memory)",
    )


def count(text: str) -> int:
    """The value of an option that is an integer of at least 1."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not an integer of at least 1")
    return int(text)
