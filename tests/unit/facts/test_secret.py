"""What stands for a secret, and how nobody else can make it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl.errors import BadRequest, TemplateError
from noetl.facts.secret import (
    Keychain,
    change_form,
    deeper,
    holds_secret,
    is_sealed_by,
    is_secret,
    marker,
    replace_markers,
    seal_reference,
)

KEY, OTHER = b"k" * 32, b"o" * 32
BASE = {"kind": "secret_ref", "execution": "1", "keychain": "db"}


def test_a_seal_is_good_for_its_own_reference_and_key_and_for_every_field_of_it() -> None:
    reference = seal_reference(BASE, KEY)

    assert is_sealed_by(reference, KEY)
    assert is_sealed_by(deeper(reference, "password"), KEY)
    assert not is_sealed_by(reference, OTHER)
    assert not is_sealed_by({**reference, "keychain": "other"}, KEY)
    assert not is_sealed_by({**reference, "execution": "2"}, KEY)
    assert not is_sealed_by({**BASE, "seal": ""}, KEY)


def test_reaching_into_a_reference_reaches_into_the_secret_whatever_its_own_keys_are() -> None:
    assert deeper(deeper(seal_reference(BASE, KEY), "kind"), "seal")["field"] == "kind.seal"


@pytest.mark.parametrize("value", [BASE, {"kind": "secret_ref", "seal": 1}, "secret_ref", None, []])
def test_what_has_no_seal_is_no_reference(value: Any) -> None:
    assert not is_secret(value)


@pytest.mark.parametrize(
    ("text", "value", "written"),
    [
        ("Bearer {}", "a b", "Bearer a b"),
        ("{}{}", "ab", "abab"),
        ('"{}"', 'say "x"', '"say "x""'),
        ("{}", 5432, "5432"),
    ],
)
def test_a_marker_in_a_text_becomes_the_secret(text: str, value: Any, written: str) -> None:
    marked = text.replace("{}", marker(seal_reference(BASE, KEY)))

    assert replace_markers(marked, lambda _: value) == written


@pytest.mark.parametrize("value", ['quo"te\\', 5432, True, {"a": 1}, None])
def test_a_marker_in_json_becomes_json(value: Any) -> None:
    marked = f'{{"a": "{marker(seal_reference(BASE, KEY), "json")}"}}'

    assert json.loads(replace_markers(marked, lambda _: value)) == {"a": value}


def test_a_marker_in_the_middle_of_a_json_text_is_escaped_there() -> None:
    marked = '{"a": "Bearer ' + marker(seal_reference(BASE, KEY), "json") + '"}'

    assert replace_markers(marked, lambda _: 'x"y') == '{"a": "Bearer x\\"y"}'


def test_a_marker_in_an_address_is_quoted() -> None:
    marked = change_form("http://x/?k=" + marker(seal_reference(BASE, KEY)), "url")

    assert replace_markers(marked, lambda _: "a/b c&d") == "http://x/?k=a%2Fb%20c%26d"


@pytest.mark.parametrize("change", [lambda m: m[:-4], lambda m: m[:20] + "!" + m[20:]])
def test_a_marker_that_was_changed_is_refused(change: Any) -> None:
    with pytest.raises(BadRequest, match="was changed"):
        replace_markers("a " + change(marker(seal_reference(BASE, KEY))), lambda _: "x")


def test_a_whole_mapping_is_no_text() -> None:
    with pytest.raises(BadRequest, match=r"keychain.db is no text; name one of its fields"):
        replace_markers("a " + marker(seal_reference(BASE, KEY)), lambda _: {"password": "x"})


def test_references_and_markers_are_found_however_deep() -> None:
    assert holds_secret({"a": [{"b": seal_reference(BASE, KEY)}]})
    assert holds_secret([["x", "Bearer " + marker(seal_reference(BASE, KEY))]])
    assert not holds_secret({"a": [{"kind": "secret_ref"}], "b": "noetl-secret."})


def test_a_keychain_knows_its_entries_and_the_nearest_name() -> None:
    names = Keychain(({"name": "billing"},), "7", lambda one: seal_reference(one, KEY))

    assert names["billing"] == seal_reference(
        {"kind": "secret_ref", "execution": "7", "keychain": "billing"}, KEY
    )
    assert list(names) == ["billing"]
    with pytest.raises(TemplateError, match=r"no entry 'biling'. Did you mean 'billing'\?"):
        names["biling"]
