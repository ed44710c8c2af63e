"""The keychain of a playbook: what it may hold, and that templates name only what is in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from noetl.dsl import Code, Compiled

Compile: TypeAlias = Callable[[str], Compiled]

STEP = "workflow: [{step: start, tool: {kind: noop, input: {x: '{{ keychain.db.x }}'}}}]\n"
CLIENT = "endpoint: 'http://x', data: {client_id: a, client_secret: '{{ env.S }}'}"


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
        (
            "[{name: db, kind: bearer, token: '{{ env.T }}'}]",
            {"kind": "credential", "data": {"type": "bearer", "token": "{{ env.T }}"}},
        ),
        (
            "[{name: db, kind: static, scope: global, map: {x: '{{ env.X }}', y: ''}}]",
            {"kind": "credential", "data": {"x": "{{ env.X }}", "y": ""}},
        ),
        (
            "[{name: db, kind: oauth2, endpoint: 'http://id', method: post, headers: {a: b}, ttl: 1m, "
            "data: {grant_type: client_credentials, client_id: '{{ workload.i }}', client_secret: '{{ "
            "workload.s }}', scope: a, tenant: 7}}]",
            {
                "kind": "token",
                "ttl": 60.0,
                "data": {
                    "type": "oauth2",
                    "token_url": "http://id",
                    "client_id": "{{ workload.i }}",
                    "client_secret": "{{ workload.s }}",
                    "scope": "a",
                    "client_auth": "body",
                    "params": {"tenant": 7},
                    "headers": {"a": "b"},
                },
            },
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
        ("[{name: db, kind: bearer}]", Code.MISSING, "needs `token`"),
        ("[{name: db, kind: bearer, token: '{{ start.x }}'}]", Code.VALUE, "cannot read 'start'"),
        (
            "[{name: db, kind: bearer, token: '{{ keychain.dbb.x }}'}]",
            Code.UNKNOWN_KEYCHAIN,
            "did you mean 'db'?",
        ),
        ("[{name: db, kind: bearer, token: '{{ keychain.db.token }}'}]", Code.VALUE, "in a circle: db → db"),
        (
            "{db: {kind: static, map: {x: '{{ keychain.b.token }}'}}, b: {kind: bearer, token: '{{ "
            "keychain.db.x }}'}}",
            Code.VALUE,
            "in a circle: db → b → db",
        ),
        ("[{name: db, kind: vault, map: {x: 1}}]", Code.VALUE, "the keychain has no kind 'vault'"),
        ("[{name: db, kind: static, map: [1]}]", Code.VALUE, "`map` of a keychain entry is a mapping"),
        ("[{name: db, kind: token, endpoint: 'http://x'}]", Code.MISSING, "needs `data`"),
        (
            "[{name: db, kind: token, endpoint: 'http://x', data: {client_id: a}}]",
            Code.MISSING,
            "'db' needs `data.client_secret`",
        ),
        (
            f"[{{name: db, kind: token, method: GET, {CLIENT}}}]",
            Code.VALUE,
            "`method` of a token can only be POST",
        ),
        (
            f"[{{name: db, kind: token, {CLIENT[:-1]}, grant_type: password}}}}]",
            Code.VALUE,
            "only be client_credentials",
        ),
        ("[{name: db, kind: secrets, provider: env}]", Code.MISSING, "needs `map`"),
        (
            "[{name: db, kind: secrets, provider: env, map: {x: {pth: X}}}]",
            Code.UNKNOWN_KEY,
            "did you mean 'path'?",
        ),
    ],
)
def test_what_is_wrong_is_reported_with_the_next_move(
    body: Compile, keychain: str, code: Code, says: str
) -> None:
    problems = body(f"keychain: {keychain}\n{STEP}").problems

    [problem] = [one for one in problems if one.code == code]
    assert says in f"{problem.message} {problem.hint}"


def test_a_map_of_secrets_is_one_for_each_field(body: Compile) -> None:
    result = body(
        f"keychain: [{{name: db, kind: secrets, provider: vault, auth: r, ttl: 5m, map: {{x: kv/x, y: "
        f"{{path: kv/y, field: f}}}}}}]\n{STEP}"
    )

    assert result.problems == ()
    assert result.net is not None
    shared = {"kind": "secret", "provider": "vault", "auth": "r", "ttl": 300.0}
    assert result.net.keychain == (
        {**shared, "name": "db.x", "path": "kv/x"},
        {**shared, "name": "db.y", "path": "kv/y", "field": "f"},
        {
            "name": "db",
            "kind": "credential",
            "data": {"x": "{{ keychain['db.x'] }}", "y": "{{ keychain['db.y'] }}"},
        },
    )


def test_an_entry_that_is_at_fault_is_reported_once_and_not_at_each_use(body: Compile) -> None:
    problems = body(f"keychain: [{{name: db, kind: sekret, provider: evn}}]\n{STEP}").problems

    assert [one.code for one in problems] == [Code.VALUE]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (
            "{name: db, kind: bearer, token: '{{ workload.s }}'}",
            "the secret 'db' is plain text in the workload",
        ),
        (
            "{name: db, kind: bearer, token: '{{ payload.s }}'}",
            "the secret 'db' is plain text in the payload",
        ),
        (
            "{name: db, kind: static, map: {a: '{{ s }}', b: '{{ s }}'}}",
            "the secret 'db' is plain text in the workload",
        ),
        ("{name: db, kind: bearer, token: s3cret-value}", "the secret 'db' is plain text in the playbook"),
        ("{name: db, kind: data, map: {x: s3cret-value}}", "the secret 'db' is plain text in the playbook"),
        (
            "{name: db, kind: oauth2, endpoint: 'http://x', data: {client_id: i, client_secret: "
            "s3cret-value}}",
            "the secret 'db' is plain text in the playbook",
        ),
    ],
)
def test_what_an_entry_brings_in_plain_text_is_used_and_warned_of_and_not_shown(
    body: Compile, entry: str, says: str
) -> None:
    result = body(f"workload: {{s: x}}\nkeychain: [{entry}]\n{STEP}")

    assert [(one.code, one.message) for one in result.problems] == [(Code.IN_PLAIN_TEXT, says)]
    assert result.net is not None
    assert "data" in result.net.keychain[0]
    assert "s3cret-value" not in repr(result.problems) + (result.shown or "")


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
        f"workload: {{stage: dev, start: x}}\nkeychain: [{{name: db, provider: env, path: "
        f"'db/{template}', ttl: '{template}'}}]\n{STEP}"
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
