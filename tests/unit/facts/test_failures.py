"""Which failures have the same fingerprint."""

from __future__ import annotations

import pytest

from noetl.facts.failures import failure_of, shape_of


@pytest.mark.parametrize(
    ("message", "shape"),
    [
        ("order 17 of 20 is 'n/a'", "order <number> of <number> is <quoted>"),
        ("could not convert string to float: 'n/a'", "could not convert string to float: <quoted>"),
        ('key "a b" is missing', "key <quoted> is missing"),
        ("it can't be read, isn't it", "it can't be read, isn't it"),
        ("run 3fa85f64-5717-4562-b3fc-2c963f66afa6 is gone", "run <number> is gone"),
        ("since 2026-01-31T12:00:00.123+02:00 nothing", "since <instant> nothing"),
        ("on 2026-01-31 nothing", "on <instant> nothing"),
        ("GET https://api.example.com/v1/orders/17?x=1: 503", "GET <path>: <number>"),
        ("no file /data/in/2026.csv", "no file <path>"),
        ("commit deadbeef01 at 0x7f3a", "commit <number> at <number>"),
        ("run 119120931011650363 and 1191 are alike", "run <number> and <number> are alike"),
        ("a decade of defaced facades", "a decade of defaced facades"),
        ("utf8 and sha256 and order_17", "utf8 and sha256 and order_<number>"),
        ("took 1.5s of 1,000 at 10:30", "took <number>s of <number> at <number>"),
        ("division by zero", "division by zero"),
        ("two\n  lines\tand more", "two lines and more"),
        ("either and/or", "either and/or"),
        ("", ""),
    ],
)
def test_a_word_stands_for_what_varies(message: str, shape: str) -> None:
    assert shape_of(message) == shape


def test_a_message_of_any_length_is_shortened_at_once() -> None:
    assert len(shape_of("x" * 1_000_000)) == 300
    assert len(shape_of("'" * 1_000_000)) <= 300
    assert len(shape_of("a:/" * 1_000_000)) <= 300


def test_the_same_fault_has_the_same_fingerprint_and_another_one_another() -> None:
    error = {"kind": "http", "type": "HttpError", "step": "load", "task": "get", "message": "status 503"}
    one = failure_of(error)
    assert one.fingerprint == failure_of({**error, "message": "status 502", "attempt": 3}).fingerprint
    assert len(one.fingerprint) == 12
    for name in ("kind", "type", "step", "task", "message"):
        assert failure_of({**error, name: "other"}).fingerprint != one.fingerprint, name


def test_an_error_may_lack_everything() -> None:
    assert failure_of({}).shape == ""
