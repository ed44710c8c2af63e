"""Entries of the keychain that bring their own values: credentials of one execution, which no event
tells."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from noetl.config import Settings
from noetl.dsl import Code, compile_playbook
from noetl.tools.secrets import sources as secret_sources
from noetl.usecases import credentials, inspect
from noetl.usecases.ports import CredentialRow
from noetl.usecases.runtime import Runtime
from noetl.usecases.secrets import Secret
from noetl.usecases.sweep import sweep
from tests import httpd

Run = Callable[..., dict[str, Any]]

#: What no scrub can know: tells which secret came.
BACKWARDS = "code: 'result = [one[::-1] for one in given]'"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GATE", "g4te-of-env")
        yield Settings(home=tmp_path_factory.mktemp("home"), env_allow=("GATE",))


@pytest.fixture
def server() -> Iterator[httpd.Server]:
    made = httpd.started()
    made.routes["/token"] = lambda h: h.json({"access_token": "t0ken-of-the-shop", "expires_in": 60})
    made.routes["/who"] = lambda h: h.json({"who": h.headers.get("authorization", "")[::-1]})
    yield made
    httpd.stopped(made)


def test_a_bearer_and_a_map_are_read_by_field_by_auth_and_by_name(run: Run, server: httpd.Server) -> None:
    report = run(
        f"""
        workload: {{gate: g4te-of-the-run, id: client-1, key: s3cret-key}}
        keychain:
          - {{name: gate, kind: bearer, token: "{{{{ workload.gate }}}}"}}
          - {{name: pair, kind: static, map: {{id: "{{{{ workload.id }}}}", key: "{{{{ key }}}}", all: "k={{{{ keychain.gate.token }}}}"}}}}
        workflow:
          - step: start
            tool:
              - {{name: one, kind: http, url: "{server.url}/who", auth: "{{{{ keychain.gate }}}}"}}
              - {{name: two, kind: http, url: "{server.url}/who", auth: gate}}
              - name: three
                kind: python
                input: {{given: ["{{{{ keychain.pair.id }}}}", "{{{{ keychain.pair.key }}}}", "{{{{ keychain.pair.all }}}}"]}}
                {BACKWARDS}
              - name: end
                kind: noop
                input: {{one: "{{{{ one.data.who }}}}", two: "{{{{ two.data.who }}}}", three: "{{{{ three }}}}"}}
        """,
        gate="g4te-of-the-payload",
    )

    said = report["result"]
    assert said["one"][::-1] == said["two"][::-1] == "Bearer g4te-of-the-payload"
    assert [text[::-1] for text in said["three"]] == ["client-1", "s3cret-key", "k=g4te-of-the-payload"]


def test_values_are_masked_in_results_and_stand_in_no_event_but_where_they_were_given(
    rt: Runtime, run: Run
) -> None:
    report = run(
        """
        keychain: [{name: gate, kind: bearer, token: "{{ env.GATE }}"}]
        workflow:
          - step: start
            tool: {kind: python, input: {t: "{{ keychain.gate.token }}"}, code: "print(t)\\nresult = {'t': t, 'in': f'a {t} b'}"}
        """
    )

    assert report["result"] == {"t": "***", "in": "a *** b"}
    events = inspect.events(rt, report["execution_id"])
    assert "g4te-of-env" not in json.dumps([repr(event.fact) for event in events])
    evaluated = next(event.fact for event in events if event.fact.type == "playbook.request.evaluated")
    assert evaluated.keychain == {  # type: ignore[attr-defined]
        "gate": {"name": "gate", "kind": "credential", "credential": "keychain.gate"}
    }


def test_they_are_kept_encrypted_for_the_execution_and_go_with_it(
    rt: Runtime, run: Run, server: httpd.Server
) -> None:
    seen: list[CredentialRow] = []

    def look(handler: httpd.Handler) -> None:
        seen.extend(row for row in credentials.credentials(rt) if row.scope == "execution")
        handler.json({})

    server.routes["/look"] = look
    sweep(rt)
    report = run(
        f"""
        keychain: [{{name: gate, kind: bearer, token: "{{{{ env.GATE }}}}"}}]
        workflow: [{{step: start, tool: {{kind: http, url: "{server.url}/look"}}}}]
        """
    )
    sweep(rt)

    [row] = seen
    assert (row.name, row.type, row.place) == ("keychain.gate", "bearer", report["execution_id"])
    assert b"g4te" not in row.data
    assert [one for one in credentials.credentials(rt) if one.scope == "execution"] == []


def test_a_token_is_asked_for_as_the_entry_says_and_of_other_entries(run: Run, server: httpd.Server) -> None:
    report = run(
        f"""
        workload: {{key: s3cret-of-the-client}}
        keychain:
          pair: {{kind: static, map: {{id: me, key: "{{{{ workload.key }}}}"}}}}
          shop:
            kind: oauth2
            scope: global
            endpoint: "{server.url}/token"
            method: POST
            headers: {{Accept: application/json, X-Tenant: t1, Content-Type: application/json}}
            data:
              grant_type: client_credentials
              client_id: "{{{{ keychain.pair.id }}}}"
              client_secret: "{{{{ keychain.pair.key }}}}"
              scope: read
              tenant: 7
        workflow:
          - {{step: start, tool: {{kind: http, url: "{server.url}/who", auth: "{{{{ keychain.shop }}}}"}}, next: by_name}}
          - {{step: by_name, tool: {{kind: http, url: "{server.url}/who", auth: shop}}}}
        """
    )

    assert report["result"]["data"]["who"][::-1] == "Bearer t0ken-of-the-shop"
    asked, *used = server.seen
    assert [one["path"] for one in used] == ["/who", "/who"]
    assert (asked["method"], asked["headers"]["x-tenant"], asked["headers"]["accept"]) == (
        "POST",
        "t1",
        "application/json",
    )
    assert asked["headers"]["content-type"] == "application/x-www-form-urlencoded"
    assert parse_qs(asked["body"].decode()) == {
        "grant_type": ["client_credentials"],
        "client_id": ["me"],
        "client_secret": ["s3cret-of-the-client"],
        "scope": ["read"],
        "tenant": ["7"],
    }


def test_a_service_that_nobody_asks_for_a_token_may_be_away(run: Run) -> None:
    report = run(
        """
        workload: {nobody: "http://127.0.0.1:9/token"}
        keychain:
          - {name: away, kind: token, endpoint: "{{ workload.nobody }}", data: {client_id: i, client_secret: "{{ env.GATE }}"}}
          - {name: nothing, kind: bearer, token: "{{ payload.nothing | default('') }}"}
        workflow: [{step: start, tool: {kind: noop, input: {there: "{{ keychain.away is defined }}"}}}]
        """
    )

    assert (report["status"], report["result"]) == ("completed", {"there": True})


@pytest.mark.parametrize(
    ("value", "tool", "says"),
    [
        ("''", "input: {given: ['{{ keychain.gate.token }}']}", "keychain.gate.token is empty"),
        (
            "'{{ payload.none }}'",
            "input: {given: ['{{ keychain.gate.token }}']}",
            "keychain.gate.token is empty",
        ),
        (
            "'{{ workload.other }}'",
            "input: {given: ['{{ keychain.gate.token }}']}",
            "in a circle: keychain.gate.token → keychain.gate.token",
        ),
        ("x", "input: {given: ['{{ keychain.gate.tokne }}']}", "has no field 'tokne'. Did you mean 'token'?"),
    ],
)
def test_what_cannot_be_opened_is_one_clear_error(run: Run, value: str, tool: str, says: str) -> None:
    report = run(
        f"""
        workload: {{other: "{{{{ keychain['ga' ~ 'te'].token }}}}"}}
        keychain: [{{name: gate, kind: bearer, token: {value}}}]
        workflow: [{{step: start, tool: {{kind: python, {tool}, {BACKWARDS}}}}}]
        """
    )

    assert (report["error"]["kind"], report["error"]["retryable"]) == ("auth", False)
    assert says in report["error"]["message"]


def test_a_token_without_its_parts_is_an_error_that_names_the_entry(run: Run, server: httpd.Server) -> None:
    report = run(
        f"""
        keychain:
          - {{name: shop, kind: oauth2, endpoint: "{server.url}/token", data: {{client_id: "{{{{ payload.id }}}}", client_secret: "{{{{ env.GATE }}}}"}}}}
        workflow: [{{step: start, tool: {{kind: http, url: "{server.url}/who", auth: shop}}}}]
        """
    )

    assert "keychain.shop cannot get a token; type 'oauth2' needs `client_id`" in report["error"]["message"]
    assert server.seen == []


class Shelf:
    """A provider that tells what it was asked for, and with which credential."""

    keep_s = 60.0
    asked: list[tuple[str, str]] = []  # noqa: RUF012 - one list for all that are made

    def __init__(self, _: Any, who: str = "") -> None:
        self._who = who

    def asking_with(self, credential: Any) -> Shelf:
        return Shelf(None, credential["token"])

    def read(self, name: str, version: str | None) -> Secret:
        Shelf.asked.append((name, self._who))
        return Secret(f"the-{name}-for-{self._who or 'anybody'}")


class _Point:
    """An entry point; the packages of a test are not installed."""

    value = "tests"

    def load(self) -> type[Shelf]:
        return Shelf


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> type[Shelf]:
    monkeypatch.setattr(secret_sources, "entry_points", lambda: {"shelf": _Point()})
    Shelf.asked = []
    return Shelf


def test_of_several_secrets_only_those_are_asked_for_that_are_used(run: Run, shelf: type[Shelf]) -> None:
    report = run(
        f"""
        keychain:
          - {{name: pair, kind: secrets, provider: shelf, map: {{id: kv/id, key: {{path: kv/key}}, not: kv/not}}}}
        workflow:
          - step: start
            tool: {{kind: python, input: {{given: ["{{{{ keychain.pair.id }}}}", "{{{{ keychain.pair.key }}}}"]}}, {BACKWARDS}}}
        """
    )

    assert report["error"] is None
    assert [text[::-1] for text in report["result"]] == ["the-kv/id-for-anybody", "the-kv/key-for-anybody"]
    assert shelf.asked == [("kv/id", ""), ("kv/key", "")]


def test_the_provider_is_asked_with_the_credential_that_the_entry_names(
    rt: Runtime, settings: Settings, run: Run, shelf: type[Shelf]
) -> None:
    credentials.save(rt, "reader", "bearer", {"token": "r3ader"})
    body = f"""
        keychain:
          - {{name: pair, kind: secrets, provider: shelf, auth: reader, map: {{id: kv/id}}}}
        workflow: [{{step: start, tool: {{kind: python, input: {{given: ["{{{{ keychain.pair.id }}}}"]}}, {BACKWARDS}}}}}]
        """

    report = run(body)

    assert report["result"][0][::-1] == "the-kv/id-for-r3ader"
    # Anybody's are not theirs.
    assert run(body.replace("auth: reader, ", ""))["result"][0][::-1] == "the-kv/id-for-anybody"


@pytest.mark.parametrize("kind", ["secret", "secrets"])
def test_a_provider_that_there_is_not_is_one_error_however_often_it_is_used(rt: Runtime, kind: str) -> None:
    text = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: p, path: p}}
keychain: [{{name: pair, kind: {kind}, provider: vualt, map: {{id: kv/id, key: kv/key}}}}]
workflow:
- {{step: start, tool: {{kind: noop, input: {{a: "{{{{ keychain.pair.id }}}}", b: "{{{{ keychain.pair.key }}}}"}}}}}}
"""

    [problem] = compile_playbook(text, file="p.yaml", kinds=rt.kinds).problems

    assert (problem.code, problem.severity) == (Code.VALUE, "error")
    assert problem.message == "There is no provider of secrets 'vualt'. Did you mean 'vault'?"
