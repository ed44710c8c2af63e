"""What every store promises of tokens."""

from __future__ import annotations

from dataclasses import replace

from noetl.usecases.ports import Store, TokenRow

from .given import LATER, NOW, SECOND

TOKEN = TokenRow(
    token_id="k7w2mq4hxa",
    principal="ci",
    groups=("builders", "zürich"),
    grants=("run:etl/*", "read"),
    secret_sha256="ab" * 32,
    created_at=NOW,
    created_by="root",
    rate="100/minute",
    expires_at=LATER,
)
PLAIN = TokenRow("admin", "admin", (), ("admin",), "cd" * 32, NOW - SECOND)


def add(store: Store, *rows: TokenRow) -> list[bool]:
    with store.begin() as tx:
        return [tx.tokens.add(row) for row in rows]


def test_a_token_comes_back_as_it_was_added(store: Store) -> None:
    assert add(store, TOKEN, PLAIN) == [True, True]
    with store.read() as tx:
        assert tx.tokens.get(TOKEN.token_id) == TOKEN
        assert tx.tokens.get("admin") == PLAIN
        assert tx.tokens.get("none") is None


def test_what_cannot_be_an_id_is_not_there(store: Store) -> None:
    with store.read() as tx:
        assert [tx.tokens.get(one) for one in ("", "x" * 10_000, "ä'\"%")] == [None] * 3


def test_tokens_are_found_oldest_first(store: Store) -> None:
    same = replace(TOKEN, token_id="a7w2mq4hxa")
    add(store, TOKEN, PLAIN, same)
    with store.read() as tx:
        assert tx.tokens.find() == [PLAIN, same, TOKEN]


def test_a_token_that_is_there_stays_as_it_is(store: Store) -> None:
    add(store, PLAIN)
    assert add(store, replace(PLAIN, secret_sha256="ef" * 32)) == [False]
    with store.read() as tx:
        assert tx.tokens.find() == [PLAIN]


def test_a_token_is_revoked_once(store: Store) -> None:
    add(store, TOKEN, PLAIN)
    with store.begin() as tx:
        assert tx.tokens.revoke("admin", NOW)
    with store.begin() as tx:
        assert not tx.tokens.revoke("admin", LATER)
        assert not tx.tokens.revoke("none", LATER)
    with store.read() as tx:
        assert tx.tokens.find() == [replace(PLAIN, revoked_at=NOW), TOKEN]


def test_the_last_use_is_kept(store: Store) -> None:
    add(store, TOKEN, PLAIN)
    for at in (NOW, LATER):
        with store.begin_async_commit() as tx:
            tx.tokens.see(TOKEN.token_id, at)
    with store.read() as tx:
        assert tx.tokens.find() == [PLAIN, replace(TOKEN, used_at=LATER)]
