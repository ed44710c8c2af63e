"""The page of executions: what it shows, what its filters mean, and what is done to those that were
chosen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.store.sql import SqlStore
from noetl.testing import Simulation
from noetl.ui.charts import HEIGHT, WIDTH, say_span
from noetl.ui.filters import LABELS, Filters
from noetl.ui.kept_parts import say_now
from noetl.ui.listing import PAGE
from noetl.usecases import catalog, control, inspect, pausing, tokens
from noetl.usecases.start import StartRequest, start
from tests.statements import listen

from .browsing import OWN, Page, sign_in

OTHER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: other, path: etl/other}
workload: {say: "no <b>money</b>"}
workflow:
  - step: start
    tool: {kind: python, input: {say: "{{ say }}"}, code: "raise ValueError(say)"}
"""


@pytest.fixture
def runs(sim: Simulation) -> dict[str, str]:
    """One of each: by what they are."""
    catalog.register(sim.rt, OTHER)
    found = {"done": sim.start({"n": 3}), "waiting": sim.start({"wait_for_go": True})}
    found["failed"] = start(sim.rt, StartRequest("etl/other", key="order-7")).execution_id
    sim.settle()
    found["pending"] = sim.start()
    return found


def listed(browser: FlaskClient, **query: Any) -> list[str]:
    answer = browser.get("/", query_string=query)
    assert answer.status_code == 200, Page(answer.text).text
    return re.findall(r'<tr id="x(\d+)"', answer.text)


@pytest.mark.parametrize("address", ["/", "/failures", "/playbooks", "/playbooks?q=doubles"])
def test_playbooks_are_named_without_their_texts_being_read(
    browser: FlaskClient, sim: Simulation, runs: dict[str, str], address: str
) -> None:
    store = sim.rt.store
    assert isinstance(store, SqlStore)
    said = listen(store)
    assert "examples/doubling" in browser.get(address).text
    assert [one for one in said if "content_sha256" in one]
    assert not [one for one in said if re.search(r"playbook\.content\b", one)]


def test_executions_are_listed_newest_first(browser: FlaskClient, runs: dict[str, str]) -> None:
    assert listed(browser) == [runs[name] for name in ("pending", "failed", "waiting", "done")]
    page = browser.get("/").text
    assert "no &lt;b&gt;money&lt;/b&gt;" in page
    assert f'<a class="main" href="/executions/{runs["failed"]}">order-7</a>' in page
    for one in ("1 completed", "1 waiting", "1 failed", "1 pending", "4 executions"):
        assert one in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"status": ["failed", "waiting"]}, ["failed", "waiting"]),
        ({"path": "etl/other"}, ["failed"]),
        ({"path": "e*g"}, ["pending", "waiting", "done"]),
        ({"path": "doubling"}, []),
        ({"version": "1"}, ["pending", "failed", "waiting", "done"]),
        ({"version": "2"}, []),
        ({"key": "order-7"}, ["failed"]),
        ({"error": "NO <B>"}, ["failed"]),
        ({"error": "no .b>"}, []),
        ({"waiting": "gate"}, []),
        ({"since": "-1h"}, ["pending", "failed", "waiting", "done"]),
        ({"until": "2026-01-01T00:00:00Z"}, []),
        ({"where": "status = 'failed' or status = 'pending'", "path": "etl/*"}, ["failed"]),
        ({"principal": "alice"}, []),
    ],
)
def test_filters_narrow_the_list(
    browser: FlaskClient, runs: dict[str, str], query: dict[str, Any], found: list[str]
) -> None:
    assert listed(browser, **query) == [runs[name] for name in found]


def test_a_group_of_failures_has_a_list(browser: FlaskClient, sim: Simulation, runs: dict[str, str]) -> None:
    (failed,) = inspect.executions(sim.rt, status="failed")
    groups = browser.get("/api/executions/failures").json["groups"]
    assert listed(browser, fingerprint=groups[0]["fingerprint"]) == [failed.execution_id]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"status": "broken"}, "no execution has the status 'broken'"),
        ({"where": "stat = 'x'"}, "there is no field 'stat'. Did you mean 'status'?"),
        ({"where": "status ="}, "The filter cannot be used at its end"),
        ({"where": "1=1); drop table x --"}, "The filter"),
        ({"since": "yesterday"}, "created is an instant"),
        ({"version": "two"}, "version is a number"),
        ({"before": "x"}, "'x' is not an execution id"),
        ({"parent": "x"}, "parent is an id"),
    ],
)
def test_what_is_wrong_with_a_filter_is_said(
    browser: FlaskClient, runs: dict[str, str], query: dict[str, str], said: str
) -> None:
    answer = browser.get("/", query_string=query)
    assert (answer.status_code, answer.mimetype) == (400, "text/html")
    page = Page(answer.text)
    assert said in page.text
    for name, text in query.items():
        assert name == "before" or text in page.text or page.fields[name] == text


