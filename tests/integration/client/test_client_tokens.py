"""A client says who it is: to the server that it was given, and to no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from noetl.client import Client
from noetl.client.aio import AsyncClient
from noetl.client.core import host_here
from noetl.errors import BadRequest, Forbidden, NoetlError, TooManyRequests, Unauthenticated
from tests import httpd
from tests.waiting import GUARD_S

TOKEN = "noetl_k3v9mx27qd_" + "s" * 43

#: `call(url, token, "whoami")`: what that method returns, of either client.
Call: TypeAlias = Callable[..., Any]


def call_sync(url: str, token: str | None, method: str, *args: Any, tries: int = 3) -> Any:
    with Client(url, token, tries=tries) as client:
        return getattr(client, method)(*args)


def call_async(url: str, token: str | None, method: str, *args: Any, tries: int = 3) -> Any:
    async def run() -> Any:
        async with AsyncClient(url, token, tries=tries) as client:
            return await getattr(client, method)(*args)

    return asyncio.run(run())


@pytest.fixture(params=[call_sync, call_async], ids=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Call:
    found: Call = request.param
    return found


@pytest.fixture
def server() -> Iterator[httpd.Server]:
    running = httpd.started()
    running.routes["/api/whoami"] = lambda to: to.json({"principal": "ci"})
    yield running
    httpd.stopped(running)


@pytest.fixture
def stranger() -> Iterator[httpd.Server]:
    """Another server, which must not learn of any token."""
    running = httpd.started()
    running.routes["/api/whoami"] = lambda to: to.json({"principal": "nobody"})
    yield running
    httpd.stopped(running)


def authorizations(server: httpd.Server) -> list[str | None]:
    return [one["headers"].get("authorization") for one in server.seen]


def test_a_token_is_sent_with_every_request_but_that_for_the_health(server: httpd.Server, call: Call) -> None:
    server.routes["/api/health"] = lambda to: to.json({"status": "ok"})
    assert call(server.url, TOKEN, "whoami") == {"principal": "ci"}
    assert call(server.url, None, "whoami") == {"principal": "ci"}
    assert call(server.url, TOKEN, "health") == {"status": "ok"}
    assert authorizations(server) == [f"Bearer {TOKEN}", None, None]


def test_no_redirect_takes_the_token_to_another_server(
    server: httpd.Server, stranger: httpd.Server, call: Call
) -> None:
    server.routes["/api/whoami"] = lambda to: to.answer(status=307, location=f"{stranger.url}/api/whoami")
    try:
        call(server.url, TOKEN, "whoami")
    except BadRequest:
        assert stranger.seen == []  # it does not follow at all
    assert authorizations(server) == [f"Bearer {TOKEN}"]
    assert set(authorizations(stranger)) <= {None}


def test_a_server_on_this_machine_is_asked_past_the_proxies_of_the_environment(
    server: httpd.Server, stranger: httpd.Server, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, stranger.url)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert call(server.url, TOKEN, "whoami") == {"principal": "ci"}
    assert call(server.url.replace("127.0.0.1", "localhost"), TOKEN, "whoami") == {"principal": "ci"}
    assert stranger.seen == []


def test_no_password_of_netrc_takes_the_place_of_the_token(
    server: httpd.Server, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ada password lovelace\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    call(server.url, TOKEN, "whoami")
    assert authorizations(server) == [f"Bearer {TOKEN}"]


@pytest.mark.parametrize("token", ["", "two words", "line\n", "naïve", "nul\0"])
def test_what_no_header_can_carry_is_refused_and_not_repeated(call: Call, token: str) -> None:
    with pytest.raises(BadRequest, match="cannot be sent") as refused:
        call("http://127.0.0.1:9", token, "whoami")
    assert not token or token.strip() not in str(refused.value)


@pytest.mark.parametrize(("status", "error"), [(401, Unauthenticated), (403, Forbidden)])
@pytest.mark.parametrize("body", [b'{"detail": "Say who you are."}', b"<html>no</html>"])
def test_refusals_are_errors_of_their_own_also_those_of_a_proxy(
    server: httpd.Server, call: Call, status: int, error: type[NoetlError], body: bytes
) -> None:
    server.routes["/api/whoami"] = lambda to: to.answer(body, status=status)
    with pytest.raises(error, match=f"HTTP {status}"):
        call(server.url, TOKEN, "whoami")
    assert len(server.seen) == 1


def test_too_many_requests_are_sent_again_when_the_server_says(server: httpd.Server, call: Call) -> None:
    def answer(to: httpd.Handler) -> None:
        if len(server.seen) < 3:
            to.json({"detail": "Later."}, status=429, retry_after="0")
        else:
            to.json({"principal": "ci"})

    server.routes["/api/whoami"] = answer
    assert call(server.url, TOKEN, "whoami") == {"principal": "ci"}
    assert len(server.seen) == 3


@pytest.mark.parametrize(("retry_after", "requests", "after_s"), [("0", 3, 0), ("61", 1, 61), ("soon", 1, 1)])
def test_who_is_refused_too_often_or_for_long_is_told(
    server: httpd.Server, call: Call, retry_after: str, requests: int, after_s: int
) -> None:
    server.routes["/api/whoami"] = lambda to: to.json(
        {"detail": "Later."}, status=429, retry_after=retry_after
    )
    with pytest.raises(TooManyRequests, match="Later") as refused:
        call(server.url, TOKEN, "whoami", tries=3 if after_s != 1 else 1)
    assert (refused.value.retry_after_s, len(server.seen)) == (after_s, requests)


def test_a_stream_that_is_refused_for_long_ends_with_that_error(server: httpd.Server) -> None:
    server.routes["/api/executions/1/events"] = lambda to: to.json(
        {"detail": "Later."}, status=429, retry_after="3600"
    )
    with Client(server.url, TOKEN) as client, pytest.raises(TooManyRequests, match="Later"):
        list(client.events("1"))
    assert authorizations(server) == [f"Bearer {TOKEN}"]


def test_a_wait_that_is_refused_pauses_before_it_asks_again(server: httpd.Server) -> None:
    def answer(to: httpd.Handler) -> None:
        if len(server.seen) == 1:
            to.json({"detail": "Later."}, status=429, retry_after="0")
        else:
            to.json({"execution_id": "1", "status": "completed", "result": 1, "error": None})

    server.routes["/api/executions/1/result"] = answer
    with Client(server.url, TOKEN) as client:
        assert client.wait("1", timeout_s=GUARD_S).result == 1


def test_tokens_are_made_listed_revoked_and_the_audit_is_read_by_pages(
    server: httpd.Server, call: Call
) -> None:
    def audit(to: httpd.Handler) -> None:
        page = 2 if "before=7" in to.path else 1
        to.json({"entries": [{"number": 10 - page}], "next": 7 if page == 1 else None})

    server.routes |= {
        "/api/tokens": lambda to: to.json({"token": TOKEN} if to.command == "POST" else {"tokens": [1]}),
        "/api/tokens/abc": lambda to: to.json({"token_id": "abc"}),
        "/api/audit": audit,
    }
    assert call(server.url, TOKEN, "create_token", "ci", ["run"]) == {"token": TOKEN}
    assert b'"expires_s":7776000' in server.seen[-1]["body"].replace(b" ", b"")
    assert call(server.url, TOKEN, "list_tokens") == [1]
    assert call(server.url, TOKEN, "revoke_token", "abc") == {"token_id": "abc"}
    assert [one["number"] for one in call(server.url, TOKEN, "audit")] == [9, 8]


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.0.0.1:8642", "127.0.0.1"),
        ("http://127.8.7.6", "127.8.7.6"),
        ("http://localhost:1", "localhost"),
        ("https://LOCALHOST/", "localhost"),
        ("http://[::1]:8642", "::1"),
        ("http://127.0.0.1@evil.example", None),
        ("http://evil.example\\@127.0.0.1", None),
        ("http://127.0.0.1.evil.example", None),
        ("http://localhost.evil.example", None),
        ("http://evil.localhost", None),
        ("http://10.0.0.1", None),
        ("http://0.0.0.0", None),
        ("http://2130706433", None),
        ("http://[bad", None),
        ("http://", None),
    ],
)
def test_only_loopback_is_this_machine(url: str, host: str | None) -> None:
    assert host_here(url) == host
