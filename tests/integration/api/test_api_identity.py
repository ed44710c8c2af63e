"""Who asks: when a token is needed, how it is sent, and what is answered where it is not good."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import timedelta

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.api.identity import needs_token
from noetl.config import Settings
from noetl.testing import Simulation
from noetl.usecases import tokens

from .conftest import Asking

HERE = "/api/executions"
NEAR = {"REMOTE_ADDR": "127.0.0.1"}
#: Headers that say that somebody else asked for what a proxy asks for.
FORWARDING = (
    *("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Anything"),
    *("X-Real-IP", "X-Client-IP", "True-Client-IP", "CF-Connecting-IP", "Via"),
)


@pytest.mark.parametrize(
    ("settings", "environ", "needed"),
    [
        ({}, NEAR, False),
        ({}, {"REMOTE_ADDR": "::1"}, False),
        ({"host": "localhost"}, NEAR, False),
        ({}, {"REMOTE_ADDR": "10.0.0.7"}, True),
        ({}, {"REMOTE_ADDR": "8.8.8.8"}, True),
        # A Unix socket, and a server that does not tell.
        ({}, {"REMOTE_ADDR": ""}, True),
        ({}, {}, True),
        ({"host": "0.0.0.0"}, NEAR, True),
        ({"host": "10.0.0.1"}, NEAR, True),
        ({"host": ""}, NEAR, True),
        ({"open": False}, NEAR, True),
        ({"open": True, "host": "0.0.0.0"}, {"REMOTE_ADDR": "8.8.8.8", "HTTP_VIA": "x"}, False),
    ],
)
def test_a_token_is_needed_by_whoever_is_not_on_this_machine(
    settings: dict[str, object], environ: dict[str, str], needed: bool
) -> None:
    assert needs_token(Settings(**settings), environ) is needed  # type: ignore[arg-type]


@pytest.mark.parametrize("header", FORWARDING)
def test_what_a_proxy_forwards_needs_a_token(client: FlaskClient, header: str) -> None:
    assert client.get(HERE).status_code == 200
    assert client.get(HERE, headers={header: "127.0.0.1"}).status_code == 401
    assert client.get(HERE, headers={header: ""}).status_code == 401


def test_bad_inputs_row_32(closed: Flask, ask_as: Asking, sim: Simulation) -> None:
    """Missing, bad, expired; another scope; in the query string; a form of another origin."""
    nobody = closed.test_client()
    good = tokens.create(sim.rt, "ci", ["admin"]).text
    short = tokens.create(sim.rt, "ci", ["admin"], lifetime=timedelta(seconds=1)).text
    sim.pass_time(2)
    form = {
        "data": "path=x",
        "content_type": "application/x-www-form-urlencoded",
        "headers": {"Origin": "https://evil.example", "Authorization": f"Bearer {good}"},
    }
    answers = [
        nobody.get(HERE),
        nobody.get(HERE, headers={"Authorization": f"Bearer {good[:-1]}"}),
        nobody.get(HERE, headers={"Authorization": f"Bearer {short}"}),
        ask_as("read").post(HERE, json={"path": "examples/doubling"}),
        ask_as("admin").get(HERE, query_string={"access_token": good}),
        nobody.post(HERE, **form),  # type: ignore[arg-type]
    ]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 403, 401, 403]
    assert {answer.mimetype for answer in answers} == {"application/problem+json"}
    for answer in answers:
        assert good not in answer.text
        assert short not in answer.text
    assert "expired" in answers[2].json["detail"]
    assert "`run`" in answers[3].json["detail"]
    assert "Authorization: Bearer" in answers[4].json["detail"]


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Bearer noetl_",
        "Bearer noetl_x_y",
        "Bearer noetl__",
        "Bearer \u00e9",
        "Basic",
        "Basic !!",
        "Basic eA==",
        # x:noetl_ NUL _x
        "Basic eDpub2V0bF8AX3g=",
        "Digest username=x",
        "noetl_x_y",
        "",
    ],
)
def test_what_is_no_token_is_never_taken_for_nobody(client: FlaskClient, header: str) -> None:
    """Although none is needed."""
    answer = client.get(HERE, headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer.json["type"] == "urn:noetl:problem:unauthenticated"


def test_a_token_is_used_although_none_is_needed(client: FlaskClient, sim: Simulation) -> None:
    made = tokens.create(sim.rt, "ci", ["read"])
    headers = {"Authorization": f"bearer {made.text}"}
    told = client.get("/api/whoami", headers=headers).json
    assert told == {
        "principal": "ci",
        "groups": [],
        "scopes": ["read"],
        "token_id": made.row.token_id,
        "open": True,
    }
    assert client.post(HERE, json={"path": "examples/doubling"}, headers=headers).status_code == 403
    assert client.get("/api/whoami").json["principal"] == "anonymous"


def test_a_revoked_token_is_good_for_nothing(ask_as: Asking, sim: Simulation) -> None:
    somebody = ask_as("admin")
    (row,) = tokens.tokens(sim.rt)
    assert somebody.get(HERE).status_code == 200
    tokens.revoke(sim.rt, row.token_id)
    answer = somebody.get(HERE)
    assert answer.status_code == 401
    assert "revoked" in answer.json["detail"]


def test_health_is_told_to_everybody(closed: Flask) -> None:
    assert closed.test_client().get("/api/health").status_code == 200
    assert closed.test_client().head("/api/health").status_code == 200


def password(text: str, user: str = "me") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{text}".encode()).decode()}


def test_a_browser_may_send_a_token_as_its_password_to_read(closed: Flask, sim: Simulation) -> None:
    text = tokens.create(sim.rt, "me", ["admin"]).text
    client = closed.test_client()
    assert client.get("/", headers=password(text)).status_code == 200
    assert client.head("/", headers=password(text)).status_code == 200
    assert client.get(HERE, headers=password(text)).status_code == 200
    assert client.get(HERE, headers=password("wrong")).status_code == 401
    # A page of somebody else can make a browser send a password along.
    refused = client.post(HERE, json={"path": "examples/doubling"}, headers=password(text))
    assert refused.status_code == 401
    assert "Bearer" in refused.json["detail"]


def test_only_the_page_of_the_api_makes_a_browser_ask(closed: Flask, sim: Simulation) -> None:
    client = closed.test_client()
    schemes = client.get("/api/docs").headers.getlist("WWW-Authenticate")
    assert [one.partition(" ")[0] for one in schemes] == ["Bearer", "Basic"]
    for page in ("/", f"/executions/{sim.start()}"):
        assert not client.get(page).headers.getlist("WWW-Authenticate"), "they have a form"
    for path in (HERE, "/api/nothing", "/nothing"):
        assert client.get(path).headers.getlist("WWW-Authenticate") == ['Bearer realm="noetl"'], path


@pytest.mark.parametrize("name", ["token", "access_token", "api_key", "TOKEN", "path"])
def test_a_token_in_a_url_is_refused_good_or_not(
    client: FlaskClient, sim: Simulation, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    text = tokens.create(sim.rt, "ci", ["admin"]).text
    with caplog.at_level("DEBUG"):
        for path in (HERE, "/api/health", "/", "/api/nothing"):
            answer = client.get(path, query_string={name: text})
            assert answer.status_code == 401, path
            assert text not in answer.text
    assert text not in caplog.text


def test_a_token_in_a_path_or_an_id_is_not_repeated(
    ask_as: Asking, sim: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    lost = tokens.create(sim.rt, "ci", ["admin"])
    secret = lost.text.split("_", 2)[2]
    admin = ask_as("admin", principal="root")
    with caplog.at_level("DEBUG"):
        answers = [
            admin.get(f"/api/{lost.text}"),
            admin.get(f"/api/executions/{lost.text}"),
            admin.get(HERE, headers={"X-Request-ID": lost.text}),
            admin.get(HERE, headers={"X-Request-ID": f"a{lost.text}"}),
            admin.delete(f"/api/tokens/{lost.text}"),
        ]
    assert [answer.status_code for answer in answers] == [404, 404, 200, 200, 200]
    for answer in answers:
        assert secret not in answer.text + str(answer.headers)
    assert secret not in caplog.text


def test_a_preflight_needs_no_token(make: Callable[..., Flask]) -> None:
    client = make(open=False, cors_origins=("https://app.example",)).test_client()
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    answer = client.options(HERE, headers=asked)
    assert answer.status_code == 200
    assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]


def test_the_log_names_the_principal(ask_as: Asking, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "noetl.access"):
        ask_as("read", principal="ada").get(HERE)
    assert [record.fields["principal"] for record in caplog.records] == ["ada"]  # type: ignore[attr-defined]
