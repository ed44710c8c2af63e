"""Entries of the keychain that are templates: rendered once, and never from a secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from nets import plan, step

from noetl.engine.inputs import Inputs
from noetl.facts import events as e
from noetl.testing import START, given

REFERENCE = {"kind": "result_ref", "ref": "noetl://blob/1", "meta": {}}
SECRET = {"kind": "secret_ref", "execution": "1", "keychain": "db", "seal": "s"}


def kept(_: Mapping[str, Any], /) -> Any:
    return "from-the-store"


def evaluated(
    entry: dict[str, Any],
    workload: dict[str, Any] | None = None,
    load: Callable[..., Any] | None = None,
    **payload: Any,
) -> e.Evaluated:
    on = plan(step("start"), workload=workload or {}, keychain=({"name": "db", **entry}, {"name": "b"}))
    inputs = Inputs(now=START, env={"STAGE": "prod"}, keychain={"db": SECRET}, load=load)
    requested = e.Requested("tests/test", 1, "digest", payload=payload)
    fact = given(on, requested, inputs=inputs).when().facts[0]
    assert isinstance(fact, e.Evaluated)
    return fact


@pytest.mark.parametrize(
    ("template", "becomes"),
    [
        ("{{ workload.auth }}", "pg_dev"),
        ("{{ auth }}", "pg_dev"),
        ("{{ payload.auth | default('none') }}", "none"),
        ("pg_{{ env.STAGE }}", "pg_prod"),
        ("{{ 'pg_' ~ execution_id }}", "pg_1"),
        ("{{ job.uuid }}", "1"),
        ("{{ now() }}", START.isoformat()),
    ],
)
def test_a_template_sees_what_is_known_at_the_start(template: str, becomes: str) -> None:
    fact = evaluated({"kind": "credential", "credential": template}, {"auth": "{{ 'pg_dev' }}"})
    assert fact.keychain == {"db": {"name": "db", "kind": "credential", "credential": becomes}}


def test_what_was_given_wins_over_the_playbook() -> None:
    fact = evaluated({"kind": "credential", "credential": "{{ auth }}"}, {"auth": "a"}, auth="given")
    assert fact.keychain["db"]["credential"] == "given"


def test_a_name_that_is_kept_by_reference_is_opened() -> None:
    fact = evaluated({"kind": "secret", "provider": "env", "path": "{{ auth }}"}, load=kept, auth=REFERENCE)
    assert fact.keychain["db"]["path"] == "from-the-store"


def test_entries_without_templates_are_not_recorded_again() -> None:
    assert evaluated({"kind": "credential", "credential": "c"}).keychain == {}


def test_all_of_an_entry_may_be_a_template() -> None:
    entry = {"kind": "token", "auth": {"credential": "{{ a }}", "scope": "s {{ a }}"}, "ttl": "{{ t }}"}
    fact = evaluated(entry, {"a": "idp", "t": "10m"})
    assert fact.keychain["db"] == {
        "name": "db",
        "kind": "token",
        "auth": {"credential": "idp", "scope": "s idp"},
        "ttl": 600.0,
    }


@pytest.mark.parametrize(
    ("entry", "names", "brought"),
    [
        (
            {"kind": "credential", "data": {"type": "bearer", "token": "t {{ payload.t }}"}},
            {"kind": "credential", "credential": "keychain.db"},
            {"type": "bearer", "token": "t given"},
        ),
        (
            {
                "kind": "token",
                "ttl": "{{ '1m' }}",
                "data": {"client_id": "{{ keychain.db.id }}", "x": "{{ none }}"},
            },
            {"kind": "token", "ttl": 60.0, "auth": "keychain.db"},
            {"client_id": {**SECRET, "field": "id"}, "x": None},
        ),
    ],
)
def test_what_an_entry_brings_is_handed_over_and_in_no_event(
    entry: dict[str, Any], names: dict[str, Any], brought: dict[str, Any]
) -> None:
    kept: dict[str, Any] = {}
    on = plan(step("start"), keychain=({"name": "db", **entry},))
    inputs = Inputs(now=START, keychain={"db": SECRET}, keep=kept.__setitem__)
    requested = e.Requested("tests/test", 1, "digest", payload={"t": "given"})

    fact = given(on, requested, inputs=inputs).when().facts[0]

    assert isinstance(fact, e.Evaluated)
    assert fact.keychain == {"db": {"name": "db", **names}}
    assert kept == {"keychain.db": brought}


@pytest.mark.parametrize(
    ("entry", "kind", "says"),
    [
        (
            {"kind": "credential", "credential": "{{ nowhere }}"},
            "client_error",
            "`credential` comes out as null",
        ),
        ({"kind": "credential", "credential": "{{ '' }}"}, "client_error", '`credential` comes out as ""'),
        (
            {"kind": "secret", "provider": "env", "path": "{{ [1] }}"},
            "client_error",
            "`path` comes out as [1]",
        ),
        ({"kind": "credential", "credential": "{{ 1 / 0 }}"}, "template", "keychain.db: "),
        (
            {"kind": "token", "auth": "a", "ttl": "{{ 'soon' }}"},
            "client_error",
            "`ttl`: 'soon' is not a duration",
        ),
        (
            {"kind": "credential", "credential": "{{ workload.s }}"},
            "client_error",
            "`credential` is a secret",
        ),
    ],
)
def test_an_entry_that_cannot_be_one_ends_the_execution_before_its_first_step(
    entry: dict[str, Any], kind: str, says: str
) -> None:
    fact = evaluated(entry, {"s": "{{ keychain.db }}"})
    assert not fact.accepted
    assert fact.error is not None
    assert fact.error.kind == kind
    assert says in fact.error.message
    assert "keychain.db" in fact.error.message
