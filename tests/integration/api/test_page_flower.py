"""What is passed on between a browser and Flower, and what is not. Something that tells what it was
asked stands where Flower would; tests/acceptance/test_flower.py has a real one."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseServer
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.ui import flower
from noetl.usecases import tokens
from tests.ports import free_port

from .browsing import OWN, Page, sign_in

STEERS = [
    *(f"worker/{what}/w@host" for what in ("shutdown", "pool/restart", "pool/grow", "pool/shrink")),
    *(f"worker/{what}/w@host" for what in ("pool/autoscale", "queue/add-consumer", "queue/cancel-consumer")),
    *(f"task/{what}/7" for what in ("abort", "revoke", "timeout", "rate-limit")),
]


class Reader(FlaskClient):
    """Reads answers to their end, and closes them, as servers do."""

    def open(self, *args: Any, buffered: bool = True, **more: Any) -> Any:
        return super().open(*args, buffered=buffered, **more)


def over(server: BaseServer) -> threading.Event:
    """What is set when that server is."""
    found: threading.Event = server.over  # type: ignore[attr-defined]
    return found


class Told(BaseHTTPRequestHandler):
    """Answers with what it was asked; `/flower/to?WHERE` leads elsewhere, `/flower/large` is, and
    `/flower/slow` never comes, `/flower/closed` wants a password, `/flower/tls` is at another
    server."""

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        told = {
            "method": self.command,
            "path": self.path,
            "headers": dict(self.headers),
            "body": self.rfile.read(length).decode(),
        }
        path, _, query = self.path.partition("?")
        if path == "/flower/slow":
            over(self.server).wait()
            return
        self.send_response({"/flower/to": 302, "/flower/tls": 301, "/flower/closed": 401}.get(path, 200))
        self.send_header("Content-Type", "application/json")
        self.send_header("Set-Cookie", "_xsrf=1; Path=/")
        self.send_header("Set-Cookie", "noetl_forms=tossed; Path=/")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Content-Security-Policy", "default-src *")
        self.send_header("WWW-Authenticate", "Basic realm=flower")
        self.send_header("ETag", '"7"')
        if path == "/flower/to":
            self.send_header("Location", query)
        if path == "/flower/tls":
            self.send_header("Location", f"https://flower.example{self.path}")
        body = b"x" * 1_000_000 if path == "/flower/large" else json.dumps(told).encode()
        if path != "/flower/large":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 - as http.server calls them

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def open_browser(app: Flask) -> FlaskClient:
    app.test_client_class = Reader
    return app.test_client()


@contextmanager
def serve(host: str, certificate: Path | None = None) -> Iterator[int]:
    """The port on which something that tells what it was asked listens there."""
    with ThreadingHTTPServer((host, 0), Told) as server:
        server.over = threading.Event()  # type: ignore[attr-defined]
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_address[1]
        over(server).set()
        server.shutdown()


@pytest.fixture
def port() -> Iterator[int]:
    with serve("127.0.0.1") as port:
        yield port


@pytest.fixture
def browser(make: Callable[..., Flask], port: int) -> FlaskClient:
    return open_browser(make(flower_port=port))


@pytest.fixture
def signed_in(make: Callable[..., Flask], sim: Simulation, port: int) -> Callable[..., FlaskClient]:
    app = make(open=False, flower_port=port)

    def sign(*scopes: str) -> FlaskClient:
        client = open_browser(app)
        sign_in(client, tokens.create(sim.rt, "alice", scopes).text)
        return client

    return sign


def test_flower_is_told_what_is_asked_and_nothing_of_who_asks(
    signed_in: Callable[..., FlaskClient],
) -> None:
    headers = {
        "Accept": "text/html",
        "X-Forwarded-For": "203.0.113.7",
        "Connection": "X-Secret",
        "X-Secret": "1",
        "If-None-Match": '"7"',
    }
    browser = signed_in("read")
    assert browser.get_cookie("noetl_session") is not None
    told = browser.get("/flower/worker/a b@host?x=%2F&y=a+b", headers=headers).json
    assert told["path"] == "/flower/worker/a%20b@host?x=%2F&y=a+b"
    heard = {name.lower(): text for name, text in told["headers"].items()}
    assert (heard.pop("host")[:10], heard.pop("user-agent")[:8]) == ("127.0.0.1:", "python-u")
    assert heard == {
        "accept": "text/html",
        "accept-encoding": "identity",
        "if-none-match": '"7"',
    }
    by_token = browser.get("/flower/", headers={"Authorization": "Bearer noetl_x_y"})
    assert by_token.status_code == 401, "the header counts, and Flower is not even asked"


def test_the_password_of_flower_is_sent_by_the_server(make: Callable[..., Flask], port: int) -> None:
    browser = open_browser(make(flower_port=port, flower_auth="noetl:p:w"))
    told = browser.get("/flower/").json
    assert told["headers"]["Authorization"] == "Basic bm9ldGw6cDp3"


def test_flower_sets_no_cookie_and_no_policy(browser: FlaskClient) -> None:
    answer = browser.get("/flower/tasks")
    assert answer.headers["ETag"] == '"7"'
    assert "_xsrf" not in str(answer.headers)
    assert "tossed" not in str(answer.headers)
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "WWW-Authenticate" not in answer.headers
    policy = answer.headers["Content-Security-Policy"]
    assert "script-src localhost/flower/static/ 'sha256-" in policy
    assert "connect-src localhost/flower/;" in policy
    assert "form-action 'none'" in policy
    assert "allow-popups" not in policy
    (script,) = (one for one in policy.split("; ") if one.startswith("script-src"))
    assert "unsafe" not in script
    strange = browser.get("/flower/tasks", base_url="http://[::1]:8642")
    assert "connect-src 'self';" in strange.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("where", "leads"),
    [
        ("/flower/tasks?a=b", "/flower/tasks?a=b"),
        ("http://127.0.0.1:5555/flower/worker/x", "/flower/worker/x"),
        ("https://evil.example/", "/flower/"),
        ("//evil.example/x", "/flower/"),
        ("/act", "/flower/"),
    ],
)
def test_flower_leads_nowhere_else(browser: FlaskClient, where: str, leads: str) -> None:
    answer = browser.get(f"/flower/to?{where}")
    assert (answer.status_code, answer.headers["Location"]) == (302, leads)


@pytest.mark.parametrize("place", STEERS)
def test_workers_are_steered_by_who_may_operate_everything(
    signed_in: Callable[..., FlaskClient], place: str
) -> None:
    path = f"/flower/api/{place}"
    told = signed_in("operate").post(path, data={"n": "2"}, headers=OWN).json
    assert (told["method"], told["path"], told["body"]) == ("POST", path, "n=2")
    for scopes in (["read"], ["run"], ["read", "operate:etl/*"], ["approve"]):
        assert signed_in(*scopes).post(path, headers=OWN).status_code == 403, scopes


def test_only_pages_of_this_server_steer(signed_in: Callable[..., FlaskClient]) -> None:
    browser = signed_in("admin")
    path = f"/flower/api/{STEERS[0]}"
    for headers in ({}, {"Origin": "null"}, {"Origin": "https://evil.example"}):
        assert browser.post(path, headers=headers).status_code == 403


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize(
    "place", ["async-apply/x", "apply/x", "send-task/x", "async-apply/x/y", "async%2Dapply/x", "async-apply"]
)
def test_nobody_sends_tasks_by_flower(browser: FlaskClient, method: str, place: str) -> None:
    answer = browser.open(f"/flower/api/task/{place}", method=method, headers=OWN)
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "place",
    ["api/task/../task/async-apply/x", "api/./task/async-apply/x", "api/task/x%0A", "%2e%2e/x", "a%2F..%2Fb"],
)
def test_what_is_no_place_is_not_asked_for(browser: FlaskClient, place: str) -> None:
    for method in ("GET", "POST"):
        answer = browser.open(f"/flower/{place}", method=method, headers=OWN)
        assert answer.status_code in (400, 403, 404), (method, place)


@pytest.mark.parametrize("place", ["", "tasks", "login", "api/task/result/7", "api/new/thing"])
def test_nothing_else_is_sent_to_flower(browser: FlaskClient, place: str) -> None:
    assert browser.post(f"/flower/{place}", headers=OWN).status_code in (404, 405)


def test_tasks_are_searched_by_who_may_read_everything(signed_in: Callable[..., FlaskClient]) -> None:
    reader = signed_in("read")
    told = reader.post("/flower/tasks/datatable", data={"draw": "1"}, headers=OWN).json
    assert told["body"] == "draw=1"
    some = signed_in("operate:etl/*")
    assert some.post("/flower/tasks/datatable", headers=OWN).status_code == 403
    assert some.get("/flower/").status_code == 403
    assert '"/flower/"' in reader.get("/").text
    assert '"/flower/"' not in some.get("/").text


def test_other_methods_are_none(browser: FlaskClient) -> None:
    for method in ("PUT", "DELETE", "PATCH"):
        assert browser.open("/flower/tasks", method=method, headers=OWN).status_code == 405


def test_answers_are_bounded(browser: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(browser.get("/flower/large").data) == 1_000_000
    monkeypatch.setattr(flower, "MOST", 200_000)
    with pytest.raises(Exception, match="more than"):
        browser.get("/flower/large")
    monkeypatch.setattr(flower, "MOST", 10)
    answer = browser.get("/flower/tasks")
    assert (answer.status_code, "ask for less" in answer.text) == (503, True)


def test_a_flower_that_hangs_is_not_waited_for(browser: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower, "READ_S", 0.1)
    answer = browser.get("/flower/slow")
    assert (answer.status_code, "does not answer" in answer.text) == (503, True)


def test_questions_that_were_answered_make_room(
    browser: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flower, "_places", threading.BoundedSemaphore(1))
    for path in ("/flower/tasks", "/flower/closed", "/flower/tasks"):
        browser.get(path)
    assert browser.get("/flower/tasks").status_code == 200
    held = browser.get("/flower/tasks", buffered=False)
    full = browser.get("/flower/tasks")
    assert (full.status_code, "that it has not answered yet" in full.text) == (503, True)
    held.close()
    assert browser.get("/flower/tasks").status_code == 200


def test_where_no_flower_answers_the_command_that_starts_it_is_said(make: Callable[..., Flask]) -> None:
    port = free_port()
    answer = open_browser(make(flower_port=port)).get("/flower/")
    assert (answer.status_code, answer.mimetype) == (503, "text/html")
    text = Page(answer.text).text
    assert f"celery -A noetl flower --address=127.0.0.1 --port={port} --url_prefix=flower" in text


def test_a_flower_with_another_password_is_told_of(browser: FlaskClient) -> None:
    answer = browser.get("/flower/closed")
    assert (answer.status_code, "NOETL_FLOWER_AUTH" in answer.text) == (503, True)


def test_who_has_not_signed_in_does_so_first(closed: Flask) -> None:
    answer = closed.test_client().get("/flower/tasks")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login?next=%2Fflower%2Ftasks")


# --- on another machine ---


def elsewhere(make: Callable[..., Flask], url: str) -> FlaskClient:
    return open_browser(make(flower_url=url, flower_auth="noetl:pw"))


def test_a_flower_elsewhere_is_asked_there_with_its_password(make: Callable[..., Flask]) -> None:
    with serve("127.0.0.2") as port:
        told = elsewhere(make, f"http://127.0.0.2:{port}").get("/flower/tasks").json
    assert (told["path"], told["headers"]["Host"]) == ("/flower/tasks", f"127.0.0.2:{port}")
    assert told["headers"]["Authorization"] == "Basic bm9ldGw6cHc="


def test_where_no_flower_answers_elsewhere_it_is_said_what_runs_there(make: Callable[..., Flask]) -> None:
    url = f"http://127.0.0.2:{free_port()}"
    answer = elsewhere(make, url).get("/flower/")
    text = Page(answer.text).text
    assert (answer.status_code, f"No Flower answers at {url}. NOETL_FLOWER_URL says" in text) == (503, True)
    assert "celery -A noetl flower --url_prefix=flower" in text
    assert "127.0.0.1" not in text


def test_a_flower_with_tls_is_asked_where_an_authority_vouches_for_it(
    make: Callable[..., Flask], certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve("127.0.0.1", certificate) as port:
        browser = elsewhere(make, f"https://127.0.0.1:{port}")
        refused = browser.get("/flower/tasks")
        assert (refused.status_code, "REQUESTS_CA_BUNDLE" in refused.text) == (503, True)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        assert browser.get("/flower/tasks").json["path"] == "/flower/tasks"
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nothing/here")
        missing = browser.get("/flower/tasks")
        assert (missing.status_code, "/nothing/here" in missing.text) == (503, True)


def test_nobody_is_led_in_circles_by_what_leads_to_another_server(browser: FlaskClient) -> None:
    answer = browser.get("/flower/tls?a=b%20c")
    assert (answer.status_code, "leads to https://flower.example/flower/tls" in answer.text) == (503, True)
