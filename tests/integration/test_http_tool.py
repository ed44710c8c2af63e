"""The http tool against a real server: answers, errors, limits and guarded addresses."""

from __future__ import annotations

import re
import resource
import socket
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Where
from noetl.tools.http.request import HttpConfig
from noetl.tools.http.tool import Http
from noetl.tools.kit.base import Services
from noetl.tools.kit.http import addresses
from noetl.tools.kit.http.answer import retry_after
from tests.httpd import Handler, Route, Server, started, stopped
from tests.waiting import until


@pytest.fixture
def server() -> Iterator[Server]:
    server = started()
    yield server
    stopped(server)


CREDENTIALS = {
    "token": {"type": "bearer", "token": "t0ken"},
    "login": {"username": "ann", "password": "pw"},
    "key": {"type": "api_key", "header": "X-Key", "key": "k3y"},
    "query": {"type": "api_key", "in": "query", "name": "apikey", "value": "k3y"},
    "empty": {"note": "nothing"},
}


@pytest.fixture
def tool() -> Iterator[Http]:
    tool = Http(
        Services(allow_private_networks=True, credential=CREDENTIALS.__getitem__, result_limit=1_000_000)
    )
    yield tool
    tool.close()


def call(tool: Http, url: str, deadline_s: float | None = None, **config: Any) -> Outcome:
    where = Where("1", "s#1", "s")
    order = Call("http", {}, {}, {}, where, "t", 1, "idem-1", deadline_s=deadline_s)
    return tool.run(order, HttpConfig.model_validate({"url": url, **config}))


def refused(tool: Http, url: str, **config: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        call(tool, url, **config)
    return caught.value


def test_a_json_answer_is_parsed_and_header_names_are_lower_case(server: Server, tool: Http) -> None:
    server.routes["/a"] = lambda h: h.json({"x": [1]}, X_Tag="v")

    outcome = call(tool, server.url + "/a", params={"q": "a b", "n": None, "l": [1, True]})

    assert outcome.result["status_code"] == 200
    assert outcome.result["data"] == {"x": [1]}
    assert outcome.result["headers"]["x-tag"] == "v"
    assert outcome.result["url"] == f"{server.url}/a?q=a+b&l=1&l=true"
    assert outcome.result["elapsed"] > 0
    assert outcome.extras["http"]["status"] == 200
    assert server.seen[0]["headers"]["user-agent"].startswith("NoETL/")
    assert "idempotency-key" not in server.seen[0]["headers"]


@pytest.mark.parametrize(
    ("content_type", "body", "data"),
    [
        ("text/plain", b'{"a": 1}', {"a": 1}),
        ("text/plain", b"12", "12"),
        ("text/plain", "é".encode(), "é"),
        ("text/plain; charset=latin-1", "é".encode("latin-1"), "é"),
        ("text/html", b"[x]", "[x]"),
        ("application/problem+json", b"[1]", [1]),
        ("application/json", b"", None),
        (
            "application/json",
            b'{"a": 12345678901234.567, "b": 0.1, "c": 12345678901234567890}',
            {"a": Decimal("12345678901234.567"), "b": 0.1, "c": 12345678901234567890},
        ),
        ("application/json", b'{"a": NaN, "b": 1e999, "c": 1.5}', {"a": None, "b": None, "c": 1.5}),
    ],
)
def test_a_body_is_json_or_text(
    server: Server, tool: Http, content_type: str, body: bytes, data: object
) -> None:
    server.routes["/"] = lambda h: h.answer(body, content_type=content_type)

    assert call(tool, server.url + "/").result["data"] == data


def test_bytes_that_are_no_text_come_as_base64(server: Server, tool: Http) -> None:
    server.routes["/"] = lambda h: h.answer(b"\xff\xfe\x00", content_type="image/png")

    result = call(tool, server.url + "/").result

    assert (result["data"], result["encoding"]) == ("//4A", "base64")


@pytest.mark.parametrize(
    ("config", "content_type", "body"),
    [
        ({"json": {"a": "é"}}, "application/json", '{"a": "é"}'.encode()),
        ({"payload": [1, None]}, "application/json", b"[1, null]"),
        ({"payload": {"a": 1}, "headers": {"Content-Type": "application/x-www-form-urlencoded"}}, "application/x-www-form-urlencoded", b"a=1"),
        ({"data": {"a": [1, 2], "b": True}}, "application/x-www-form-urlencoded", b"a=1&a=2&b=true"),
        ({"data": {"a": 1}, "headers": {"content-type": "application/json"}}, "application/json", b'{"a": 1}'),
        ({"form": {"a": "x y"}}, "application/x-www-form-urlencoded", b"a=x+y"),
        ({"body": "raw", "headers": {"content-type": "text/plain"}}, "text/plain", b"raw"),
    ],
)  # fmt: skip
def test_bodies_are_sent_as_their_key_says(
    server: Server, tool: Http, config: dict[str, Any], content_type: str, body: bytes
) -> None:
    server.routes["/"] = lambda h: h.json({})

    call(tool, server.url + "/", method="post", **config)

    assert server.seen[0]["body"] == body
    assert server.seen[0]["headers"]["content-type"] == content_type
    assert server.seen[0]["headers"]["idempotency-key"] == "idem-1"


def test_files_travel_as_a_multipart_form(server: Server, tool: Http) -> None:
    server.routes["/"] = lambda h: h.json({})
    files = {"f": {"filename": "a.bin", "base64": "AP8=", "content_type": "x/y"}, "g": "text"}

    call(tool, server.url + "/", method="POST", files=files, form={"k": "v"})

    body = server.seen[0]["body"]
    assert server.seen[0]["headers"]["content-type"].startswith("multipart/form-data; boundary=")
    assert b'filename="a.bin"\r\nContent-Type: x/y\r\n\r\n\x00\xff\r\n' in body
    assert b'name="k"\r\n\r\nv\r\n' in body


def test_a_given_idempotency_key_wins(server: Server, tool: Http) -> None:
    server.routes["/"] = lambda h: h.json({})

    call(tool, server.url + "/", method="PUT", headers={"Idempotency-Key": "mine"})

    assert server.seen[0]["headers"]["idempotency-key"] == "mine"


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        ("token", "authorization", "Bearer t0ken"),
        ({"credential": "login"}, "authorization", "Basic YW5uOnB3"),
        ("key", "x-key", "k3y"),
        ({"type": "bearer", "token": "inline"}, "authorization", "Bearer inline"),
        ({"type": "basic", "username": "u", "password": ""}, "authorization", "Basic dTo="),
    ],
)
def test_auth_becomes_a_header(server: Server, tool: Http, auth: Any, header: str, value: str) -> None:
    server.routes["/"] = lambda h: h.json({})

    call(tool, server.url + "/", auth=auth)

    assert server.seen[0]["headers"][header] == value


