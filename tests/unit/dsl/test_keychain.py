"""The keychain of a playbook: what it may hold, and that templates name only what is in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from noetl.dsl import Code, Compiled

Compile: TypeAlias = Callable[[str], Compiled]

STEP = "workflow: [{step: start, tool: {kind: noop, input: {x: '{{ keychain.db.x }}'}}}]\n"


@pytest.mark.parametrize(
    ("keychain", "entry"),
    [
        ("[{name: db, kind: credential, credential: c}]", {"kind": "credential", "credential": "c"}),
        ("{db: {credential: c}}", {"kind": "credential", "credential": "c"}),
        ("[{name: db, provider: env}]", {"kind": "secret", "provider": "env", "path": "db"}),
        ("{db: {provider: env, name: X}}", {"kind": "secret", "provider": "env", "path": "X"}),
        (
            "[{name: db, kind: secret, provider: vault, path: kv/a, field: p, version: 3, ttl: 5m}]",
            {"kind": "secret", "provider": "vault", "path": "kv/a", "field": "p", "version": 3, "ttl": 300.0},
        ),
        (
            "[{name: db, kind: oauth2, credential: idp, auto_renew: false}]",
            {"kind": "token", "auth": "idp", "auto_renew": False},
        ),
    ],
)
def test_entries_have_one_form_in_the_net(body: Compile, keychain: str, entry: dict[str, Any]) -> None:
    result = body(f"keychain: {keychain}\n{STEP}")

    assert result.problems == ()
    assert result.net is not None
    assert result.net.keychain == ({**entry, "name": "db"},)


@pytest.mark.parametrize(
    ("keychain", "code", "says"),
    [
        ("[{name: db, kind: credentail, credential: c}]", Code.VALUE, "did you mean 'credential'?"),
        ("[{kind: credential, credential: c}, {name: db, credential: c}]", Code.MISSING, "name"),
        ("[{name: db, kind: credential}]", Code.MISSING, "needs `credential`"),
        ("[{name: db, kind: token}]", Code.MISSING, "needs `auth`"),
        ("[{name: db, kind: secret, path: a}]", Code.MISSING, "needs `provider`"),
        ("[{name: db, credential: c}, {name: db, credential: d}]", Code.DUPLICATE_NAME, "'db'"),
        ("[{name: db, credential: c, tll: 5}]", Code.UNKNOWN_KEY, "`tll`"),
        ("[{name: db, kind: token, auth: a, ttl: soon}]", Code.VALUE, "is not a duration"),
        ("[{name: db, credential: '{{ nowhere }}'}]", Code.UNDEFINED, "'nowhere'"),
        ("[{name: db, credential: '{{ start.name }}'}]", Code.VALUE, "cannot read 'start'"),
        ("[{name: db, credential: '{{ keychain.other.x }}'}]", Code.VALUE, "cannot read 'keychain'"),
        ("[{name: db, credential: 'a{{ ctx.x }}'}]", Code.VALUE, "cannot read 'ctx'"),
        ("[{name: db, credential: '{{ env.X'}]", Code.TEMPLATE, "template"),
        ("[{name: '{{ x }}', credential: c}]", Code.VALUE, "is no template"),
        ("{db: {provider: env, name: '{{ workload.x }}'}}", Code.VALUE, "write path: instead"),
        ("[{name: dbs, credential: c}]", Code.UNKNOWN_KEYCHAIN, "did you mean 'dbs'?"),
    ],
)
def test_what_is_wrong_is_told_with_the_next_move(
    body: Compile, keychain: str, code: Code, says: str
) -> None:
    problems = body(f"keychain: {keychain}\n{STEP}").problems

    [problem] = [one for one in problems if one.code == code]
    assert says in f"{problem.message} {problem.hint}"


@pytest.mark.parametrize(
    "template",
    [
        "{{ workload.stage }}",
        "{{ stage }}",
        "{{ payload.stage }}",
        "{{ env.STAGE }}",
        "{{ execution_id }}",
        "{{ job.uuid }}",
        "{{ now() }}",
        "{{ start }}",
    ],
)
def test_entries_may_hold_templates_over_what_is_known_before_the_first_step(
    body: Compile, template: str
) -> None:
    # `start` is a step as well: before it runs, the name is the workload's.
    result = body(
        f"workload: {{stage: dev, start: x}}\nkeychain: [{{name: db, provider: env, path: 'db/{template}', ttl: '{template}'}}]\n{STEP}"
    )

    assert result.problems == ()
    assert result.net is not None
    assert result.net.keychain[0]["path"] == f"db/{template}"


@pytest.mark.parametrize(
    "entry",
    [
        "{name: db, kind: static, value: s3cret-value}",
        "{name: db, kind: data, data: {password: s3cret-value}}",
        "{name: db, kind: oauth2, auth: {token_url: 'http://x', client_id: i, client_secret: s3cret-value}}",
    ],
)
def test_a_secret_in_plain_text_is_warned_of_and_does_not_get_into_the_net(body: Compile, entry: str) -> None:
    result = body(f"keychain: [{entry}]\n{STEP}")

    assert [one.code for one in result.problems] == [Code.IN_PLAIN_TEXT]
    assert result.errors == ()
    assert "s3cret-value" not in repr((result.net, result.problems))
