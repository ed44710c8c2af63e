"""Bodies that go to the result store, over real connections."""

from __future__ import annotations

import base64
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.pipeline.model import Call, Where
from noetl.results import open_results
from noetl.tools.http.request import HttpConfig
from noetl.tools.http.tool import Http
from noetl.tools.kit.base import Services
from noetl.tools.kit.call_secrets import open_secrets
from noetl.tools.kit.http.messages import HttpRequest, RequestLimits
from noetl.tools.kit.http.transport import HttpClient
from noetl.usecases.ports import Results
from tests.httpd import Handler, Server, started, stopped
from tests.waiting import GUARD_S

LOGIN = {"username": "ann", "password": "long-and-secret-8415"}
MEGABYTE = 1_000_000


@pytest.fixture
def server() -> Iterator[Server]:
    server = started()
    yield server
    stopped(server)


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return open_results(f"file://{tmp_path}/results")


@pytest.fixture
def get(server: Server, results: Results, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Calls the server's `/` for a file; what comes back is the outcome's result."""
    services = Services(
        allow_private_networks=True,
        result_limit=MEGABYTE,
        results=results,
        scratch=tmp_path / "scratch",
    )
    tool = Http(services)

    def called(**config: Any) -> Any:
        where = Where("7", "s#1", "s", None)
        call = Call("http", {}, {}, {}, where, "t", 1, "key", GUARD_S)
        given = {"url": f"http://127.0.0.1:{server.server_port}/", "as": "file", **config}
        with open_secrets(call, None):
            return tool.run(call, HttpConfig.model_validate(given)).result

    yield called
    tool.close()
    assert list((tmp_path / "scratch").glob("*")) == []


def test_a_body_larger_than_any_result_is_kept_by_reference_and_not_in_memory(
    server: Server, results: Results, get: Callable[..., Any]
) -> None:
    block = bytes(range(256)) * 4096

    def serve(h: Handler) -> None:
        h.send_response(200)
        h.send_header("content-type", "application/octet-stream")
        h.send_header("content-length", str(len(block) * 40))
        h.end_headers()
        for _ in range(40):
            h.wfile.write(block)

    server.routes["/"] = serve
    tracemalloc.start()
    result = get()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(block) * 20
    assert (result["status_code"], result["data"]["kind"]) == (200, "result_ref")
    assert result["data"]["meta"]["bytes"] == len(block) * 40
    assert result["data"]["scope"] == "execution"
    with results.file(result["data"]) as file:
        assert file.read_bytes() == block * 40


@pytest.mark.parametrize(
    ("content_type", "body", "value"),
    [
        ("application/json; charset=utf-8", b'{"rows": [1, 2]}', {"rows": [1, 2]}),
        ("text/plain", "größe".encode(), "größe"),
        ("image/png", b"\x89PNG", base64.b64encode(b"\x89PNG").decode()),
    ],
)
def test_a_reference_stands_for_what_the_content_type_says(
    server: Server, results: Results, get: Callable[..., Any], content_type: str, body: bytes, value: Any
) -> None:
    server.routes["/"] = lambda h: h.answer(body, content_type=content_type)
    assert results.load(get()["data"]) == value


def test_an_empty_body_is_null(server: Server, get: Callable[..., Any]) -> None:
    server.routes["/"] = lambda h: h.answer(b"", 204)
    assert get()["data"] is None


def test_an_error_is_an_error_and_keeps_the_beginning_of_its_body(
    server: Server, get: Callable[..., Any]
) -> None:
    server.routes["/"] = lambda h: h.json({"why": "gone"}, 410)
    with pytest.raises(ToolError) as raised:
        get()
    assert raised.value.extras["http"]["body"] == {"why": "gone"}


@pytest.mark.parametrize("before", [0, 1024 * 1024 - 7, 2 * 1024 * 1024 - 1])
def test_a_secret_that_is_echoed_is_taken_out_wherever_blocks_end(
    server: Server, results: Results, get: Callable[..., Any], before: int
) -> None:
    secret = base64.b64encode(f"{LOGIN['username']}:{LOGIN['password']}".encode())
    server.routes["/"] = lambda h: h.answer(
        b"." * before + secret + b"|" + LOGIN["password"].encode() + b"end"
    )
    with results.file(get(auth={"type": "basic", **LOGIN})["data"]) as file:
        assert file.read_bytes() == b"." * before + b"***|***end"


def test_a_body_that_is_too_large_for_a_file_is_a_limit(server: Server, tmp_path: Path) -> None:
    server.routes["/"] = lambda h: h.answer(b"x" * 3 * MEGABYTE)
    client = HttpClient(allow_private=True)
    order = HttpRequest("GET", f"http://127.0.0.1:{server.server_port}/", into=tmp_path / "body")
    with pytest.raises(ToolError, match="larger than 1000000 bytes") as raised:
        client.exchange(order, RequestLimits(5, 5, 20, MEGABYTE, file_body=MEGABYTE))
    client.close()
    assert raised.value.kind == "limit"


def test_a_body_that_breaks_off_is_no_result(server: Server, get: Callable[..., Any]) -> None:
    def serve(h: Handler) -> None:
        h.send_response(200)
        h.send_header("content-length", "1000")
        h.end_headers()
        h.wfile.write(b"half")
        h.close_connection = True

    server.routes["/"] = serve
    with pytest.raises(ToolError) as raised:
        get()
    assert (raised.value.kind, raised.value.retryable) == ("connection", True)


def test_without_a_result_store_it_says_so(server: Server) -> None:
    tool = Http(Services(allow_private_networks=True))
    call = Call("http", {}, {}, {}, Where("7", "s#1", "s", None), "t", 1, "key", GUARD_S)
    config = HttpConfig.model_validate({"url": f"http://127.0.0.1:{server.server_port}/", "as": "file"})
    with pytest.raises(ToolError, match="needs a result store"):
        tool.run(call, config)
    assert server.seen == []


def test_links_are_those_of_the_same_server_without_what_was_taken_out(
    server: Server, get: Callable[..., Any]
) -> None:
    header = (
        f'</rows?at=2&key={LOGIN["password"]}>; rel="next", <http://elsewhere.example/x>; '
        'rel="prev", </>; rel="first up"'
    )
    server.routes["/"] = lambda h: h.json([], link=header)
    base = f"http://127.0.0.1:{server.server_port}"
    auth = {"type": "api_key", "key": LOGIN["password"], "in": "query", "name": "key"}
    links = get(auth=auth, **{"as": None})["links"]
    assert links == {"next": f"{base}/rows?at=2", "first": f"{base}/", "up": f"{base}/"}


def test_templates_and_tools_read_what_was_kept(server: Server, result: Callable[..., Any]) -> None:
    lines = json.dumps([{"x": number} for number in range(1000)]).encode()
    server.routes["/"] = lambda h: h.answer(lines, content_type="application/json")
    body = f"""
    workflow:
      - step: start
        tool:
          - {{name: fetch, kind: http, url: "http://127.0.0.1:{server.server_port}/", as: file}}
          - {{name: see, kind: noop, input: {{third: "{{{{ fetch.data[3].x }}}}", n: "{{{{ fetch.data | length }}}}"}}}}
    """
    assert result(body) == {"third": 3, "n": 1000}
