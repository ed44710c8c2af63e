"""What user code prints is masked however it comes: in any chunks, over any border."""

from __future__ import annotations

import random

import pytest

from noetl.tools.code.listening import MaskedStream
from noetl.tools.kit.blackout import Blackout, texts_of

PEM = (
    "-----BEGIN PRIVATE KEY-----\n"
    + "\n".join("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ" + f"{n:014}" for n in range(12))
    + "\nAb12+/==\n-----END PRIVATE KEY-----\n"
)
TOKEN = "cAnArY-7f3d-91e2-bird"


def shown(data: bytes, sizes: list[int], *secrets: str) -> str:
    """What comes out of a stream that is read in pieces of these sizes, again and again."""
    black = Blackout()
    black.add(text for secret in secrets for text in texts_of(secret))
    stream, out, at = MaskedStream(black), "", 0
    while at < len(data):
        size = sizes[0]
        sizes = [*sizes[1:], size]
        out += stream.feed(data[at : at + size])
        at += size
    return out + stream.end()


@pytest.mark.parametrize("size", [1, 2, 7, 64, 65_536])
def test_a_secret_is_masked_wherever_reads_divide_it(size: int) -> None:
    text = f"before {TOKEN} between\n{TOKEN}{TOKEN} and cAnArY-7f3d only\nbehind\n"
    assert shown(text.encode(), [size], TOKEN) == (
        "before *** between\n****** and cAnArY-7f3d only\nbehind\n"
    )


def test_a_key_over_many_lines_is_masked_as_a_whole_and_line_by_line() -> None:
    for size in (1, 5, 40, 1000):
        out = shown(f"a\n{PEM}b\n".encode(), [size], PEM)
        assert not [line for line in PEM.splitlines() if line in out], out
        assert out.startswith("a\n")
        assert out.endswith("b\n")
    indented = PEM.replace("\n", "\n    ")
    assert "MIIEvQ" not in shown(indented.encode(), [10], PEM)


def test_what_can_begin_no_secret_is_shown_at_once() -> None:
    black = Blackout()
    black.add([TOKEN])
    stream = MaskedStream(black)
    assert stream.feed(b"a line\n") == "a line\n"
    assert stream.feed(b"no: cAnAr") == "no: "
    assert stream.feed(b"ies\n") == "cAnAries\n"
    assert stream.feed(b"cut: cAnArY-7") == "cut: "
    assert stream.end() == "***"


def test_random_pieces_of_overlapping_secrets_show_none_of_them() -> None:
    rng = random.Random(7)
    secrets = ["abcabcab-1", "cab-1abcabc", "1abcabcab-1ab"]
    for _ in range(300):
        text = "".join(rng.choice([*secrets, "abc", "ab", "cab-1", "x\n"]) for _ in range(12))
        out = shown(text.encode(), [rng.randint(1, 9) for _ in range(5)], *secrets)
        assert not [one for one in secrets if one in out], (text, out)


def test_bytes_that_are_no_text_and_characters_that_reads_divide_become_readable() -> None:
    assert shown("é✓\n".encode(), [1]) == "é✓\n"
    assert shown(b"a\xff\x00b", [3], TOKEN) == "a\ufffd\ufffdb"