def test_auth_may_go_into_the_query(server: Server, tool: Http) -> None:
    server.routes["/"] = lambda h: h.answer(status=500)

    error = refused(tool, server.url + "/?a=1", auth="query")

    assert server.seen[0]["path"] == "/?a=1&apikey=k3y"
    assert "k3y" not in str(error)


def test_a_credential_without_a_secret_is_named(server: Server, tool: Http) -> None:
    error = refused(tool, server.url + "/", auth="empty")

    assert (error.kind, str(error).startswith("Credential 'empty' cannot be used for http")) == ("auth", True)


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "client_error", False),
        (401, "auth", False),
        (403, "auth", False),
        (404, "client_error", False),
        (408, "timeout", True),
        (425, "client_error", True),
        (429, "rate_limit", True),
        (500, "server_error", True),
        (501, "server_error", False),
        (503, "server_error", True),
        (505, "server_error", False),
    ],
)
def test_a_status_from_400_on_is_an_error_of_its_kind(
    server: Server, tool: Http, status: int, kind: str, retryable: bool
) -> None:
    server.routes["/"] = lambda h: h.json({"why": "so"}, status, Retry_After="7")

    error = refused(tool, server.url + "/")

    assert (error.kind, error.retryable) == (kind, retryable)
    assert error.extras["http"]["status"] == status
    assert error.extras["http"]["body"] == {"why": "so"}
    assert error.extras["http"]["retry_after"] == 7.0


def test_the_body_of_an_error_is_cut(server: Server, tool: Http) -> None:
    server.routes["/"] = lambda h: h.answer(b"x" * 2_000_000, 500)

    assert refused(tool, server.url + "/").extras["http"]["body"] == "x" * 4096