@pytest.mark.parametrize("name", ["path", "key", "error", "waiting", "principal", "fingerprint"])
def test_no_text_is_more_than_a_text(browser: FlaskClient, runs: dict[str, str], name: str) -> None:
    for text in ("it's", 'a"b', "a\\b", "100%", "Ω ✓", "a*b*", "(?i)x", "'; --"):
        assert listed(browser, **{name: text}) == [], text
        assert Page(browser.get("/", query_string={name: text}).text).fields[name] == text


def test_an_address_holds_all_filters_and_a_link_takes_each_away(browser: FlaskClient) -> None:
    query = {"status": ["failed", "running"], "path": "etl/*", "error": "a&b=c"}
    page = Page(browser.get("/", query_string=query).text)
    assert "/?status=failed&status=running&error=a%26b%3Dc" in page.links
    assert "/?status=running&path=etl%2F%2A&error=a%26b%3Dc" in page.links
    assert "/?status=failed&status=running&path=etl%2F%2A" in page.links


def test_a_filter_is_called_the_same_in_its_label_and_in_its_chip(browser: FlaskClient) -> None:
    query = "&".join(
        f"{name}=1" for name in LABELS if name not in ("status", "where", "since", "until", "called")
    )
    page = browser.get(f"/?{query}&status=failed&since=-1h&called=hidden").text
    chips = re.findall(r'title="Remove this filter">([^:]+):', page)
    labels = re.findall(r"<label[^>]*>([A-Z][A-Za-z ]+) <(?:input|select)", page)
    assert len(chips) == 14
    assert set(chips) - {"Status"} <= set(labels)


def test_pages_hold_each_execution_once(browser: FlaskClient, sim: Simulation) -> None:
    runs = [sim.start() for _ in range(2 * PAGE + 1)]
    found, links = [], ["/"]
    while links:
        text = browser.get(links[-1]).text
        found += re.findall(r'<tr id="x(\d+)"', text)
        links = [unescape(one) for one in re.findall(r'rel="next" href="([^"]+)"', text)]
    assert found == runs[::-1]


def test_a_script_gets_the_part_that_changes(browser: FlaskClient, runs: dict[str, str]) -> None:
    part = browser.get("/?status=failed", headers={"HX-Request": "true"})
    assert part.text.lstrip().startswith('<section id="executions"')
    assert part.headers["Vary"] == "HX-Request, Accept-Encoding"
    assert 'hx-get="/?status=failed"' in part.text
    older = browser.get(f"/?before={runs['failed']}").text
    assert "data-live" not in older, "what is older does not change"


def test_bars_stand_where_executions_were_asked_for(browser: FlaskClient, sim: Simulation) -> None:
    catalog.register(sim.rt, OTHER)
    sim.start()
    sim.settle()
    sim.pass_time(3600)
    for _ in range(3):
        start(sim.rt, StartRequest("etl/other"))
    sim.settle()
    page = browser.get("/").text
    bars = re.findall(r'<rect class="(\w+)" x="([\d.]+)" y="([\d.]+)" width="[\d.]+" height="([\d.]+)"', page)
    first, last = [bar for bar in bars if bar[0] != "back"]
    assert (first[0], last[0]) == ("completed", "failed")
    assert float(first[1]) == 0
    assert float(last[1]) > WIDTH * 0.98 - WIDTH / 60
    assert float(last[3]) == HEIGHT
    assert float(first[3]) == pytest.approx(HEIGHT / 3)
    links = [unescape(one) for one in re.findall(r'<a href="(/\?since=[^"]+)"', page)]
    assert len(re.findall(r'<tr id="x', browser.get(links[-1]).text)) == 3
    assert len(re.findall(r'<tr id="x', browser.get(links[0]).text)) == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0008, "0.8 ms"),
        (0.123, "123 ms"),
        (0.9996, "1.00 s"),
        (9.994, "9.99 s"),
        (10, "10 s"),
        (64, "1 m 04 s"),
        (3600, "1 h 00 m"),
        (90061, "1 d 01 h"),
    ],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert say_span(seconds) == text


def test_filters_are_one_filter() -> None:
    filters = Filters(status=("failed",), path="etl/*", label="team=data", input="n", where="a = 1 or b = 2")
    assert filters.as_where() == (
        "status in ('failed') and path ~ '^etl/.*$' and label.\"team\" = 'data' and input.\"n\" is not null "
        "and (a = 1 or b = 2)"
    )
    assert Filters(called="hidden").as_where() == "parent is null"
    assert Filters().as_where() is None


# --- acting ---------------------------------------------------------------------------------------


def post(browser: FlaskClient, fields: dict[str, Any]) -> Any:
    return browser.post("/act", data=fields, headers=OWN)


