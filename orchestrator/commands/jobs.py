"""The option `--jobs`."""

from __future__ import annotations

import argparse


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add --jobs, which takes a whole number from 1 on; None where it is not given."""
    parser.add_argument(
        "--jobs",
        "-j",
        type=_count,
        metavar="N",
        help="commands run at once (default: one a core, as many as the memory holds)",
    )


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of commands, 1 or more")
    return int(text)