@pytest.mark.parametrize(
    ("body", "headers", "cause"),
    [
        ("{}".encode("utf-16"), {}, "it is not UTF-8."),
        (b"\x8b\x00\xff", {"Content_Encoding": "br"}, "it came encoded as 'br', which was not asked for."),
    ],
)
def test_json_that_cannot_be_read_says_why(
    server: Server, tool: Http, body: bytes, headers: dict[str, str], cause: str
) -> None:
    server.routes["/"] = lambda h: h.answer(body, content_type="application/json", **headers)

    assert refused(tool, server.url + "/").message.endswith(f"JSON, but its body is none: {cause}")


@pytest.mark.parametrize(
    "kind", ["application/x-ndjson", "application/jsonl; charset=utf-8", "application/json-seq"]
)
@pytest.mark.parametrize("body", ['{"a": 1}\n', '{"a": 1}\n{"a": 2}\n'])
def test_a_document_for_each_line_is_text_however_many_there_are(
    server: Server, tool: Http, kind: str, body: str
) -> None:
    server.routes["/"] = lambda h: h.answer(body.encode(), content_type=kind)

    assert call(tool, server.url + "/").result["data"] == body


def test_json_that_is_not_one_is_the_servers_error(server: Server, tool: Http) -> None:
    server.routes["/"] = lambda h: h.answer(b"{oops", content_type="application/json")
    server.routes["/deep"] = lambda h: h.answer(b"[" * 200_000, content_type="application/json")

    error = refused(tool, server.url + "/")

    assert (error.kind, error.retryable, error.type) == ("server_error", False, "InvalidJson")
    assert refused(tool, server.url + "/deep").kind in ("limit", "server_error")


def test_nobody_listening_is_a_connection_error_without_the_query(tool: Http) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    error = refused(tool, f"http://127.0.0.1:{port}/?secret=s3cret")

    assert (error.kind, error.retryable) == ("connection", True)
    assert "Connection refused" in str(error)
    assert "s3cret" not in str(error)


def test_a_name_that_does_not_resolve_is_a_connection_error(tool: Http) -> None:
    error = refused(tool, "http://nowhere.invalid/")

    assert (error.kind, error.retryable) == ("connection", True)


def test_a_silent_server_is_a_timeout(server: Server, tool: Http) -> None:
    server.routes["/"] = silent

    error = refused(tool, server.url + "/", timeout={"connect": 3600, "read": 0.2, "total": 3600})

    assert (error.kind, error.retryable) == ("timeout", True)


#: Seconds between two bytes of a slow server.
TRICKLE_S = 0.05


def trickle(head: bytes, byte: bytes) -> Route:
    def route(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(head)
        while not handler.server.stopping.wait(TRICKLE_S):
            handler.wfile.write(byte)
            handler.wfile.flush()

    return route


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx-slow: ",
        b"",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    ],
    ids=["length", "until-close", "header", "status-line", "chunk"],
)
def test_a_byte_now_and_then_does_not_outlive_the_deadline(server: Server, tool: Http, head: bytes) -> None:
    server.routes["/"] = trickle(head, b"0")

    error = refused(tool, server.url + "/", deadline_s=0.4, timeout={"read": 3600, "total": 3600})

    assert (error.kind, error.retryable) == ("timeout", True)
    # What was left of it when the request began.
    assert re.search(r"did not end within (0\.\d+s|\d+ms)", str(error))


def test_a_deadline_also_cuts_a_connection_that_is_used_again(server: Server, tool: Http) -> None:
    server.routes["/ok"] = lambda h: h.json({})
    server.routes["/slow"] = trickle(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", b"0")
    call(tool, server.url + "/ok")

    error = refused(tool, server.url + "/slow", timeout={"read": 3600, "total": 0.3})

    assert error.kind == "timeout"
    assert "did not end within 0.3s" in str(error)
    assert call(tool, server.url + "/ok").result["status_code"] == 200


def endless(handler: Handler) -> None:
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not handler.server.stopping.is_set():
        handler.wfile.write(b"x" * 65536)


def silent(handler: Handler) -> None:
    handler.server.stopping.wait()


def slow(handler: Handler) -> None:
    """A body without a length, which ends cleanly wherever it is cut."""
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\nx")
    handler.server.stopping.wait()


@pytest.mark.parametrize("route", [silent, slow])
def test_a_call_that_is_cancelled_hangs_up(server: Server, tool: Http, route: Route) -> None:
    server.routes["/"] = route
    order = Call("http", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, "idem-1")
    config = HttpConfig.model_validate({"url": server.url + "/", "timeout": 3600})
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tool.run, order, config)
        until(lambda: server.seen, "the request")
        tool.interrupt(order)
        error = running.exception()
    assert isinstance(error, ToolError)
    assert error.kind == "cancelled"