def form_of(browser: FlaskClient) -> dict[str, str]:
    page = Page(browser.get("/login").text)
    return {"form_key": page.fields["form_key"]}


def test_those_that_were_chosen_are_cancelled_once_that_is_confirmed(
    browser: FlaskClient, sim: Simulation, runs: dict[str, str]
) -> None:
    fields = {**form_of(browser), "act": "cancel", "back": "/?status=waiting", "id": list(runs.values())}
    asked = Page(post(browser, fields).text)
    assert "Cancel 2 executions?" in asked.text
    assert "is skipped: it has ended (completed)" in asked.text
    assert sim.report(runs["waiting"]).row.status == "waiting"
    sure = {**fields, "sure": "yes", "reason": "<i>enough</i>", "id": [runs["waiting"], runs["done"]]}
    done = post(browser, sure)
    sim.settle()
    assert sim.report(runs["waiting"]).row.status == "cancelled"
    assert "Cancel: 1 execution, 1 refused" in Page(done.text).text
    assert "/?status=waiting" in Page(done.text).links
    elsewhere = post(browser, {**sure, "back": "https://evil.example"})
    assert "evil" not in elsewhere.text


def test_an_execution_has_what_can_be_done_to_it(
    browser: FlaskClient, sim: Simulation, runs: dict[str, str]
) -> None:
    def acts(name: str) -> list[str]:
        return re.findall(r'name="act" value="(\w+)"', browser.get(f"/executions/{runs[name]}").text)

    assert acts("waiting") == ["pause", "cancel"]
    assert acts("failed") == ["retry"]
    post(browser, {**form_of(browser), "act": "pause", "sure": "yes", "id": runs["waiting"]})
    sim.settle()
    assert acts("waiting") == ["resume", "cancel"]


def test_what_failed_is_retried(browser: FlaskClient, sim: Simulation, runs: dict[str, str]) -> None:
    fields = {**form_of(browser), "act": "retry", "sure": "yes", "confirmed": "yes", "id": [runs["failed"]]}
    page = Page(post(browser, fields).text)
    (again,) = inspect.executions(sim.rt, source=runs["failed"])
    assert f"/executions/{again.execution_id}" in page.links


def test_pausing_and_resuming(browser: FlaskClient, sim: Simulation, runs: dict[str, str]) -> None:
    chosen = {**form_of(browser), "sure": "yes", "id": [runs["pending"]]}
    post(browser, {**chosen, "act": "pause"})
    sim.settle()
    assert sim.report(runs["pending"]).row.status == "paused"
    post(browser, {**chosen, "act": "resume"})
    sim.settle()
    assert sim.report(runs["pending"]).row.status == "completed"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"act": "cancel"}, "No execution was chosen"),
        ({"act": "explode", "id": "1"}, "'explode' is nothing that can be done"),
        ({"act": "cancel", "id": [str(one) for one in range(300)]}, "at most 200"),
    ],
)
def test_what_cannot_be_done_is_said(browser: FlaskClient, fields: dict[str, Any], said: str) -> None:
    answer = post(browser, {**form_of(browser), **fields})
    assert (answer.status_code, said in Page(answer.text).text) == (400, True)


def test_who_may_only_look_is_offered_nothing_to_press(
    closed: Flask, sim: Simulation, runs: dict[str, str]
) -> None:
    def looks(*scopes: str) -> str:
        browser = closed.test_client()
        sign_in(browser, tokens.create(sim.rt, "eve", scopes).text)
        return str(browser.get("/").text)

    reader, some, all_of_them = looks("read"), looks("read", "operate:etl/*"), looks("read", "operate")
    assert 'name="id"' not in reader
    assert 'name="act"' not in reader
    assert 0 < some.count('name="id"') < all_of_them.count('name="id"')
    assert 'name="act"' in some


def test_who_may_only_look_acts_on_nothing(closed: Flask, sim: Simulation, runs: dict[str, str]) -> None:
    browser = closed.test_client()
    sign_in(browser, tokens.create(sim.rt, "bob", ["read", "operate:etl/*"]).text)
    fields = {**form_of(browser), "act": "cancel", "sure": "yes", "id": [runs["waiting"]]}
    assert "bob has no scope `operate`" in Page(post(browser, fields).text).text
    sim.settle()
    assert sim.report(runs["waiting"]).row.status == "waiting"
    sign_in(browser, tokens.create(sim.rt, "eve", ["read"]).text)
    assert post(browser, {**fields, **form_of(browser)}).status_code == 403


# --- news -----------------------------------------------------------------------------------------


def frames(answer: Any) -> Any:
    return (one for one in answer.iter_encoded() if not one.startswith(b":"))


