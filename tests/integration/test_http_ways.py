"""The ways of the http tool to a service and back: TLS, proxies, allowed networks, time, forms of a
body, Retry-After."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from noetl.config import Settings
from noetl.errors import ConfigError, ToolError
from noetl.facts.events import PolicyEvaluated
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Where
from noetl.tools.http.request import HttpConfig, limits_of
from noetl.tools.http.tool import Http
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from noetl.usecases import inspect
from noetl.usecases.runtime import Runtime
from tests.httpd import Handler, Server, started, stopped
from tests.waiting import GUARD_S

LOGIN = {"username": "ann", "password": "pröxy:p@ss/word"}


@pytest.fixture
def server() -> Iterator[Server]:
    server = started()
    server.routes["/"] = lambda h: h.json({"over": "plain"})
    yield server
    stopped(server)


def services(**more: Any) -> Services:
    return Services(
        **{
            "allow_private_networks": True,
            "files": FilePolicy(as_user=True),
            "result_limit": 1_000_000,
            "credential": {"login": LOGIN}.__getitem__,
            **more,
        }
    )


@pytest.fixture
def tool() -> Iterator[Http]:
    tool = Http(services())
    yield tool
    tool.close()


def call(tool: Http, url: str, **config: Any) -> Outcome:
    order = Call("http", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, "idem-1")
    return tool.run(order, HttpConfig.model_validate({"url": url, **config}))


def refused(tool: Http, url: str, **config: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        call(tool, url, **config)
    return caught.value


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture
def secure(certificate: Path) -> Iterator[Server]:
    server = Server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    server.routes["/"] = lambda h: h.json({"over": "tls"})
    yield server
    stopped(server)


def over_tls(server: Server) -> str:
    return server.url.replace("http://", "https://") + "/"


def test_a_certificate_that_nobody_vouches_for_is_refused(secure: Server, tool: Http) -> None:
    error = refused(tool, over_tls(secure), auth={"type": "bearer", "token": "secret-token"})

    assert (error.kind, error.retryable) == ("connection", False)
    assert "No secure connection" in str(error)
    assert secure.seen == []


# pytest shows every warning again; in a worker this one is silenced when the transport is imported.
@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
@pytest.mark.parametrize("trusting", [True, False])
def test_authorities_may_be_named_and_checks_turned_off(
    secure: Server, tool: Http, certificate: Path, trusting: bool
) -> None:
    verify = False if trusting else str(certificate)

    assert call(tool, over_tls(secure), verify=verify).result["data"] == {"over": "tls"}
    # A connection that was made without checks serves no call that asks for them.
    assert refused(tool, over_tls(secure)).kind == "connection"


def test_a_certificate_of_another_host_is_refused(secure: Server, tool: Http, certificate: Path) -> None:
    url = over_tls(secure).replace("127.0.0.1", "localhost")

    assert refused(tool, url, verify=str(certificate)).kind == "connection"


def test_the_environment_names_no_authorities(
    secure: Server, tool: Http, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))

    assert refused(tool, over_tls(secure)).kind == "connection"


# --- proxies -------------------------------------------------------------------------------------


class Proxying(BaseHTTPRequestHandler):
    """A forward proxy: absolute addresses for http, tunnels for https."""

    server: ProxyServer

    def _allowed(self) -> bool:
        self.server.seen.append((self.command, self.path, dict(self.headers.items())))
        given = self.headers.get("proxy-authorization", "")
        if self.server.login is None or given == "Basic " + self.server.login:
            return True
        self.send_response(407)
        self.send_header("content-length", "0")
        self.end_headers()
        return False

    def do_GET(self) -> None:
        if not self._allowed():
            return
        with requests.Session() as session:
            session.trust_env = False
            answer = session.get(self.path, timeout=GUARD_S, allow_redirects=False)
        self.send_response(answer.status_code)
        for name in ("content-type", "location"):
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def do_CONNECT(self) -> None:
        if not self._allowed():
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=GUARD_S) as far:
            self.send_response(200)
            self.end_headers()
            ends = {self.connection: far, far: self.connection}
            with contextlib.suppress(OSError):
                while True:
                    for end in select.select(list(ends), [], [], GUARD_S)[0]:
                        data = end.recv(65536)
                        if not data:
                            return
                        ends[end].sendall(data)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class ProxyServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Proxying)
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.login: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def proxy() -> Iterator[ProxyServer]:
    server = ProxyServer()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_call_goes_through_the_proxy_that_it_names(server: Server, proxy: ProxyServer, tool: Http) -> None:
    assert call(tool, server.url + "/", proxy=proxy.url).result["data"] == {"over": "plain"}
    assert proxy.seen[0][:2] == ("GET", server.url + "/")

    call(tool, server.url + "/")
    assert len(proxy.seen) == 1


def test_https_goes_through_a_tunnel_and_is_checked_behind_it(
    secure: Server, proxy: ProxyServer, tool: Http, certificate: Path
) -> None:
    auth = {"type": "bearer", "token": "secret-token"}

    outcome = call(tool, over_tls(secure), proxy=proxy.url, verify=str(certificate), auth=auth)

    assert outcome.result["data"] == {"over": "tls"}
    assert proxy.seen[0][:2] == ("CONNECT", urlsplit(secure.url).netloc)
    assert "secret-token" not in str(proxy.seen)
    assert refused(tool, over_tls(secure), proxy=proxy.url).kind == "connection"


@pytest.mark.parametrize("tls", [False, True])
def test_a_proxy_gets_its_own_credential_and_the_service_does_not(
    server: Server, secure: Server, proxy: ProxyServer, tool: Http, certificate: Path, tls: bool
) -> None:
    pair = f"{LOGIN['username']}:{LOGIN['password']}".encode()
    proxy.login = base64.b64encode(pair).decode()
    url = over_tls(secure) if tls else server.url + "/"

    assert call(tool, url, verify=str(certificate), proxy={"url": proxy.url, "auth": "login"}).ok

    [seen] = (secure if tls else server).seen
    assert "proxy-authorization" not in seen["headers"]
    error = refused(tool, url, verify=str(certificate), proxy=proxy.url)
    assert (error.kind, error.retryable) == ("auth", False)


def test_a_proxy_that_is_not_there_is_a_connection_error_without_its_password(
    server: Server, tool: Http
) -> None:
    error = refused(tool, server.url + "/", proxy={"url": "http://127.0.0.1:1", "auth": "login"})

    assert (error.kind, error.retryable) == ("connection", True)
    assert "through the proxy: Connection refused" in str(error)
    assert "p@ss" not in str(error)


@pytest.mark.parametrize(
    "proxy",
    ["127.0.0.1:8080", "socks5://127.0.0.1:1", "http://a:canary@127.0.0.1:1", "http://127.0.0.1", "http://[::1", "http://h:1/canary", ""],
)  # fmt: skip
def test_anything_but_an_address_of_a_proxy_is_refused(server: Server, tool: Http, proxy: str) -> None:
    error = refused(tool, server.url + "/", proxy=proxy)

    assert (error.kind, "canary" in str(error)) == ("client_error", False)
    assert server.seen == []


def test_a_proxy_inside_is_blocked_where_private_networks_are(server: Server, proxy: ProxyServer) -> None:
    guarded = Http(services(allow_private_networks=False))

    assert refused(guarded, "http://93.184.216.34/", proxy=proxy.url).type == "AddressBlocked"
    guarded.close()
    assert proxy.seen == []


def test_no_proxy_leads_to_what_is_blocked_not_even_by_redirect(
    server: Server, proxy: ProxyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = (ipaddress.ip_network("127.0.0.1/32"),)
    guarded = Http(services(allow_private_networks=False, allowed_networks=inside))
    server.routes["/away"] = lambda h: h.answer(status=302, location="http://169.254.169.254/latest/")

    for url in ("http://10.1.2.3/", "http://0x7f.0.0.2/", server.url + "/away"):
        assert refused(guarded, url, proxy=proxy.url).type == "AddressBlocked", url
    guarded.close()
    assert [seen[1] for seen in proxy.seen] == [server.url + "/away"]


# --- allowed networks ----------------------------------------------------------------------------


def test_networks_are_allowed_one_by_one(server: Server) -> None:
    guarded = Http(
        services(
            allow_private_networks=False,
            allowed_networks=(ipaddress.ip_network("127.0.0.0/30"), ipaddress.ip_network("fd00::/8")),
        )
    )

    assert call(guarded, server.url + "/").ok
    assert call(guarded, server.url.replace("127.0.0.1", "0x7f.1") + "/").ok
    assert refused(guarded, "http://127.0.0.9:1/").type == "AddressBlocked"
    guarded.close()


def test_allowed_networks_are_a_setting() -> None:
    settings = Settings.from_env({"NOETL_ALLOWED_NETWORKS": "10.1.0.0/16, ::1"})

    assert [str(network) for network in settings.allowed_networks] == ["10.1.0.0/16", "::1/128"]
    with pytest.raises(ConfigError, match=r"NOETL_ALLOWED_NETWORKS='10\.1\.0\.1/16' cannot be used"):
        Settings.from_env({"NOETL_ALLOWED_NETWORKS": "10.1.0.1/16"})


# --- time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeout", "deadline", "limits"),
    [
        (None, None, (10, 60, 60)),
        (5, None, (5, 5, 5)),
        (5, 3, (3, 3, 3)),
        ({"connect": 1, "read": 2}, None, (1, 2, 60)),
        ({"connect": 1, "read": 100}, None, (1, 100, 101)),
        ({"connect": 1, "read": 2, "total": 4}, None, (1, 2, 4)),
        ({"read": 9, "total": 4}, None, (4, 4, 4)),
        ({"total": 4}, 3, (3, 3, 3)),
        ({"total": 600}, None, (10, 60, 600)),
    ],
)
def test_the_tighter_limit_of_time_wins(
    timeout: Any, deadline: float | None, limits: tuple[float, ...]
) -> None:
    order = Call("http", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, "i", deadline_s=deadline)
    found = limits_of(HttpConfig.model_validate({"url": "u", "timeout": timeout}), order, Services())

    assert (found.connect, found.read, found.total) == limits


# --- forms of a body -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "content_type", "body", "data"),
    [
        ("json", "text/plain", b"12", 12),
        ("json", "text/html", b'"x"', "x"),
        ("json", "application/json", b"", None),
        ("text", "application/json", b'{"a": 1}', '{"a": 1}'),
        ("text", "image/png", b"a\xff", "a\ufffd"),
        ("text", "text/plain; charset=latin-1", b"\xe9", "é"),
        ("bytes", "application/json", b'{"a": 1}', base64.b64encode(b'{"a": 1}').decode()),
        (None, "application/json", b'{"a": 1}', {"a": 1}),
    ],
)
def test_a_body_is_read_as_it_is_asked_for(
    server: Server, tool: Http, form: str | None, content_type: str, body: bytes, data: object
) -> None:
    server.routes["/"] = lambda h: h.answer(body, content_type=content_type)
    result = call(tool, server.url + "/", **{"as": form}).result

    assert result["data"] == data
    assert result.get("encoding") == ("base64" if form == "bytes" else None)


def test_a_body_that_must_be_json_and_is_none_is_the_servers_error(server: Server, tool: Http) -> None:
    server.routes["/"] = lambda h: h.answer(b"<html>", content_type="text/html")
    error = refused(tool, server.url + "/", **{"as": "json"})

    assert (error.kind, error.type, error.retryable) == ("server_error", "InvalidJson", False)
    assert "was asked for JSON" in str(error)
    assert error.extras["http"]["body"] == "<html>"


# --- Retry-After ---------------------------------------------------------------------------------


def test_a_retry_waits_as_long_as_the_server_asked_with_one_idempotency_key(
    server: Server, run: Callable[..., dict[str, Any]], rt: Runtime
) -> None:
    def route(handler: Handler) -> None:
        if len(handler.server.seen) == 1:
            handler.json({}, 429, Retry_After="1")
        else:
            handler.json({"ok": True})

    server.routes["/"] = route
    report = run(
        """
        workflow:
          - step: start
            tool:
              kind: http
              method: POST
              url: "{{ web }}/"
              json: {}
              spec: {policy: {rules: [{when: "{{ error.retryable and error.kind == 'rate_limit' }}", then: {do: retry, delay: 0.01}}]}}
        """,
        web=server.url,
    )

    assert report["result"]["data"] == {"ok": True}
    facts = [event.fact for event in inspect.events(rt, report["execution_id"])]
    assert [fact.delay for fact in facts if isinstance(fact, PolicyEvaluated)] == [1.0]
    keys = [one["headers"]["idempotency-key"] for one in server.seen]
    assert len(keys) == 2
    assert keys[0] == keys[1] != ""