def bomb(handler: Handler) -> None:
    # 300 MB of zeros, packed here without ever being whole.
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    body = b"".join(packer.compress(b"0" * 1_000_000) for _ in range(300)) + packer.flush()
    handler.answer(body, content_encoding="gzip")


@pytest.mark.parametrize(
    "route", [endless, bomb, lambda h: h.answer(b"x" * 1_000_001)], ids=["endless", "bomb", "declared"]
)
def test_a_body_that_is_too_large_is_a_limit_error_in_flat_memory(
    server: Server, tool: Http, route: Route
) -> None:
    server.routes["/"] = route
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    error = refused(tool, server.url + "/")

    assert (error.kind, error.type) == ("limit", "BodyTooLarge")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000


def test_redirects_are_followed_with_the_method_that_they_ask_for(server: Server, tool: Http) -> None:
    server.routes["/see"] = lambda h: h.answer(status=303, location="/end?x=1")
    server.routes["/keep"] = lambda h: h.answer(status=307, location="end")
    server.routes["/end"] = lambda h: h.json({"m": h.command, "b": h.body.decode()})

    seen = call(tool, server.url + "/see", method="POST", json=1)
    kept = call(tool, server.url + "/keep", method="POST", json=1)

    assert seen.result["data"] == {"m": "GET", "b": ""}
    assert seen.result["url"] == server.url + "/end?x=1"
    assert seen.meta["redirects"] == 1
    assert kept.result["data"] == {"m": "POST", "b": "1"}
    assert call(tool, server.url + "/see", allow_redirects=False).result["status_code"] == 303


def test_an_error_names_the_address_behind_the_redirect(server: Server, tool: Http) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and does not listen
        nowhere = f"http://127.0.0.1:{deaf.getsockname()[1]}/down"
        server.routes["/see"] = lambda h: h.answer(status=302, location=nowhere)

        message = refused(tool, server.url + "/see?token=s3cret").message

    assert message == f"No answer from {nowhere} (redirected from {server.url}/see): Connection refused."


def test_redirects_without_end_are_a_limit_error(server: Server, tool: Http) -> None:
    server.routes["/"] = lambda h: h.answer(status=302, location="/")

    assert refused(tool, server.url + "/").kind == "limit"
    assert len(server.seen) == 6


def test_a_redirect_with_an_endless_body_is_not_read(server: Server, tool: Http) -> None:
    def route(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 302 Found\r\nlocation: /end\r\n\r\n")
        while not handler.server.stopping.is_set():
            handler.wfile.write(b"x" * 65536)

    server.routes["/"] = route
    server.routes["/end"] = lambda h: h.json(1)

    assert call(tool, server.url + "/").result["data"] == 1


def test_secrets_do_not_follow_to_another_origin(server: Server, tool: Http) -> None:
    other = started()
    try:
        other.routes["/"] = lambda h: h.json(1)
        server.routes["/out"] = lambda h: h.answer(status=307, location=other.url + "/")
        server.routes["/in"] = lambda h: h.answer(status=307, location="/end")
        server.routes["/end"] = lambda h: h.json(1)
        secrets = {"X-Api-Key": "s", "Cookie": "c=1"}

        call(tool, server.url + "/out", method="POST", json={"a": 1}, headers=secrets, auth="token")
        call(tool, server.url + "/in", headers=secrets, auth="token")
    finally:
        stopped(other)

    assert not {"authorization", "x-api-key", "cookie", "idempotency-key"} & set(other.seen[0]["headers"])
    assert other.seen[0]["body"] == b'{"a": 1}'
    assert server.seen[-1]["headers"]["authorization"] == "Bearer t0ken"
    assert server.seen[-1]["headers"]["x-api-key"] == "s"


def test_cookies_are_not_kept_between_calls(server: Server, tool: Http) -> None:
    server.routes["/"] = lambda h: h.answer(set_cookie="sid=1; Path=/")

    call(tool, server.url + "/")
    call(tool, server.url + "/")

    assert "cookie" not in server.seen[1]["headers"]


def test_the_environment_chooses_no_proxy(
    server: Server, tool: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server.routes["/"] = lambda h: h.json(1)

    assert call(tool, server.url + "/").ok


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "//127.0.0.1/",
        "127.0.0.1",
        "http://a@127.0.0.1/",
        "http://a:pw@127.0.0.1/",
        "http://127.0.0.1/\r\nX: y",
        "http://127.0.0.1\\@b/",
        "http:///x",
        "http://127.0.0.1:99999/",
        "http://[::1/",
        "",
    ],
)
def test_a_url_that_is_not_plain_http_is_refused(tool: Http, url: str) -> None:
    error = refused(tool, url)

    assert (error.kind, error.retryable) == ("client_error", False)
    assert "pw" not in str(error)