def heard(frame: bytes) -> tuple[str, Any]:
    """Without the moment."""
    kind, text = frame.decode().strip().split("\n")
    data = json.loads(text.removeprefix("data: "))
    assert data.pop("at") <= say_now()
    assert data.pop("spread", 0) == 0, "nobody else listens"
    return kind.removeprefix("event: "), data


def test_news_tell_of_what_is_watched(browser: FlaskClient, sim: Simulation, runs: dict[str, str]) -> None:
    run = runs["waiting"]
    answer = browser.get(f"/news?id={run}", buffered=False)
    assert answer.mimetype == "text/event-stream"
    news = frames(answer)
    assert heard(next(news)) == ("hello", {"ids": [run]})
    pausing.pause_step(sim.rt, run, "gate")
    assert heard(next(news)) == ("changed", {"ids": [run], "any": False})
    answer.close()


def test_news_of_all_tell_that_something_has_changed(browser: FlaskClient, sim: Simulation) -> None:
    answer = browser.get("/news?all=1", buffered=False)
    news = frames(answer)
    assert heard(next(news)) == ("hello", {"ids": []})
    sim.start()
    assert heard(next(news)) == ("changed", {"ids": [], "any": True})
    answer.close()


@pytest.mark.parametrize("query", ["id=x", "&".join(f"id={one}" for one in range(60)), ""])
def test_news_of_nothing_are_refused(browser: FlaskClient, query: str) -> None:
    assert browser.get(f"/news?{query}").status_code == 400


def test_news_of_what_one_may_not_see_are_none(closed: Flask, sim: Simulation) -> None:
    run = sim.start()
    browser = closed.test_client()
    sign_in(browser, tokens.create(sim.rt, "bob", ["read:etl/*"]).text)
    assert browser.get(f"/news?id={run}").status_code == 400


# --- parts that are made once for many ------------------------------------------------------------


def part(browser: FlaskClient, moment: str, query: str = "") -> str:
    answer = browser.get(f"/?{query}", headers={"HX-Request": "true", "News-At": moment})
    assert answer.status_code == 200
    return answer.text


def test_a_part_is_made_once_for_all_who_heard_of_the_same_change(
    make: Callable[..., Flask], sim: Simulation
) -> None:
    app = make()
    one, two = app.test_client(), app.test_client()
    run = sim.start()
    heard = say_now()
    assert f'id="x{run}"' in part(one, heard)
    later = sim.start()
    assert f'id="x{later}"' not in part(two, heard), "the same part, as of the same change"
    assert f'id="x{later}"' in part(two, say_now()), "who has heard of another change sees it"
    assert f'id="x{later}"' in part(two, heard)
    assert f'id="x{later}"' not in part(two, heard, "status=failed")


def test_so_is_the_page_of_an_execution(make: Callable[..., Flask], sim: Simulation) -> None:
    app = make()
    run = sim.start()
    headers, before = {"HX-Request": "true", "News-At": say_now()}, len(sim.events(run))

    def look(query: str, **more: str) -> str:
        one = app.test_client()
        return str(one.get(f"/executions/{run}?{query}", headers={**headers, **more}).text)

    assert f'id="v{before}"' in look("tab=events")
    control.pause(sim.rt, run)
    assert f'id="v{before + 1}"' not in look("tab=events")
    assert f'id="v{before + 1}"' in look("tab=events&order=oldest"), "another look"
    assert f'id="v{before + 1}"' in look("tab=events", **{"News-At": say_now()})


def test_each_browser_has_the_marks_of_its_own_forms_in_it(
    make: Callable[..., Flask], sim: Simulation
) -> None:
    app = make()
    sim.start()
    heard = say_now()
    keys = []
    for browser in (app.test_client(), app.test_client()):
        own = form_of(browser)["form_key"]
        (found,) = re.findall(r'name="form_key" value="([^"]+)"', part(browser, heard))
        assert found == own
        keys.append(found)
    assert keys[0] != keys[1]


def test_what_one_may_see_another_may_not_for_all_that_they_heard(closed: Flask, sim: Simulation) -> None:
    run = sim.start()
    heard = say_now()
    for scope, sees in (("read", True), ("read:etl/*", False), ("read", True)):
        browser = closed.test_client()
        sign_in(browser, tokens.create(sim.rt, "bob", [scope]).text)
        assert (f'id="x{run}"' in part(browser, heard)) is sees


@pytest.mark.parametrize("moment", ["", "x", "elsewhere:1.0", "elsewhere:nan", "inf", ":", "9" * 5000])
def test_a_moment_that_is_none_is_now(browser: FlaskClient, sim: Simulation, moment: str) -> None:
    heard = moment.replace("elsewhere", say_now().rpartition(":")[0]) if "nan" in moment else moment
    for _ in range(2):
        run = sim.start()
        assert f'id="x{run}"' in part(browser, heard)
