"""Versions that pass over nothing read what this one writes, while it takes their place."""

from __future__ import annotations

import gzip
import json
from dataclasses import fields
from pathlib import Path

import pytest

from noetl.store.codec import FACTS, LATER

from .facts import fields_of_events, name_of

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("facts-*.json.gz"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.split(".")[0])
def test_what_events_say_since_is_left_out_where_it_says_nothing(file: Path) -> None:
    known = json.loads(gzip.decompress(file.read_bytes()))
    left_out = {name_of(record): set(says) for record, says in LATER.items()}
    more = {
        name: sorted(new)
        for name, now in fields_of_events().items()
        if name in known and (new := set(now) - set(known[name]) - left_out.get(name, set()))
    }
    assert more == {}, "name them in `LATER`, with what they are of an event that does not say it"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.split(".")[0])
def test_no_event_is_of_a_type_that_an_earlier_version_refuses(file: Path) -> None:
    known = json.loads(gzip.decompress(file.read_bytes()))
    assert FACTS.keys() - known.keys() == set(), "a release reads a new type before the next one writes it"


def test_what_is_left_out_is_what_a_reader_takes_it_for() -> None:
    defaults = {record: {one.name: one.default for one in fields(record)} for record in LATER}
    assert {
        record: {name: defaults[record][name] for name in says} for record, says in LATER.items()
    } == LATER
