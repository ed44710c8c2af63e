"""Secrets in playbooks that run for real: whose they are, which version, and who cannot have
them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from noetl import bootstrap
from noetl.config import Settings
from noetl.errors import BadRequest, ConfigError, Conflict, NotFound
from noetl.facts.callbacks import TaskAddress
from noetl.tools.secrets import sources as secret_sources
from noetl.tools.secrets.vault import FernetVault, generate_key
from noetl.usecases import catalog, credentials, inspect
from noetl.usecases.credentials import audience
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.secrets import Secret
from noetl.usecases.start import StartRequest, start
from noetl.usecases.sweep import sweep
from tests import httpd
from tests.waiting import until

Run = Callable[..., dict[str, Any]]


class Counting:
    """A provider with versions, the next one at each read without a version."""

    keep_s = 0.0
    newest = 0

    def __init__(self, _: Any) -> None:
        self.asked: list[str | None] = []

    def read(self, name: str, version: str | None) -> Secret:
        self.asked.append(version)
        if version is None:
            Counting.newest += 1
            version = str(Counting.newest)
        return Secret({"value": f"{name}-of-version-{version}"}, version)


@pytest.fixture
def server() -> Iterator[httpd.Server]:
    made = httpd.started()
    yield made
    httpd.stopped(made)


def keep(rt: Runtime, settings: Settings, name: str, data: dict[str, Any], **of: str) -> None:
    credentials.save(rt, name, "generic", data, audience(**of))


#: Code that says a secret in a way that no scrub can know: what is tested is which one came.
TELL = "tool: {kind: python, input: {s: '{{ keychain.k.secret }}'}, code: 'result = s[::-1]'}"


def test_the_credential_of_the_nearest_path_is_used(rt: Runtime, settings: Settings) -> None:
    keep(rt, settings, "who", {"secret": "for everybody"})
    keep(rt, settings, "who", {"secret": "for team"}, path="team")
    keep(rt, settings, "who", {"secret": "for team/a"}, path="/team/a/")
    keep(rt, settings, "who", {"secret": "for team/a/b/c"}, path="team/a/b/c")

    assert {path: told(rt, path) for path in ("team/a/b", "team/a", "team/x", "teams/a", "other")} == {
        "team/a/b": "for team/a",
        "team/a": "for team/a",
        "team/x": "for team",
        "teams/a": "for everybody",
        "other": "for everybody",
    }


def told(rt: Runtime, path: str) -> str:
    body = f"keychain: {{k: {{credential: who}}}}\nworkflow: [{{step: start, {TELL}}}]\n"
    return str(finished(rt, path, body)["result"])[::-1]


def finished(rt: Runtime, path: str, body: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
    head = f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: test, path: {path}}}\n"
    row = catalog.register(rt, head + body, "test.yaml")
    execution = start(rt, StartRequest(row.path, row.version, payload or {})).execution_id
    until(lambda: inspect.execution(rt, execution).status in ENDED, "the execution to end")
    return dict(inspect.report(rt, execution).as_json())


def test_which_credential_it_is_may_come_from_the_run(rt: Runtime, settings: Settings) -> None:
    keep(rt, settings, "stage-dev", {"secret": "of dev"})
    keep(rt, settings, "stage-live", {"secret": "of live"})
    body = f"""
workload: {{stage: dev, who: "stage-{{{{ stage }}}}"}}
keychain: [{{name: k, credential: "{{{{ who }}}}"}}]
workflow: [{{step: start, {TELL}}}]
"""

    reports = [finished(rt, "stages", body), finished(rt, "stages", body, {"stage": "live"})]

    assert [str(report["result"])[::-1] for report in reports] == ["of dev", "of live"]
    for report in reports:
        events = [event.fact for event in inspect.events(rt, report["execution_id"])]
        assert "secret': 'of" not in repr(events)


def test_auth_by_the_name_of_an_entry_means_the_entry_as_it_was_rendered(
    rt: Runtime, settings: Settings, server: httpd.Server
) -> None:
    credentials.save(rt, "shop-eu", "bearer", {"token": "t0ken-of-the-eu"})
    server.routes["/who"] = lambda h: h.json({"ok": h.headers.get("authorization", "")[::-1]})
    body = f"""
