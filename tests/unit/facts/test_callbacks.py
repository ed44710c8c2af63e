"""Tokens of the addresses of tasks: whose they are can be read by who has the key alone, and
written by nobody else."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.errors import TemplateError
from noetl.expressions import evaluate
from noetl.facts.callbacks import Callbacks, TaskAddress, make_token, place_of, read_token
from noetl.facts.secret import describe_secret, seal_reference

KEY, OLD = b"a key", b"an older key"
PLACE = TaskAddress("77", "start#1", None, "answer")
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
addresses = st.builds(
    TaskAddress, st.from_regex(r"[0-9]{1,19}", fullmatch=True), names, st.none() | st.integers(0), names
)


@given(addresses)
def test_a_token_comes_back_as_its_address_and_is_a_segment_of_a_url(address: TaskAddress) -> None:
    token = make_token(address, KEY)
    assert read_token(token, [KEY]) == address
    assert read_token(token, [OLD, KEY]) == address
    assert read_token(token, [OLD]) is None
    assert read_token(token, []) is None
    assert re.fullmatch(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{22}", token)


@given(addresses, addresses)
def test_different_addresses_have_different_tokens(one: TaskAddress, other: TaskAddress) -> None:
    assert (make_token(one, KEY) == make_token(other, KEY)) == (one == other)


@given(st.text())
def test_what_is_no_token_is_no_address(text: str) -> None:
    assert read_token(text, [KEY]) is None


@given(st.integers(0), st.sampled_from(string.ascii_letters + string.digits + "-_.=/"))
def test_a_token_that_was_changed_is_none(at: int, letter: str) -> None:
    token = make_token(PLACE, KEY)
    at %= len(token)
    changed = token[:at] + letter + token[at + 1 :]
    if changed != token:
        assert read_token(changed, [KEY]) is None
    assert read_token(token[:at], [KEY]) is None


def test_templates_see_a_sealed_reference_for_each_task_that_has_an_address() -> None:
    seen = Callbacks(("answer", "other"), "77", "start#1", 3, lambda one: seal_reference(one, KEY))
    found = evaluate("{{ callback.answer.url }}", {"callback": seen})
    assert describe_secret(found) == "callback.answer.url"
    assert place_of(found) == TaskAddress("77", "start#1", 3, "answer")
    assert list(seen) == ["answer", "other"]
    with pytest.raises(
        TemplateError, match=r"no address belongs to a task 'anser'\. Did you mean 'answer'\?"
    ):
        evaluate("{{ callback.anser.url }}", {"callback": seen})
