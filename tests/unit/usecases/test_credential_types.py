"""Credentials are kept only where a tool could use them; what is wrong is said without a value."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.usecases.credential_types import SHAPES, TYPES, find_fault, http_type

CLIENT = {"token_url": "https://id.example/token", "client_id": "i", "client_secret": "canary"}


@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("generic", {"anything": [1]}),
        ("postgres", {"host": "h", "whatever": 1}),
        ("postgres", {"dsn": "postgresql://h/d"}),
        ("basic", {"username": "u", "password": "p"}),
        ("basic", {"user": "u"}),
        ("bearer", {"token": "t"}),
        ("api_key", {"key": "k", "header": "X-Key"}),
        ("api_key", {"api_key": 12345, "in": "query", "name": "sig"}),
        ("oauth2", CLIENT),
        ("oauth2", {**CLIENT, "scope": ["a", "b"], "client_auth": "body", "params": {"resource": "r", "n": 1}, "headers": {"a": "b"}, "type": "oauth2"}),
        ("http", {"token": "t", "note": "others may stand beside"}),
        ("http", {"type": "Client-Credentials", **CLIENT}),
    ],
)  # fmt: skip
def test_what_a_tool_can_use_is_kept(type: str, data: dict[str, Any]) -> None:
    assert find_fault(type, data) is None


@pytest.mark.parametrize(
    ("type", "data", "words"),
    [
        ("postgres", {"user": "canary"}, "type 'postgres' needs `host`"),
        ("basic", {"password": "canary"}, "type 'basic' needs `username`"),
        ("basic", {"username": "u", "password": ["canary"]}, "`password` of type 'basic' must be a text"),
        ("basic", {"username": "u", "pasword": "canary"}, "no field 'pasword'. Did you mean 'password'?"),
        ("bearer", {"token": ""}, "needs `token`"),
        ("bearer", {"token": "canary\n"}, "`token` of type 'bearer' is blank or holds a line break"),
        ("bearer", {"access_token": {"a": "canary"}}, "`access_token` of type 'bearer' must be a text"),
        ("api_key", {"key": "canary", "in": "cookie"}, "`in` of type 'api_key' is `header` or `query`"),
        ("oauth2", {**CLIENT, "client_secret": None}, "needs `client_secret`"),
        (
            "oauth2",
            {**CLIENT, "token_url": "ftp://canary"},
            "`token_url` of type 'oauth2' must be an address",
        ),
        ("oauth2", {**CLIENT, "token_url": "https://u:canary@h/"}, "without user or password"),
        ("oauth2", {**CLIENT, "token_url": "https://[canary"}, "must be an address"),
        ("oauth2", {**CLIENT, "scope": [1]}, "`scope` of type 'oauth2' must be a text or a list of texts"),
        ("oauth2", {**CLIENT, "audience": ["canary"]}, "`audience` of type 'oauth2' must be a text"),
        ("oauth2", {**CLIENT, "params": {"a": [1]}}, "must be a mapping from texts to texts"),
        ("oauth2", {**CLIENT, "grant_type": "password"}, "can only be `client_credentials`"),
        ("oauth2", {**CLIENT, "client_auth": "canary"}, "is `header` or `body`"),
        ("oauth2", {"token_uri": "https://h/"}, "Did you mean 'token_url'?"),
        ("http", {"note": "canary"}, "give `token`"),
        ("http", {"type": "digest", "username": "u"}, "give `token`"),
    ],
)
def test_what_no_tool_can_use_is_named_by_its_field(type: str, data: dict[str, Any], words: str) -> None:
    said = find_fault(type, data) or ""

    assert words in said
    assert "canary" not in said


def test_a_type_that_is_said_wins_over_the_fields() -> None:
    assert http_type({"type": "bearer", "username": "u", "token": "t"}) == "bearer"
    assert http_type({"username": "u", "token": "t"}) == "basic"
    assert http_type({"type": "postgres", "user": "u"}) is None


def test_every_type_but_the_open_ones_has_a_shape() -> None:
    assert {*SHAPES, "http", "generic"} == set(TYPES)
