"""Business keys over HTTP: given, refused, listed, and in the place of an id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import quote

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.api.segments import KeptSegments
from noetl.testing import Simulation

HERE = "/api/executions"
PATH = "examples/doubling"
#: What people may call things by, and servers may stumble over.
ODD = [
    "order/7",
    "a b",
    "Größe ✓",
    "100%",
    "%2F",
    "a%2Fb/c%",
    "?x=1",
    "#",
    "a+b",
    "a:b",
    "/",
    "//",
    "+",
    "'\"",
]


@pytest.fixture
def keyed(client: FlaskClient) -> Callable[..., str]:
    """Starts an execution with a key, which waits at its gate; returns its id."""

    def start(key: str, **more: object) -> str:
        body = {"path": PATH, "payload": {"wait_for_go": True}, "key": key, **more}
        answer = client.post(HERE, json=body)
        assert answer.status_code == 202, answer.json
        return str(answer.json["execution_id"])

    return start


def test_a_key_is_shown_and_finds_its_execution(client: FlaskClient, keyed: Callable[..., str]) -> None:
    run = keyed("order-7")
    assert client.get(f"{HERE}/{run}").json["key"] == "order-7"
    (listed,) = client.get(HERE, query_string={"key": "order-7"}).json["executions"]
    assert (listed["execution_id"], listed["key"]) == (run, "order-7")
    assert client.get(HERE, query_string={"key": "order-8"}).json["executions"] == []


def test_filters_take_keys_in_the_place_of_ids(client: FlaskClient, keyed: Callable[..., str]) -> None:
    run = keyed("order/7")
    fork = client.post(f"{HERE}/{run}/fork", json={"at": 1}).json["execution_id"]
    (listed,) = client.get(HERE, query_string={"source": "order/7"}).json["executions"]
    assert listed["execution_id"] == fork
    assert client.get(HERE, query_string={"parent": f"{PATH}:order/7"}).json["executions"] == []
    assert client.get(HERE, query_string={"parent": "order/8"}).status_code == 404


def test_a_start_is_refused_with_the_id_of_the_open_one(
    client: FlaskClient, keyed: Callable[..., str]
) -> None:
    run = keyed("k")
    answer = client.post(HERE, json={"path": PATH, "key": "k"})
    assert (answer.status_code, answer.json["type"]) == (409, "urn:noetl:problem:key-taken")
    assert answer.json["execution_id"] == run
    assert f"Execution {run} of playbook '{PATH}' is open" in answer.json["detail"]


def test_a_start_returns_or_cancels_the_open_one(
    client: FlaskClient, keyed: Callable[..., str], sim: Simulation
) -> None:
    run = keyed("k")
    sim.settle()
    again = client.post("/api/workflows/run", json={"path": PATH, "key": "k", "on_conflict": "return"})
    assert (again.status_code, again.json["execution_id"], again.json["existing"]) == (202, run, True)
    assert again.json["status"] == "waiting"
    other = client.post(HERE, json={"path": PATH, "key": "k", "on_conflict": "cancel_other"})
    assert (other.status_code, other.json["existing"]) == (202, False)
    sim.settle()
    assert client.get(f"{HERE}/{run}").json["status"] == "cancelled"
    assert client.get(f"{HERE}/k").json["execution_id"] == other.json["execution_id"]


def test_a_batch_answers_each_item_by_its_policy(client: FlaskClient) -> None:
    items = [{"path": PATH, "key": "k"}, {"path": PATH, "key": "k"}, {"path": PATH, "key": "\n"}]
    items.append({"path": PATH, "key": "k", "on_conflict": "return"})
    answer = client.post(f"{HERE}/batch", json={"executions": items}).json
    first, second, third, fourth = answer["executions"]
    assert (answer["accepted"], answer["refused"]) == (2, 2)
    assert second["problem"]["execution_id"] == first["execution_id"] == fourth["execution_id"]
    assert third["problem"]["detail"] == "`key` is empty."
    assert (first["existing"], fourth["existing"]) == (False, True)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"key": ""}, "`key` is empty"),
        ({"key": "x" * 201}, "`key` has 201 characters"),
        ({"key": 7}, "key: Input should be a valid string"),
        ({"key": "a\u2028b"}, "cannot be printed (U+2028)"),
        ({"key": "k", "on_conflict": "retrun"}, "'reject', 'return' or 'cancel_other'"),
        ({"on_conflict": "return"}, "`on_conflict` is given without a key"),
        ({"kye": "a"}, "Did you mean 'key'?"),
    ],
)
def test_what_is_no_key_is_answered(client: FlaskClient, more: dict[str, object], told: str) -> None:
    answer = client.post(HERE, json={"path": PATH, **more})
    assert (answer.status_code, told in answer.json["detail"]) == (400, True), answer.json


@pytest.mark.parametrize("key", ODD)
def test_every_route_takes_a_key_in_the_place_of_an_id(
    client: FlaskClient, keyed: Callable[..., str], sim: Simulation, key: str
) -> None:
    run = keyed(key)
    sim.settle()
    for address in (key, f"{PATH}:{key}"):
        sent = quote(address, safe="")
        assert client.get(f"{HERE}/{sent}").json["execution_id"] == run
        assert client.get(f"{HERE}/{sent}/result").json["execution_id"] == run
        assert client.get(f"{HERE}/{sent}/events?limit=1").json["events"][0]["execution_id"] == run
        assert client.get(f"{HERE}/{sent}/diff/{run}").json["a"]["execution_id"] == run
        assert client.get(f"{HERE}/{run}/diff/{sent}").json["b"]["execution_id"] == run
        assert client.get(f"/api/vars/{sent}/total").json["value"] == 4
        assert client.get(f"/api/workflows/status/{sent}").json["execution_id"] == run
        assert client.post(f"{HERE}/{sent}/pause").json["execution_id"] == run
        assert client.post(f"{HERE}/{sent}/resume").json["execution_id"] == run
    assert client.post(f"{HERE}/{quote(key, safe='')}/cancel").json["execution_id"] == run


def test_every_route_of_an_execution_resolves_its_address(make: Callable[..., Flask]) -> None:
    rules = [
        rule
        for rule in make().url_map.iter_rules()
        if "execution_id" in rule.arguments and not rule.endpoint.startswith("pages.")
    ]
    assert len(rules) > 15
    with make().test_client() as client:
        for rule in rules:
            method = next(iter(rule.methods & {"GET", "POST", "PUT", "PATCH"}))
            url = (
                str(rule).replace("<execution_id>", "no%2Fkey").replace("<other>", "x").replace("<name>", "n")
            )
            answer = client.open(url, method=method, json={"value": 1} if method == "PUT" else {})
            assert answer.status_code == 404, url
            assert answer.json["detail"] == (
                "There is no execution 'no/key': nothing has that id or business key."
            )


def test_a_key_of_several_playbooks_asks_for_a_path(
    client: FlaskClient, keyed: Callable[..., str], text: str
) -> None:
    run = keyed("same")
    client.post("/api/catalog", json={"content": text.replace(PATH, "examples/other")})
    client.post(HERE, json={"path": "examples/other", "key": "same"})
    answer = client.get(f"{HERE}/same")
    assert answer.status_code == 409
    assert answer.json["detail"].endswith(
        "name the one that you mean: 'examples/doubling:same', 'examples/other:same'."
    )
    assert client.get(f"{HERE}/examples%2Fdoubling:same").json["execution_id"] == run


def test_the_name_of_a_variable_may_be_encoded(client: FlaskClient, started: Callable[..., str]) -> None:
    run = started(wait_for_go=True)
    client.patch(f"{HERE}/{run}/ctx", json={"50%/x": 1})
    assert client.put(f"/api/vars/{run}/{quote('50%/x', safe='')}", json={"value": 2}).status_code == 200


def test_the_document_of_a_playbook_says_that_its_start_may_have_a_key(client: FlaskClient) -> None:
    document = client.get(f"/api/catalog/{PATH}/openapi.json").json
    start = document["paths"][HERE]["post"]
    body = start["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["key"] == {"type": "string", "maxLength": 200}
    assert body["properties"]["on_conflict"] == {"enum": ["reject", "return", "cancel_other"]}
    assert "409" in start["responses"]
    answer = client.post(HERE, json={"path": PATH}).json
    started = document["components"]["schemas"]["Started"]
    assert set(answer) == set(started["properties"]) == set(started["required"])


def test_the_page_of_an_execution_takes_a_key_as_well(make: Callable[..., Flask]) -> None:
    browser = make().test_client()
    run = browser.post(HERE, json={"path": PATH, "key": "order/7"}).json["execution_id"]
    for address in ("order/7", "order%2F7", f"{PATH}:order/7", run):
        assert f"order/7, {run}" in browser.get(f"/executions/{address}").text
    assert browser.get("/executions/order").status_code == 404


def _path_info(environ: Mapping[str, str]) -> str:
    seen = {}
    app = KeptSegments(lambda given, _start: seen.update(given) or [])
    app(dict(environ), lambda *_: lambda _: None)
    return str(seen["PATH_INFO"])


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"PATH_INFO": "/api/executions/a/b", "RAW_URI": "/api/executions/a%2fb?x=/y"}, "a%2Fb"),
        ({"PATH_INFO": "/api/executions/a%b", "REQUEST_URI": "/api/executions/a%25b"}, "a%25b"),
        ({"PATH_INFO": "/api/executions/a/b", "RAW_URI": "http://h:1/api/executions/a%2Fb"}, "a%2Fb"),
        # A server that does not say what was sent, or says another thing: slashes are slashes.
        ({"PATH_INFO": "/api/executions/a/b%"}, "a/b%25"),
        ({"PATH_INFO": "/api/executions/a/b", "RAW_URI": "/elsewhere"}, "a/b"),
        (
            {"PATH_INFO": "/api/executions/a/b", "SCRIPT_NAME": "/up", "RAW_URI": "/up/api/executions/a%2Fb"},
            "a%2Fb",
        ),
    ],
)
def test_segments_are_kept_as_they_were_sent(environ: dict[str, str], path: str) -> None:
    assert _path_info(environ) == f"/api/executions/{path}"


def test_paths_of_the_catalog_are_left_alone() -> None:
    assert (
        _path_info({"PATH_INFO": "/api/catalog/a/b", "RAW_URI": "/api/catalog/a%2Fb"}) == "/api/catalog/a/b"
    )