workload: {{region: eu}}
keychain: [{{name: shop, credential: "shop-{{{{ region }}}}"}}]
workflow: [{{step: start, tool: {{kind: http, url: "{server.url}/who", auth: shop}}}}]
"""

    report = finished(rt, "shops", body)

    assert report["error"] is None
    assert report["result"]["data"]["ok"][::-1] == "Bearer t0ken-of-the-eu"


def test_a_credential_of_another_path_is_reported_and_not_given(rt: Runtime, settings: Settings) -> None:
    keep(rt, settings, "theirs", {"secret": "for them"}, path="them")
    body = "workflow: [{step: start, tool: {kind: http, url: 'http://x', auth: '{{ ''theirs'' }}'}}]\n"

    error = finished(rt, "us/a", body)["error"]

    assert (error["kind"], error["type"], error["retryable"]) == ("auth", "UnknownCredential", False)
    assert "kept for path them, not for playbook 'us/a'" in error["message"]


def test_a_credential_of_an_execution_is_its_own_and_goes_with_it(
    rt: Runtime, settings: Settings, run: Run
) -> None:
    report = run(
        """
        workflow:
          - {step: start, tool: {kind: noop}}
        """
    )
    with pytest.raises(Conflict, match="is completed; nothing will use"):
        keep(rt, settings, "mine", {"a": "b"}, execution=report["execution_id"])
    with pytest.raises(NotFound, match="no execution '12'"):
        keep(rt, settings, "mine", {"a": "b"}, execution="12")
    with pytest.raises(BadRequest, match="not for both"):
        audience("a", "1")
    row = dataclasses.replace(_row(rt, settings), scope="execution", place=report["execution_id"])
    with rt.store.begin() as tx:
        tx.credentials.save(row)

    sweep(rt)

    assert [one for one in credentials.credentials(rt) if one.scope == "execution"] == []
    assert _row(rt, settings).name == "kept"


def _row(rt: Runtime, settings: Settings) -> Any:
    keep(rt, settings, "kept", {"a": "b"})
    return next(one for one in credentials.credentials(rt) if one.name == "kept")


def test_a_secret_that_stands_across_the_end_of_what_is_kept_shows_no_half(
    rt: Runtime, settings: Settings, run: Run
) -> None:
    keep(rt, settings, "long", {"pw": "Q~Q-first-half-é-0123456789-second-half-Q~Q"})
    report = run(
        """
        keychain: {k: {credential: long}}
        workflow:
          - step: start
            tool:
              kind: shell
              env: {PW: "{{ keychain.k.pw }}"}
              # The last byte that is kept is the first half of a character.
              command: head -c $((1048576 - 16)) /dev/zero | tr '\\0' x; printf '%s\\n' "$PW"; echo rest
            next: print
          - step: print
            tool:
              kind: python
              input: {pw: "{{ keychain.k.pw }}"}
              code: |
                import sys
                sys.stdout.write("x" * (65536 - 14) + pw)
                result = 1
        """
    )

    assert report["status"] == "completed", report["error"]
    events = [event.draft for event in inspect.events(rt, report["execution_id"])]
    assert report["steps"]["start"]["result"]["stdout"].endswith("xxx***")
    assert "Q~Q" not in json.dumps(report) + repr(events)


def test_data_that_looks_like_a_reference_gets_no_secret(rt: Runtime, settings: Settings, run: Run) -> None:
    keep(rt, settings, "crown", {"secret": "crown-jewels"})
    forged = {"kind": "secret_ref", "execution": "1", "provider": "store", "name": "crown", "field": "secret"}
    report = run(
        """
        workflow:
          - step: start
            tool: {kind: python, input: {given: "{{ given }}"}, code: "result = given[::-1]"}
        """,
        given={**forged, "seal": "AAAAAAAAAAAAAAAAAAAAAA"},
    )

    assert (report["status"], report["error"]["kind"], report["error"]["type"]) == (
        "failed",
        "auth",
        "UnsealedSecret",
    )
    assert "Data cannot ask for secrets" in report["error"]["message"]
    assert "slewej" not in json.dumps(report)


def test_a_retry_uses_the_version_that_was_used_first(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_sources, "entry_points", lambda: {"counting": _Point()})
    body = """
    keychain: [{name: k, provider: counting, path: key}]
    workflow:
      - step: start
        tool:
          kind: python
          input: {s: "{{ keychain.k.value }}", n: "{{ _attempt }}"}
          code: |
            if n < 3:
                raise ValueError(s[::-1])
            result = s[::-1]
          spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 1.2}}]}}
      """
    first, second = run(body), run(body, within=60.0)

    assert first["result"][::-1] == "key-of-version-1"
    assert second["result"][::-1] == "key-of-version-2"


class _Point:
    """An entry point; the packages of a test are not installed."""

    value = "tests"

    def load(self) -> type[Counting]:
        return Counting


def test_the_secrets_tool_yields_a_reference_to_the_version_that_it_found(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_sources, "entry_points", lambda: {"counting": _Point()})
    Counting.newest = 40
    report = run(
        """
        workflow:
          - {step: start, tool: {kind: secrets, provider: counting, name: key}, next: {spec: {mode: exclusive}, arcs: [{step: use}]}}
          - step: use
            tool: {kind: python, input: {s: "{{ start.value }}", again: "{{ start.data.value }}"}, code: "result = [s[::-1], again == s]"}
        """
    )
    found = report["steps"]["start"]["result"]

    assert (found["kind"], found["provider"], found["name"], found["version"]) == (
        ("secret_ref", "counting", "key", "41")
    )
    assert report["result"][0][::-1] == "key-of-version-41"
    assert report["result"][1] is True


@pytest.mark.parametrize(
    ("tool", "kind", "says"),
    [
        (
            # A name that stands there is asked for before anything runs.
            "{kind: secrets, name: \"{{ 'no' ~ 'such' }}\"}",
            "auth",
            "There is no credential 'nosuch'. Set it with `noetl credential",
        ),
        ("{kind: secrets, provider: '{{ ''vualt'' }}', name: a}", "client_error", "Did you mean 'vault'?"),
        ("{kind: noop, input: {x: '{{ keychain.k.secret == 1 }}'}}", "template", "compares a secret"),
        (
            "{kind: shell, command: 'echo {{ keychain.k }}'}",
            "client_error",
            "keychain.k is no text; name one",
        ),
        ("{kind: shell, command: 'echo {{ keychain.k.secrte }}'}", "auth", "Did you mean 'secret'?"),
        ("{kind: http, url: 'http://x', auth: '{{ keychain.k.secret }}'}", "auth", "There is no credential"),
        ("{kind: http, url: 'http://x', auth: plain}", "auth", "plain text, which is no secret"),
        ("{kind: http, url: 'http://x', auth: '{{ ''k2'' }}'}", "auth", "There is no credential 'k2'"),
    ],
)
def test_what_cannot_be_opened_is_one_clear_error(
    rt: Runtime, settings: Settings, run: Run, tool: str, kind: str, says: str
) -> None:
    keep(rt, settings, "known", {"secret": "s3cret-word"})
    keychain = "[{name: k, credential: known}, {name: plain, kind: static, value: x}]"

    report = run(f"keychain: {keychain}\nworkflow: [{{step: start, tool: {tool}}}]\n")

    assert (report["error"]["kind"], report["error"]["retryable"]) == (kind, False)
    assert says in report["error"]["message"]
    assert "s3cret-word" not in json.dumps(report)


def test_a_token_is_fetched_once_and_again_when_its_time_is_over(
    rt: Runtime, settings: Settings, run: Run, server: httpd.Server
) -> None:
    issued = iter(range(1, 99))
    server.routes["/token"] = lambda h: h.json(
        {"access_token": f"token-number-{next(issued)}", "expires_in": 3600}
    )
    data = {"token_url": f"{server.url}/token", "client_id": "me", "client_secret": "s3cret-client"}
    credentials.save(rt, "idp", "oauth2", data)
    body = """
    keychain:
      - {name: long, kind: oauth2, auth: idp}
      - {name: short, kind: token, auth: {credential: idp, scope: short}, ttl: 1ms}
      - {name: once, kind: token, auth: {credential: idp, scope: once}, ttl: 1ms, auto_renew: false}
    workflow:
      - step: start
        loop: {in: [1, 2], iterator: n}
        tool: {kind: python, input: {a: "{{ keychain.long.token }}", b: "{{ keychain.short.token }}"}, code: "result = [a[::-1], b[::-1]]"}
        next: {spec: {mode: exclusive}, arcs: [{step: once}]}
      - step: once
        loop: {in: [1, 2], iterator: n}
        tool: {kind: shell, command: "echo {{ keychain.once.token }}"}
    """
    report = run(body)

    [(a, b), (c, d)] = report["steps"]["start"]["result"]["results"]
    assert a == c
    assert b != d
    assert report["error"]["message"].endswith("the token has ended, and `auto_renew` is off.")
    assert (report["error"]["kind"], report["error"]["retryable"]) == ("auth", False)
    assert "token-number" not in json.dumps(report)


def test_rotation_encrypts_all_in_one_transaction_and_names_what_no_key_opens(
    rt: Runtime, settings: Settings
) -> None:
    keep(rt, settings, "turned", {"a": "b"})
    old = bootstrap.keys(settings).vault()
    new = FernetVault(f"{generate_key()},{(settings.home / 'secret.key').read_text()}")
    renewing = dataclasses.replace(rt, encrypt=new.encrypt)
    before = {row.key: row.data for row in credentials.credentials(rt)}

    with pytest.raises(ConfigError, match=r"Credential '.*' stays as it is, and so do all others"):
        credentials.rotate(renewing, FernetVault(generate_key()).decrypt)
    assert {row.key: row.data for row in credentials.credentials(rt)} == before
    assert credentials.rotate(renewing, new.decrypt) == len(before)
    after = {row.key: row.data for row in credentials.credentials(rt)}
    assert {key: new.decrypt(data) for key, data in after.items()} == {
        key: old.decrypt(data) for key, data in before.items()
    }
    with pytest.raises(ConfigError):
        old.decrypt(next(iter(after.values())))
    credentials.rotate(rt, new.decrypt)


def test_a_wrong_key_is_one_clear_error_of_the_task(rt: Runtime, run: Run) -> None:
    credentials.save(
        dataclasses.replace(rt, encrypt=FernetVault(generate_key()).encrypt),
        "strange",
        "generic",
        {"token": "x" * 9},
    )

    error = run("workflow: [{step: start, tool: {kind: http, url: 'http://x', auth: strange}}]\n")["error"]

    assert (error["kind"], error["type"], error["retryable"]) == ("auth", "WrongKey", False)
    assert (
        "Credential 'strange' cannot be opened: A credential cannot be decrypted with the keys"
        in error["message"]
    )
    credentials.delete(rt, "strange")


def test_what_was_set_meanwhile_is_not_overwritten_by_a_rotation(rt: Runtime, settings: Settings) -> None:
    row = _row(rt, settings)
    with rt.store.begin() as tx:
        tx.credentials.save(dataclasses.replace(row, data=b"newer", updated_at=row.updated_at + timedelta(1)))
        assert not tx.credentials.reencrypt(row, b"older")
        current = tx.credentials.get("kept")
        assert current is not None
        assert current.data == b"newer"
    credentials.delete(rt, "kept")


def test_a_repeated_request_keeps_its_secrets_as_references_and_sends_them_each_time(
    rt: Runtime, settings: Settings, run: Run, server: httpd.Server
) -> None:
    keep(rt, settings, "who", {"secret": "crown-jewels"})
    server.routes["/page"] = lambda call: call.json({"page": call.headers["x-page"]})

    report = run(
        """
        keychain: {k: {credential: who}}
        workflow:
          - step: start
            tool:
              kind: http
              url: "{{ web }}/page"
              headers: {Authorization: "Bearer {{ keychain.k.secret }}", X-Page: "1"}
              repeat: {next: {headers: {X-Page: "{{ response.data.page }}0"}}, max: 3, collect: {path: page}}
        """,
        web=server.url,
    )

    assert report["status"] == "completed", report["error"]
    assert report["result"]["data"] == ["1", "10", "100"]
    assert [one["headers"]["authorization"] for one in server.seen] == ["Bearer crown-jewels"] * 3
    events = [event.draft for event in inspect.events(rt, report["execution_id"])]
    assert "crown-jewels" not in repr(events)


# --- addresses of tasks ---------------------------------------------------------------------------

ASKS = """
workflow:
  - step: start
    tool:
      - post: {kind: python, input: {u: "{{ callback.answer.url }}", all: "{{ callback.answer }}"}, code: "CODE"}
      - answer: {kind: wait, any: {called: {callback: {}}, late: {timer: 0}}}
