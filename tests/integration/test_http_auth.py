"""Credentials of the http tool against real servers: tokens, their ends and races, and that no
secret is seen again."""

from __future__ import annotations

import base64
import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, quote

import pytest

from noetl import bootstrap
from noetl.config import Settings
from noetl.errors import BadRequest, ToolError
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Where
from noetl.tools.http.request import HttpConfig
from noetl.tools.http.tool import Http
from noetl.tools.kit.base import Services
from noetl.tools.kit.call_secrets import open_secrets
from noetl.tools.kit.http.auth import OAuthClient, TokenRoute
from noetl.tools.kit.http.messages import RequestLimits
from noetl.tools.kit.http.tokens import AccessTokens
from noetl.tools.kit.http.transport import HttpClient
from noetl.usecases import credentials
from noetl.usecases.runtime import Runtime
from tests.httpd import Handler, Server, started, stopped
from tests.waiting import until

SECRET = "canary/S3cret+value=="


class Issuer:
    """A service behind OAuth: `/token` issues tokens, `/api` takes those that are good."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.issued = 0
        self.good: set[str] = set()
        self.lasts: Any = 3600
        #: Closed, it lets requests for tokens wait.
        self.open = threading.Event()
        self.open.set()
        self._lock = threading.Lock()
        server.routes["/token"] = self._issue
        server.routes["/api"] = self._serve

    def _issue(self, handler: Handler) -> None:
        self.open.wait()
        with self._lock:
            self.issued += 1
            token = f"canary-token-{self.issued}"
            self.good = {token}
        handler.json({"access_token": token, "token_type": "Bearer", "expires_in": self.lasts})

    def _serve(self, handler: Handler) -> None:
        token = handler.headers.get("authorization", "").removeprefix("Bearer ")
        handler.json({"ok": token in self.good}, 200 if token in self.good else 401)

    @property
    def asked(self) -> list[dict[str, Any]]:
        return [one for one in self.server.seen if one["path"] == "/token"]

    @property
    def served(self) -> list[dict[str, Any]]:
        return [one for one in self.server.seen if one["path"].startswith("/api")]

    def credential(self, **more: Any) -> dict[str, Any]:
        return {
            "type": "oauth2",
            "token_url": self.server.url + "/token",
            "client_id": "the client",
            "client_secret": SECRET,
            **more,
        }


@pytest.fixture
def server() -> Iterator[Server]:
    server = started()
    yield server
    stopped(server)


@pytest.fixture
def issuer(server: Server) -> Iterator[Issuer]:
    issuer = Issuer(server)
    yield issuer
    issuer.open.set()


@pytest.fixture
def tool() -> Iterator[Http]:
    tool = Http(Services(allow_private_networks=True, result_limit=1_000_000))
    yield tool
    tool.close()


def call(tool: Http, url: str, **config: Any) -> Outcome:
    """What the registry makes of a call: the tool hides its secrets, and the registry takes them
    out."""
    order = Call("http", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, "idem-1")
    with open_secrets(order, None) as secrets:
        try:
            came = tool.run(order, HttpConfig.model_validate({"url": url, **config}))
        except ToolError as error:
            error.message = secrets.black.text(error.message)
            error.args, error.extras = (error.message,), secrets.black.value(error.extras)
            raise
    return secrets.black.outcome(came)


def refused(tool: Http, url: str, **config: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        call(tool, url, **config)
    return caught.value


def at_once(count: int, work: Callable[[], object]) -> list[object]:
    """What `count` threads got, each its result or its error."""
    results: list[object] = []

    def one() -> None:
        try:
            results.append(work())
        except ToolError as error:
            results.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


# --- tokens --------------------------------------------------------------------------------------


def test_a_token_is_fetched_once_and_used_by_every_call(issuer: Issuer, tool: Http) -> None:
    auth = issuer.credential(scope=["read", "write"], audience="them", params={"tenant": "t1"})

    for _ in range(3):
        assert call(tool, issuer.server.url + "/api", auth=auth).result["data"] == {"ok": True}

    assert len(issuer.asked) == 1
    form = {name: value for name, [value] in parse_qs(issuer.asked[0]["body"].decode()).items()}
    assert form == {
        "grant_type": "client_credentials",
        "scope": "read write",
        "audience": "them",
        "tenant": "t1",
    }
    pair = f"{quote('the client')}:{quote(SECRET, safe='')}".encode()
    assert issuer.asked[0]["headers"]["authorization"] == "Basic " + base64.b64encode(pair).decode()


def test_a_client_may_name_itself_in_the_form(issuer: Issuer, tool: Http) -> None:
    call(tool, issuer.server.url + "/api", auth=issuer.credential(client_auth="body"))

    form = parse_qs(issuer.asked[0]["body"].decode())
    assert (form["client_id"], form["client_secret"]) == (["the client"], [SECRET])
    assert "authorization" not in issuer.asked[0]["headers"]


@pytest.mark.parametrize(
    ("lasts", "still", "gone"),
    [
        (3600, 3569.0, 3571.0),
        (10, 7.9, 8.1),
        ("60", 47.9, 48.1),
        (None, 269.0, 271.0),
        ("soon", 269.0, 271.0),
    ],
)
def test_a_token_is_kept_until_shortly_before_its_end(
    issuer: Issuer, lasts: Any, still: float, gone: float
) -> None:
    issuer.lasts = lasts
    now = [1000.0]
    client = HttpClient(allow_private=True)
    tokens = AccessTokens(client, clock=lambda: now[0])
    who = OAuthClient("c", issuer.server.url + "/token", "id", SECRET)

    def token() -> str:
        return tokens.token(who, TokenRoute(), lambda: RequestLimits(1, 1, 1, 10_000))

    assert token() == "canary-token-1"
    now[0] = 1000.0 + still
    assert token() == "canary-token-1"
    now[0] = 1000.0 + gone
    assert token() == "canary-token-2"
    client.close()


def test_a_refused_token_is_replaced_once_and_the_request_sent_again(issuer: Issuer, tool: Http) -> None:
    auth, url = issuer.credential(), issuer.server.url + "/api"
    call(tool, url, auth=auth)
    issuer.good.clear()

    assert call(tool, url, auth=auth, method="POST", json={"a": 1}).ok

    assert len(issuer.asked) == 2
    first, second = issuer.served[1:]
    assert first["headers"]["authorization"] != second["headers"]["authorization"]
    assert first["body"] == second["body"] == b'{"a": 1}'
    assert first["headers"]["idempotency-key"] == second["headers"]["idempotency-key"] == "idem-1"


def test_a_service_that_refuses_every_token_is_asked_twice(issuer: Issuer, tool: Http) -> None:
    issuer.server.routes["/api"] = lambda h: h.json({}, 401)

    error = refused(tool, issuer.server.url + "/api", auth=issuer.credential())

    assert (error.kind, error.retryable, error.type) == ("auth", False, "Http401")
    assert (len(issuer.asked), len(issuer.served)) == (2, 2)


def test_a_401_without_a_token_is_not_repeated(issuer: Issuer, tool: Http) -> None:
    refused(tool, issuer.server.url + "/api", auth={"type": "bearer", "token": "wrong-token"})

    assert len(issuer.served) == 1


def test_threads_that_need_a_token_at_once_fetch_one(issuer: Issuer, tool: Http) -> None:
    issuer.slow = 0.05
    outcomes = at_once(12, lambda: call(tool, issuer.server.url + "/api", auth=issuer.credential()))

    assert [type(one) for one in outcomes] == [Outcome] * 12
    assert len(issuer.asked) == 1


def test_threads_whose_token_ended_at_once_fetch_one(issuer: Issuer, tool: Http) -> None:
    auth, url = issuer.credential(), issuer.server.url + "/api"
    call(tool, url, auth=auth)
    issuer.good.clear()
    issuer.slow = 0.05

    outcomes = at_once(12, lambda: call(tool, url, auth=auth))

    assert [type(one) for one in outcomes] == [Outcome] * 12
    assert len(issuer.asked) == 2


def test_a_changed_secret_is_another_client(issuer: Issuer, tool: Http) -> None:
    issuer.server.routes["/api"] = lambda h: h.json({})
    for secret in ("one-secret", "two-secret", "one-secret"):
        call(tool, issuer.server.url + "/api", auth=issuer.credential(client_secret=secret))

    assert len(issuer.asked) == 2


@pytest.mark.parametrize(
    ("status", "said", "kind", "retryable", "words"),
    [
        (401, "invalid_client", "auth", False, "(401, invalid_client); check `client_id`"),
        (400, "invalid_scope", "auth", False, "(400, invalid_scope)"),
        (400, SECRET, "auth", False, "gave no token (400)"),
        (429, None, "rate_limit", True, "ask less often"),
        (503, None, "server_error", True, "try again later"),
        (302, None, "auth", False, "give the address that it redirects to"),
    ],
)
def test_a_client_that_gets_no_token_learns_why_without_its_secret(
    issuer: Issuer, tool: Http, status: int, said: str | None, kind: str, retryable: bool, words: str
) -> None:
    issuer.server.routes["/token"] = lambda h: h.json(
        {"error": said, "error_description": f"no {SECRET}"}, status, Retry_After="7", location="/other"
    )

    error = refused(tool, issuer.server.url + "/api", auth=issuer.credential())

    assert (error.kind, error.retryable, error.extras["status"]) == (kind, retryable, status)
    assert error.extras["http"]["retry_after"] == 7.0
    assert words in str(error)
    assert SECRET not in repr((error, error.extras, error.__cause__))
    assert issuer.served == []
    assert len(issuer.server.seen) == 1


@pytest.mark.parametrize(
    "answer",
    [{}, [], {"access_token": 1}, {"access_token": ""}, {"access_token": "a\r\nX: y"}, {"access_token": "a b"},
     {"access_token": "abc", "token_type": "mac"}],
)  # fmt: skip
def test_a_token_that_cannot_be_used_is_refused(issuer: Issuer, tool: Http, answer: Any) -> None:
    issuer.server.routes["/token"] = lambda h: h.json(answer)

    assert refused(tool, issuer.server.url + "/api", auth=issuer.credential()).kind == "auth"
    assert issuer.served == []


def test_a_slow_token_counts_against_the_time_of_the_call(issuer: Issuer, tool: Http) -> None:
    issuer.open.clear()

    errors = at_once(
        3,
        lambda: call(tool, issuer.server.url + "/api", auth=issuer.credential(), timeout={"total": 0.3}),
    )

    assert {(error.kind, error.retryable) for error in errors if isinstance(error, ToolError)} == {
        ("timeout", True)
    }
    assert len(errors) == 3


def test_who_waits_for_the_token_of_another_call_waits_no_longer_than_its_own_time(
    issuer: Issuer, tool: Http
) -> None:
    issuer.open.clear()
    with ThreadPoolExecutor(1) as pool:
        patient = pool.submit(call, tool, issuer.server.url + "/api", auth=issuer.credential(), timeout=3600)
        until(lambda: issuer.asked, "the first call to ask for a token")

        error = refused(tool, issuer.server.url + "/api", auth=issuer.credential(), timeout={"total": 0.2})

        assert not patient.done()
        issuer.open.set()
    assert (error.kind, error.retryable) == ("timeout", True)
    assert patient.result().ok
    assert (len(issuer.asked), len(issuer.served)) == (1, 1)


def test_a_token_does_not_follow_to_another_origin_whose_401_is_no_reason_for_a_new_one(
    issuer: Issuer, tool: Http
) -> None:
    other = started()
    try:
        other.routes["/"] = lambda h: h.json({}, 401)
        issuer.server.routes["/api"] = lambda h: h.answer(status=307, location=other.url + "/")

        assert refused(tool, issuer.server.url + "/api", auth=issuer.credential()).kind == "auth"
    finally:
        stopped(other)

    assert "authorization" not in other.seen[0]["headers"]
    assert (len(issuer.asked), len(other.seen)) == (1, 1)


def test_a_token_endpoint_inside_is_blocked_where_private_networks_are(issuer: Issuer) -> None:
    guarded = Http(Services())
    error = refused(guarded, "http://example.invalid/", auth=issuer.credential())
    guarded.close()

    assert error.type == "AddressBlocked"
    assert issuer.asked == []


# --- what cannot be used -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "digest", "username": "u", "password": "canary"},
        {"type": "postgres", "user": "u", "password": "canary"},
        {"type": "bearer", "token": "canary\r\nX: y"},
        {"type": "bearer"},
        {"type": "basic", "password": "canary"},
        {"type": "api_key", "key": "canary", "in": "cookie"},
        {"type": "api_key", "key": "canary\nX: y"},
        {"type": "oauth2", "client_id": "canary", "client_secret": "canary"},
        {"type": "oauth2", "token_url": "file:///canary", "client_id": "i", "client_secret": "s"},
    ],
)
def test_an_unusable_credential_is_an_auth_error_that_quotes_nothing(
    server: Server, tool: Http, auth: dict[str, Any]
) -> None:
    error = refused(tool, server.url + "/", auth=auth)

    assert (error.kind, error.retryable) == ("auth", False)
    assert "canary" not in str(error)
    assert server.seen == []


def test_the_name_of_a_keys_header_cannot_break_the_line(server: Server, tool: Http) -> None:
    auth = {"type": "api_key", "header": "X\r\nY", "key": "canary-key"}

    assert "canary" not in str(refused(tool, server.url + "/", auth=auth))
    assert server.seen == []


def test_credentials_outside_of_latin_1_are_sent_as_utf_8(server: Server, tool: Http) -> None:
    server.routes["/"] = lambda h: h.json({})
    call(tool, server.url + "/", auth={"type": "bearer", "token": "zażółć"})
    call(tool, server.url + "/", auth={"type": "basic", "username": "ł", "password": "€"})

    assert server.seen[0]["headers"]["authorization"].encode("latin-1") == "Bearer zażółć".encode()
    assert base64.b64decode(server.seen[1]["headers"]["authorization"][6:]) == "ł:€".encode()


# --- nothing is seen again -----------------------------------------------------------------------

CANARY = "canary-51f0/9a+77="
STORED: dict[str, tuple[str, dict[str, Any]]] = {
    "login": ("basic", {"username": "ann", "password": CANARY}),
    "token": ("bearer", {"token": CANARY}),
    "key": ("api_key", {"header": "X-Key", "key": CANARY}),
    "query": ("api_key", {"in": "query", "name": "sig", "key": CANARY}),
    "old": ("http", {"token": CANARY}),
    "client": ("oauth2", {"client_id": "ann", "client_secret": CANARY}),
}


def echoed(status: int, content_type: str) -> Callable[[Handler], None]:
    """Everything that was sent, in the body and in a header, in every spelling."""

    def route(handler: Handler) -> None:
        sent = {**dict(handler.headers.items()), "path": handler.path}
        spelled = [CANARY, quote(CANARY, safe=""), base64.b64encode(CANARY.encode()).decode()]
        slashed = CANARY.replace("/", "\\/")
        body = json.dumps([sent, spelled])[:-1] + f', "{slashed}"]'
        handler.answer(
            body.encode(), status, content_type=content_type, X_Echo=body, location=f"/x?sig={spelled[1]}"
        )

    return route


def spellings() -> list[bytes]:
    encoded = base64.b64encode(CANARY.encode()).rstrip(b"=")
    pair = base64.b64encode(f"ann:{CANARY}".encode()).rstrip(b"=")
    return [
        CANARY.encode(),
        quote(CANARY, safe="").encode(),
        quote(CANARY).encode(),
        encoded,
        pair,
        b"canary-51f0",
    ]


@pytest.mark.parametrize("name", STORED)
def test_a_secret_is_found_nowhere_whatever_the_server_echoes(
    server: Server,
    run_in: Callable[..., Any],
    tmp_path: Any,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    server.routes["/token"] = lambda h: h.json({"access_token": CANARY + "-token"})
    server.routes["/ok"] = echoed(200, "application/json")
    server.routes["/text"] = echoed(200, "text/plain")
    server.routes["/odd"] = echoed(302, "application/json")
    server.routes["/bad"] = echoed(500, "application/json")
    server.routes["/broken"] = lambda h: h.answer(
        b"{" + CANARY.encode(), content_type="application/json", x_echo=CANARY
    )
    type, data = STORED[name]
    if type == "oauth2":
        data = {**data, "token_url": server.url + "/token"}
    settings = Settings(home=tmp_path, log_level="DEBUG")
    body = """
    workflow:
      - step: start
        loop: {in: [ok, text, odd, bad, broken, gone], iterator: path, spec: {mode: parallel, policy: {failure: {mode: best_effort}}}}
        tool: {kind: http, url: "{{ web if path != 'gone' else 'http://127.0.0.1:1' }}/{{ path }}", auth: "{{ name }}", allow_redirects: false}
    """
    with bootstrap.local(settings) as rt:
        credentials.save(rt, name, type, data)
        report = run_in(rt)(body, web=server.url, name=name)

    assert [one is not None for one in report["result"]["results"]] == [True, True, True, False, False, False]
    assert "***" in json.dumps(report)
    everything = json.dumps(report).encode() + caplog.text.encode() + _dump(tmp_path)
    for path in tmp_path.rglob("*"):
        everything += path.read_bytes() if path.is_file() else b""
    assert server.seen
    assert [spelling for spelling in spellings() if spelling in everything] == []


def _dump(home: Any) -> bytes:
    """Every row of the database as text: events, commands, messages."""
    [file] = home.glob("*.db")
    connection = sqlite3.connect(file)
    try:
        text = "\n".join(line for line in connection.iterdump())
    finally:
        connection.close()
    assert "event" in text
    return text.encode()


def test_the_value_of_a_secret_parameter_is_masked_however_short(server: Server, tool: Http) -> None:
    server.routes["/"] = lambda h: h.json({"innocent": "k3y"}, location="/b?a=1&the+key=k3y#x")
    auth = {"type": "api_key", "in": "query", "name": "the key", "key": "k3y"}

    result = call(tool, server.url + "/?a=1", auth=auth).result

    assert server.seen[0]["path"] == "/?a=1&the+key=k3y"
    assert result["url"] == server.url + "/?a=1&the+key=***"
    assert result["headers"]["location"] == "/b?a=1&the+key=***#x"
    assert result["data"] == {"innocent": "k3y"}


def test_a_secret_in_the_path_of_a_redirect_is_not_quoted(server: Server, tool: Http) -> None:
    server.routes["/"] = lambda h: h.answer(status=302, location=f"gopher://x/{CANARY}")

    error = refused(tool, server.url + "/", auth={"type": "bearer", "token": CANARY})

    assert "'gopher://x/***' cannot be called" in str(error)


def test_a_password_that_is_a_word_does_not_tear_up_the_answer(server: Server, tool: Http) -> None:
    server.routes["/"] = lambda h: h.json({"password": 1, "token": h.headers["authorization"][6:]})
    auth = {"type": "basic", "username": "ann", "password": "password"}

    assert call(tool, server.url + "/", auth=auth).result["data"] == {"password": 1, "token": "***"}


@pytest.mark.parametrize(
    ("type", "data"), [("oauth2", {"client_id": "i", "client_secret": CANARY}), ("bearer", {"tokn": CANARY})]
)
def test_data_that_no_tool_could_use_is_not_kept(
    rt: Runtime, settings: Settings, type: str, data: dict[str, Any]
) -> None:
    with pytest.raises(BadRequest, match="Credential 'odd' cannot be kept: type ") as caught:
        credentials.save(rt, "odd", type, data)

    assert CANARY not in str(caught.value)
    assert "odd" not in [row.name for row in credentials.credentials(rt)]


def test_a_stored_type_is_what_a_tool_goes_by(
    rt: Runtime, settings: Settings, run: Callable[..., Any], server: Server
) -> None:
    credentials.save(rt, "warehouse", "postgres", {"host": "h", "user": "u", "password": CANARY})
    body = """
    workflow: [{step: start, tool: {kind: http, url: "{{ web }}", auth: warehouse}}]
    """

    error = run(body, web=server.url)["error"]

    assert (error["kind"], "cannot be used for http" in error["message"]) == ("auth", True)
    assert server.seen == []
