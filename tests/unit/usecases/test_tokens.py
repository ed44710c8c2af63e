"""Tokens: made once, recognized while they are good, and told to nobody."""

from __future__ import annotations

import hashlib
from datetime import timedelta

import pytest

from noetl.errors import BadRequest, ConfigError, NotFound, Unauthenticated
from noetl.facts.callers import Caller
from noetl.testing import Simulation
from noetl.usecases import audit, tokens
from noetl.usecases.access import Grant
from noetl.usecases.ports import AuditFilter

BODY = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: x, path: x}
workflow: [{step: start}]
"""
ROOT = Caller("root", "r-1")


@pytest.fixture
def sim() -> Simulation:
    return Simulation(BODY)


def test_a_token_says_who_asks_and_what_that_one_may(sim: Simulation) -> None:
    rt = sim.rt.acting_for(ROOT)
    made = tokens.create(rt, "ci", ["run:etl/*", "read"], groups=["a", "b", "a"], rate=" 3/s ")
    found = tokens.recognize(sim.rt, made.text)
    assert (found.name, found.groups, found.rate, found.token_id) == (
        "ci",
        ("a", "b"),
        "3/s",
        made.row.token_id,
    )
    assert found.grants == (Grant("run", "etl/*"), Grant("read"))
    assert made.row.created_by == "root"
    assert made.row.expires_at == sim.rt.clock() + timedelta(days=90)


def test_only_a_hash_of_the_secret_is_kept(sim: Simulation) -> None:
    made = tokens.create(sim.rt, "ci", ["read"])
    secret = made.text.removeprefix(f"noetl_{made.row.token_id}_")
    (row,) = tokens.tokens(sim.rt)
    assert secret not in repr(row)
    assert row.secret_sha256 == hashlib.sha256(secret.encode()).hexdigest()
    assert len(secret) >= 43
    assert tokens.create(sim.rt, "ci", ["read"]).text != made.text


def test_nothing_but_the_whole_text_is_recognized(sim: Simulation) -> None:
    text = tokens.create(sim.rt, "ci", ["read"]).text
    token_id, secret = text.split("_", 2)[1:]
    bad = [
        "",
        "noetl_",
        text[:-1],
        text + "x",
        text.upper(),
        f"noetl_{token_id}_",
        f"noetl_{token_id}",
        f"noetl_x_{secret}",
        f"{token_id}_{secret}",
        f" {text}",
        f"noetl_{token_id}\0_{secret}",
        "noetl_\ud800_x",
    ]
    for one in bad:
        with pytest.raises(Unauthenticated, match="not known") as refused:
            tokens.recognize(sim.rt, one)
        assert secret not in refused.value.message


def test_a_token_ends(sim: Simulation) -> None:
    short = tokens.create(sim.rt, "ci", ["read"], lifetime=timedelta(minutes=1))
    ever = tokens.create(sim.rt, "ci", ["read"], lifetime=None)
    sim.pass_time(60)
    with pytest.raises(Unauthenticated, match="expired at"):
        tokens.recognize(sim.rt, short.text)
    sim.pass_time(1e8)
    assert tokens.recognize(sim.rt, ever.text).name == "ci"


def test_a_token_is_revoked_by_its_id_or_by_its_text(sim: Simulation) -> None:
    rt = sim.rt.acting_for(ROOT)
    first, second = (tokens.create(rt, "ci", ["read"]) for _ in range(2))
    tokens.revoke(rt, first.row.token_id)
    again = tokens.revoke(rt, first.text)
    tokens.revoke(rt, second.text)
    assert again.revoked_at is not None
    for made in (first, second):
        with pytest.raises(Unauthenticated, match="revoked"):
            tokens.recognize(rt, made.text)
    told = audit.entries(rt, AuditFilter(action="token"))
    assert [(one.action, one.subject) for one in told] == [
        ("token.revoked", second.row.token_id),
        ("token.revoked", first.row.token_id),
        ("token.created", second.row.token_id),
        ("token.created", first.row.token_id),
    ]
    assert "secret" not in repr(told)
    with pytest.raises(NotFound, match="Did you mean"):
        tokens.revoke(rt, first.row.token_id[:-1])


def test_the_last_use_is_known_to_the_minute(sim: Simulation) -> None:
    made = tokens.create(sim.rt, "ci", ["read"])

    def used() -> object:
        tokens.recognize(sim.rt, made.text)
        return tokens.tokens(sim.rt)[0].used_at

    first = used()
    assert first == sim.rt.clock()
    sim.pass_time(59)
    assert used() == first
    sim.pass_time(1)
    assert used() == sim.rt.clock()


def test_the_first_token_is_made_once(sim: Simulation) -> None:
    kept: list[str] = []
    assert tokens.create_first(sim.rt, kept.append)
    assert not tokens.create_first(sim.rt, kept.append)
    (text,) = kept
    assert tokens.is_first(text)
    assert tokens.recognize(sim.rt, text).may("admin")
    assert tokens.tokens(sim.rt)[0].expires_at is None


def test_a_first_token_that_cannot_be_kept_is_not_made(sim: Simulation) -> None:
    def refuse(_: str) -> None:
        raise ConfigError("no room")

    with pytest.raises(ConfigError):
        tokens.create_first(sim.rt, refuse)
    assert tokens.tokens(sim.rt) == []


def test_the_first_token_of_another_database_is_good_here_too(sim: Simulation) -> None:
    kept: list[str] = []
    tokens.create_first(sim.rt, kept.append)
    there = Simulation(BODY)
    assert tokens.create_first(there.rt, pytest.fail, kept[0])
    assert tokens.recognize(there.rt, kept[0]).may("admin")


def test_a_revoked_first_token_is_not_made_again(sim: Simulation) -> None:
    tokens.create_first(sim.rt, lambda _: None)
    tokens.revoke(sim.rt, "admin")
    assert not tokens.create_first(sim.rt, pytest.fail)


@pytest.mark.parametrize("lifetime", [timedelta(0), timedelta(days=-1), timedelta(days=10_000)])
def test_no_token_is_good_for_nothing_or_for_too_long(sim: Simulation, lifetime: timedelta) -> None:
    with pytest.raises(BadRequest, match="good for up to"):
        tokens.create(sim.rt, "ci", ["read"], lifetime=lifetime)
    assert tokens.tokens(sim.rt) == []