"""


def test_the_address_of_a_task_is_that_of_the_server_as_the_outside_reaches_it(
    settings: Settings, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    code = f"open('{seen}', 'w').write(u + ' ' + all['url']); result = u"
    outer = dataclasses.replace(settings, home=tmp_path, public_url="https://noetl.example.com/x")
    with bootstrap.local(outer) as rt:
        report = finished(rt, "asks", ASKS.replace("CODE", code))
        address, whole = seen.read_text().split()
        assert address == whole
        assert address.startswith("https://noetl.example.com/x/api/callbacks/")
        found = rt.read_token(address.rpartition("/")[2])
        assert found == TaskAddress(report["execution_id"], "start#1", None, "answer")
        texts = repr(inspect.events(rt, report["execution_id"]))
        assert address.rpartition("/")[2] not in texts
        assert "'***'" in texts


def test_a_reference_to_an_address_that_nobody_sealed_is_not_opened(rt: Runtime) -> None:
    forged = {
        "kind": "secret_ref",
        "execution": "1",
        "callback": "answer",
        "run": "start#1",
        "iteration": None,
        "seal": "x" * 22,
        "field": "url",
    }
    body = """
workload: {given: null}
workflow: [{step: start, tool: {kind: python, input: {u: "{{ workload.given }}"}, code: "result = u"}}]
"""
    report = finished(rt, "forges", body, {"given": forged})
    assert report["status"] == "failed"
    assert "callback.answer.url is not opened" in report["error"]["message"]