@pytest.mark.parametrize(
    "headers",
    [
        {"X": "a\r\nY: b"},
        {"X\r\nY": "a"},
        {"X": "a\nb"},
        {"X Y": "a"},
        {"Content-Length": "1"},
        {"X": "a\x00"},
    ],
)
def test_a_header_that_breaks_the_line_is_refused(
    server: Server, tool: Http, headers: dict[str, str]
) -> None:
    assert refused(tool, server.url + "/", headers=headers).kind == "client_error"
    assert server.seen == []


def test_a_missing_file_of_authorities_is_named(server: Server, tool: Http) -> None:
    error = refused(tool, server.url, verify="/nowhere/ca.pem")

    assert (error.kind, "/nowhere/ca.pem" in str(error)) == ("client_error", True)


def test_two_bodies_are_refused(server: Server, tool: Http) -> None:
    assert "`json` and `form` are both bodies" in str(refused(tool, server.url, json=1, form={"a": 1}))


@pytest.fixture
def guarded() -> Iterator[Http]:
    tool = Http(Services(allow_private_networks=False))
    yield tool
    tool.close()


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "0177.0.0.1", "１２７.0.0.1", "127。0。0。1", "[::1]", "localhost",
     "[::ffff:169.254.169.254]", "[64:ff9b::7f00:1]", "100.64.0.1", "0.0.0.0", "10.0.0.1"],
)  # fmt: skip
def test_inner_addresses_are_blocked_however_they_are_written(
    server: Server, guarded: Http, host: str
) -> None:
    error = refused(guarded, f"http://{host}:{server.server_address[1]}/")

    # The driver itself refuses the two spellings that IDNA does not know.
    assert (error.kind, error.type in ("AddressBlocked", "InvalidURL")) == ("client_error", True)
    assert (error.type == "AddressBlocked") == host.isascii()
    assert server.seen == []


def public(monkeypatch: pytest.MonkeyPatch, server: Server, answers: dict[str, list[str]]) -> list[str]:
    """Names answer one address after the other; 127.0.0.1 counts as public; returns the
    look-ups."""
    asked: list[str] = []

    def getaddrinfo(host: str, port: int, *args: object) -> list[tuple[Any, ...]]:
        asked.append(host)
        address = answers[host].pop(0) if host in answers else host
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", getaddrinfo)
    real = addresses.why_forbidden
    monkeypatch.setattr(addresses, "why_forbidden", lambda ip: None if ip == "127.0.0.1" else real(ip))
    return asked


def test_a_redirect_to_an_inner_address_is_blocked(
    server: Server, guarded: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    public(monkeypatch, server, {})
    server.routes["/"] = lambda h: h.answer(status=302, location="http://169.254.169.254/latest/")

    error = refused(guarded, server.url + "/")

    assert error.type == "AddressBlocked"
    assert "169.254.169.254, a link-local address" in str(error)


def test_the_address_that_was_checked_is_the_one_connected_to(
    server: Server, guarded: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = public(monkeypatch, server, {"rebind.example": ["127.0.0.1", "127.0.0.2", "169.254.169.254"]})
    server.routes["/"] = lambda h: h.json(1)
    port = server.server_address[1]

    assert call(guarded, f"http://rebind.example:{port}/").ok
    assert asked == ["rebind.example"]
    assert server.seen[0]["headers"]["host"] == f"rebind.example:{port}"


def test_threads_share_the_connections(server: Server, tool: Http) -> None:
    server.routes["/"] = lambda h: h.json(h.path)
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        results[number] = call(tool, server.url + "/", params={"n": number}).result["data"]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == {n: f"/?n={n}" for n in range(16)}


def test_retry_after_is_read_as_seconds_or_date() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    assert retry_after("12", now) == 12.0
    assert retry_after("Thu, 01 Jan 2026 00:01:30 GMT", now) == 90.0
    assert retry_after("Wed, 31 Dec 2025 00:00:00 GMT", now) == 0.0
    assert retry_after("soon", now) is None
    assert retry_after(None, now) is None
