"""Bad input is answered with its reason, never with a 5xx, a hang or a changed log."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.api.permissions import RULES, Rule
from noetl.config import Settings
from noetl.errors import NoetlError
from noetl.testing import Simulation

from .lending import new_app

HERE = "/api/executions"
JSON = "application/json"


def post(client: FlaskClient, body: bytes | str, **more: Any) -> Any:
    """POST of a raw JSON body. Asserts the manners that every refusal has."""
    answer = client.post(HERE, data=body, **{"content_type": JSON, **more})
    assert answer.mimetype == "application/problem+json"
    assert answer.json["status"] == answer.status_code
    assert answer.json["type"].startswith("urn:noetl:problem:")
    assert answer.json["instance"] == HERE
    assert client.get(HERE).json["executions"] == []
    return answer


def with_payload(text: str) -> str:
    return '{"path": "examples/doubling", "payload": {"x": ' + text + "}}"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        (b"nonsense", "not JSON"),
        (b"{} {}", "not JSON"),
        (b"[]", "a JSON object, not a list"),
        (b"null", "a JSON object, not null"),
        (b'"{}"', "a JSON object, not a text"),
        (b"true", "not a boolean"),
        (b"12", "not a number"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (with_payload("NaN"), "NaN"),
        (with_payload("-Infinity"), "-Infinity"),
        (with_payload("1e999"), "too large"),
        (with_payload("9" * 5000), "5000 digits"),
        (with_payload("1." + "0" * 5000), "too long"),
        (with_payload(r'"\ud800"'), "lone surrogate"),
        (with_payload(r'{"\udfff": 1}'), "lone surrogate"),
        (with_payload(r'"a\u0000b"'), "NUL"),
        (with_payload('{"a": 1, "a": 2}'), "'a' twice"),
        (with_payload("[" * 100_000 + "]" * 100_000), "deeper than 100"),
        (with_payload("[" * 100 + "]" * 100), "deeper than 100"),
        ("[" * 500_000, "deeper than 100"),
        ('{"a":' * 150_000, "deeper than 100"),
        ('"' * 1_000_000, "not JSON"),
        ('"' + "\\" * 999_999, "not JSON"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_body_that_is_not_sound_json_is_a_400_with_its_reason(
    client: FlaskClient, body: bytes | str, said: str
) -> None:
    answer = post(client, body)
    assert answer.status_code == 400
    assert said in answer.json["detail"]


def test_json_within_the_limits_is_kept_as_it_is(client: FlaskClient) -> None:
    value = {"deep": json.loads("[" * 90 + "]" * 90), "big": 10**900, "text": '"[{\\"', "pair": "\U0001f600"}
    body = {"path": "examples/doubling", "payload": value}
    answer = client.post(HERE, data=json.dumps(body), content_type=JSON)
    assert answer.status_code == 202
    (event,) = client.get(f"{answer.json['links']['events']}?limit=1").json["events"]
    assert event["payload"]["payload"] == value


@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "application/xml",
        "application/yaml; charset=utf-16",
        "application/json; charset=utf-16",
    ],
)
def test_what_a_form_can_send_is_not_read(client: FlaskClient, content_type: str) -> None:
    answer = post(client, '{"path": "examples/doubling"}', content_type=content_type)
    assert answer.status_code == 415
    assert "application/json" in answer.json["detail"]


def test_an_empty_form_cancels_nothing(client: FlaskClient, started: Callable[..., str]) -> None:
    where = f"{HERE}/{started()}/cancel"
    answer = client.post(where, content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 415
    assert client.post(where).status_code == 202


def test_a_body_of_no_type_is_not_read(client: FlaskClient) -> None:
    assert post(client, b"{}", content_type=None).status_code == 415


def test_a_packed_body_is_not_unpacked(client: FlaskClient) -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    answer = post(client, bomb, headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 415
    assert "gzip" in answer.json["detail"]


@pytest.mark.parametrize("path", [HERE, "/api/catalog", "/api/context/render"])
def test_a_body_of_ten_megabytes_is_refused(client: FlaskClient, path: str) -> None:
    answer = client.post(path, data=b" " * 10_000_000, content_type=JSON)
    assert answer.status_code == 413
    assert "1048576 bytes" in answer.json["detail"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{HERE}/abc", 404),
        (f"{HERE}/-1", 404),
        (f"{HERE}/1.5", 404),
        (f"{HERE}/1", 404),
        (f"{HERE}/{2**63}", 404),
        (f"{HERE}/{'9' * 5000}", 404),
        (f"{HERE}/%D9%A1", 404),
        (f"{HERE}/abc/events", 404),
        (f"{HERE}/1/state", 404),
        (f"{HERE}/1/graph", 404),
        (f"{HERE}/1/result", 404),
        ("/api/vars/x", 404),
        ("/api/vars/1/x", 404),
        ("/api/workflows/status/x", 404),
        ("/api/catalog/a%00b", 400),
        (f"{HERE}?path=%00", 400),
        (f"{HERE}?limit=1000000000", 400),
        (f"{HERE}?limit=0", 400),
        (f"{HERE}?limit=ten", 400),
        (f"{HERE}?before=abc", 400),
        (f"{HERE}?before={2**63}", 400),
        (f"{HERE}?status=running%20late", 400),
        ("/api/catalog/examples/doubling?version=-1", 400),
        ("/api/catalog/examples/doubling?version=99999999999", 400),
    ],
    ids=lambda value: str(value)[:50],
)
def test_ids_and_numbers_that_cannot_be_are_answered(client: FlaskClient, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.mimetype == "application/problem+json"


@pytest.mark.parametrize(
    ("query", "bound"),
    [("after=-1", "0"), ("limit=1000000000", "1000"), ("after=99999999999", "2147483647")],
)
def test_a_number_out_of_bounds_is_answered_with_the_bound(
    client: FlaskClient, started: Callable[..., str], query: str, bound: str
) -> None:
    answer = client.get(f"{HERE}/{started()}/events?{query}")
    assert answer.status_code == 400
    assert answer.json["problems"][0]["where"] == query.partition("=")[0]
    assert bound in answer.json["problems"][0]["message"]


@pytest.mark.parametrize("action", ["cancel", "pause", "resume"])
@pytest.mark.parametrize("execution_id", ["abc", "1", str(2**64)])
def test_nothing_can_be_done_to_an_execution_that_does_not_exist(
    client: FlaskClient, action: str, execution_id: str
) -> None:
    answer = client.post(f"{HERE}/{execution_id}/{action}")
    assert answer.status_code == 404
    assert ("nothing has that id or business key" in answer.json["detail"]) == (execution_id != "1")
    assert client.patch(f"{HERE}/{execution_id}/ctx", json={"a": 1}).status_code == 404
    assert client.put(f"/api/vars/{execution_id}/a", json={"value": 1}).status_code == 404


@pytest.mark.parametrize(
    ("method", "url", "where", "said"),
    [
        ("GET", f"{HERE}?statsu=failed", "statsu", "there is no such parameter here. Did you mean 'status'?"),
        ("GET", f"{HERE}?colour=blue&limit=1", "colour", "there is no such parameter here; there are where,"),
        ("GET", "/api/catalog?pth=a", "pth", "there is no such parameter here; this route takes none"),
        ("POST", f"{HERE}?wait=5", "wait", "send the header `Prefer: wait=5`"),
        ("POST", "/api/workflows/run?wait=5", "wait", "send the header `Prefer: wait=5`"),
        ("POST", f"{HERE}?Idempotency-Key=a", "Idempotency-Key", "send the header `Idempotency-Key: a`"),
        ("PUT", "/api/vars/1/a?if_match=3", "if_match", "send the header `If-Match: 3`"),
        ("GET", f"{HERE}/1/evnts?statsu=failed", "", ""),
    ],
)
def test_parameters_that_a_route_does_not_have_are_refused_with_what_is_meant(
    client: FlaskClient, method: str, url: str, where: str, said: str
) -> None:
    answer = client.open(url, method=method, json=None if method == "GET" else {"path": "examples/doubling"})
    if not where:
        assert answer.status_code == 404
        return
    assert (answer.status_code, answer.mimetype) == (400, "application/problem+json")
    (problem,) = answer.json["problems"]
    assert problem["where"] == where
    assert said in problem["message"]
    assert client.get(HERE).json["executions"] == []


def test_every_unknown_parameter_is_named_at_once(client: FlaskClient) -> None:
    answer = client.get(f"{HERE}?statsu=failed&limt=3&path=x")
    assert [one["where"] for one in answer.json["problems"]] == ["statsu", "limt"]


def test_pages_pass_over_parameters_that_they_do_not_know(client: FlaskClient) -> None:
    for url in ("/", "/playbooks", "/api/docs", "/api/openapi.json"):
        assert client.get(f"{url}?utm_source=mail").status_code == 200, url


def test_an_unknown_route_is_answered_with_the_nearest(client: FlaskClient) -> None:
    answer = client.get("/api/execution")
    assert answer.status_code == 404
    assert answer.json["nearest"] == "/api/executions"


def test_a_method_that_a_route_lacks_is_answered_with_those_it_has(client: FlaskClient) -> None:
    answer = client.delete(HERE, content_type=JSON)
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]
    assert answer.mimetype == "application/problem+json"


# --- templates -----------------------------------------------------------------------------------


def render(client: FlaskClient, template: Any, **context: Any) -> Any:
    return client.post("/api/context/render", json={"template": template, "context": context})


def test_a_template_is_rendered_with_its_type(client: FlaskClient) -> None:
    answer = render(client, {"n": "{{ a + 1 }}", "s": "n={{ a }}", "u": "{{ missing }}"}, a=1)
    assert answer.json["result"] == {"n": 2, "s": "n=1", "u": None}
    assert len(answer.json["warnings"]) == 1


@pytest.mark.parametrize(
    ("template", "kind"),
    [
        ("{{ 'a' * 10**9 }}", "template-limit"),
        ("{{ 10**(10**9) }}", "template-limit"),
        ("{{ ''.__class__.__mro__ }}", "template-security"),
        ("{{ 1 + }}", "template"),
    ],
)
def test_a_template_that_fails_is_the_callers_error(client: FlaskClient, template: str, kind: str) -> None:
    answer = render(client, template)
    assert answer.status_code == 400
    assert answer.json["type"] == f"urn:noetl:problem:{kind}"


def test_a_template_sees_nothing_but_its_context(client: FlaskClient) -> None:
    assert render(client, "{{ env }}|{{ workload }}|{{ config }}").json["result"] == "||"


# --- strangers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "http://[::1"])
def test_a_page_of_another_origin_changes_nothing(
    client: FlaskClient, started: Callable[..., str], origin: str
) -> None:
    execution_id = started()
    answer = client.post(f"{HERE}/{execution_id}/cancel", headers={"Origin": origin})
    assert answer.status_code == 403
    assert len(client.get(f"{HERE}/{execution_id}/events").json["events"]) == 1


def test_a_page_of_our_own_origin_may(client: FlaskClient, started: Callable[..., str]) -> None:
    answer = client.post(f"{HERE}/{started()}/cancel", headers={"Origin": "http://localhost"})
    assert answer.status_code == 202


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example"]
)
def test_a_foreign_name_for_loopback_is_refused(client: FlaskClient, host: str) -> None:
    answer = client.get("/api/executions", headers={"Host": host})
    assert answer.status_code == 403
    assert "NOETL_HOST" in answer.json["detail"]


@pytest.mark.parametrize("host", ["localhost", "localhost:8642", "127.0.0.1:8642", "[::1]:8642", "LOCALHOST"])
def test_names_of_loopback_are_served(client: FlaskClient, host: str) -> None:
    assert client.get("/api/executions", headers={"Host": host}).status_code == 200


def test_a_server_for_others_serves_any_name(make: Callable[..., Flask]) -> None:
    client = make(host="0.0.0.0").test_client()
    # Who asks has to say who it is, and not where it thinks it is.
    assert client.get("/api/executions", headers={"Host": "noetl.example"}).status_code == 401
    assert client.get("/api/health", headers={"Host": "noetl.example"}).status_code == 200


def test_cors_is_off_unless_a_setting_names_the_origin(
    client: FlaskClient, make: Callable[..., Flask]
) -> None:
    origin = {"Origin": "https://app.example"}
    assert "Access-Control-Allow-Origin" not in client.get(HERE, headers=origin).headers

    open_to_one = make(cors_origins=("https://app.example",)).test_client()
    allowed = open_to_one.get(HERE, headers=origin)
    assert allowed.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert "Origin" in allowed.headers["Vary"]
    preflight = open_to_one.options(HERE, headers={**origin, "Access-Control-Request-Method": "POST"})
    assert preflight.status_code == 200
    assert "Idempotency-Key" in preflight.headers["Access-Control-Allow-Headers"]
    body = {"path": "examples/doubling"}
    assert open_to_one.post(HERE, json=body, headers=origin).status_code == 202
    other = open_to_one.get(HERE, headers={"Origin": "https://evil.example"})
    assert "Access-Control-Allow-Origin" not in other.headers


# --- defects -------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("secret inside"), NoetlError("secret inside")])
def test_a_defect_is_a_500_that_says_nothing_of_the_inside(
    sim: Simulation,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    app = new_app(sim.rt, Settings())
    monkeypatch.setitem(cast("dict[str, Rule]", RULES), "broken", Rule("anybody"))

    def broken() -> None:
        raise error

    app.add_url_rule("/api/broken", "broken", broken)
    answer = app.test_client().get("/api/broken")

    assert answer.status_code == 500
    assert "secret inside" not in answer.text
    assert "Traceback" not in answer.text
    assert answer.json["incident"] in caplog.text
    assert "secret inside" in caplog.text


def test_every_answer_carries_the_headers_that_keep_browsers_honest(
    client: FlaskClient, sim: Simulation
) -> None:
    for path in ("/api/executions", "/api/nothing", "/api/openapi.json", f"/api/executions/{sim.start()}"):
        headers = client.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Frame-Options"] == "DENY"


def test_a_route_like_no_other_is_answered_without_a_guess(client: FlaskClient) -> None:
    answer = client.get("/api/metrics")
    assert answer.json["detail"] == "There is nothing at /api/metrics."
    assert "nearest" not in answer.json
