"""Damage to texts: what a slip, a bad merge or an attacker leaves in a file."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

# Of YAML's grammar, and values that some reader of it stumbles over.
TOKENS: Final[Sequence[bytes]] = (
    *(b"[", b"]", b"{", b"}", b": ", b"- ", b"? ", b"&a ", b"*a", b"!", b"!!int ", b"|", b">"),
    *(b'"', b"'", b"\\", b"#", b"@", b"`", b"\t", b"\n", b"\r", b"\0", b"\x85", b"\xe2\x80\xa8"),
    *(b"\\U00110000", b"\\UFFFFFFFF", b"\\ud800", b"\\xff", b"\\u0000", b"\\x1b]0;x\\x07"),
    *(b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"---\n", b"...\n", b"%YAML 9.9\n", b"<<: *a"),
    *(b"~", b"null", b"true", b"yes", b"=", b"''", b"is_root_operator", b"    ", b"- - - - "),
    *(b"1:59:59", b"1" + b":1" * 200 + b".5", b"1" + b":59" * 3000, b".inf", b".nan", b"1.0e+999"),
    *(b"9" * 40, b"9" * 5000, b"0x" + b"f" * 5000, b"0b_", b"-1", b"08", b"1_0", b"1000000"),
    *(b"2001-01-01", b"2001-13-01", b"0000-00-00", b"2001-01-01T00:00:00+99:99"),
    *(b"../../../etc", b"/etc/passwd", b"$HOME", b"${X}", b"~root/x", b"a" * 300, b"a\\nb", b"-x"),
    *(b'"\\"; }\\n"', b'"x\\") == 0) return true; //"', b"Float; }", b"*", b"<<<<<<< HEAD\n"),
    *(b"[[[[[[[[" * 40, b"{a: " * 300, b"\n".join(b" " * n + b"a:" for n in range(120))),
    *(b"0-249999", b"0-999998", b"0 2 4 6 8"),
    b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(98, 106)
    ),
)  # fmt: skip


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The text with one change or some."""
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        data = rng.choice((_inside, _inside, _line, _line, _value, _value))(rng, data)
    return _many(rng, data) if rng.random() < 0.02 else data


def _inside(rng: random.Random, data: bytes) -> bytes:
    """A byte, a token or a gap somewhere."""
    at = rng.randrange(len(data) + 1)
    gap = rng.choice([0, 0, 1, 3, 20, 200])
    put = rng.choice([b"", rng.randbytes(1), rng.choice(TOKENS), rng.choice(TOKENS)])
    return data[:at] + put + data[at + gap :]


def _line(rng: random.Random, data: bytes) -> bytes:
    """A line twice, gone, somewhere else, or deeper."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    way = rng.randrange(4)
    if way == 0:
        lines.insert(rng.randrange(len(lines) + 1), lines[at])
    elif way == 1:
        del lines[at]
    elif way == 2:
        lines.insert(rng.randrange(len(lines)), lines.pop(at))
    else:
        lines[at] = b"  " + lines[at]
    return b"\n".join(lines)


def _value(rng: random.Random, data: bytes) -> bytes:
    """Another value for a key, or another key for a value."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    key, colon, value = lines[at].partition(b": ")
    token = rng.choice(TOKENS)
    if not colon:
        key, colon, value = lines[at].partition(b"- ")
    lines[at] = key + colon + token if rng.random() < 0.7 else token + colon + value
    return b"\n".join(lines)


def _many(rng: random.Random, data: bytes) -> bytes:
    """An entry with all that is in it thousands of times, each time under another name."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    deep = _depth(lines[at])
    end = next((n for n in range(at + 1, len(lines)) if _depth(lines[n]) <= deep), len(lines))
    entry = b"\n".join(lines[at:end])
    times = min(rng.choice([300, 5_000, 60_000]), 4 * 2**20 // (len(entry) + 9))
    name, colon, rest = entry.partition(b":")
    copies = [b"%s%d%s%s" % (name, number, colon, rest) for number in range(times)]
    return b"\n".join([*lines[:at], *copies, *lines[end:]])


def _depth(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" "))
