"""How the page of an execution shows values: variables, results, what is kept apart."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from flask.testing import FlaskClient

from noetl.facts.reference import Retention
from noetl.testing import Simulation
from noetl.ui.run.variables import MOST
from noetl.ui.values import PAGE
from noetl.usecases import control

from .browsing import Page

ROWS = [{"id": number, "name": f"n{number}", "paid": number % 2 == 0} for number in range(120)]


@pytest.fixture
def waiting(sim: Simulation) -> str:
    """An execution that waits, so that its variables can be set."""
    execution_id = sim.start({"wait_for_go": True})
    sim.settle()
    return execution_id


def put(sim: Simulation, execution_id: str, **variables: Any) -> None:
    control.patch_ctx(sim.rt, execution_id, variables)
    sim.settle()


def look(browser: FlaskClient, execution_id: str, **query: Any) -> Page:
    answer = browser.get(f"/executions/{execution_id}", query_string={"tab": "variables", **query})
    assert answer.status_code == 200, answer.text
    return Page(answer.text)


def test_variables_and_results_are_named_values(browser: FlaskClient, sim: Simulation, waiting: str) -> None:
    put(sim, waiting, city="Oslo <b>", counts={"00": 512, "11": 488}, rows=ROWS[:2])
    page = look(browser, waiting)
    for text in ("city", "Oslo <b>", "512", "51.2%", "n0", "n1", "double"):
        assert text in page.text, text
    assert "b" not in page.tags


def test_numbers_and_their_sum_are_no_parts_of_a_whole(
    browser: FlaskClient, sim: Simulation, waiting: str
) -> None:
    put(sim, waiting, stats={"total": 5000, "completed": 4992, "failed": 8})
    assert "4992" in look(browser, waiting).text
    assert "%" not in look(browser, waiting).text
    put(sim, waiting, counts={"total": 2, "completed": 4992, "failed": 8})
    assert "99.8%" in look(browser, waiting).text


@pytest.mark.parametrize(
    ("name", "numbers", "is_chart"),
    [
        ("place", {"lat": 52.52, "lon": 13.405}, False),
        ("loaded", {"rows_read": 100_000, "rejected": 12, "attempt": 1}, False),
        ("user", {"10": 7, "101": 9}, False),
        ("measured", {"00": 512, "11": 488}, True),
        ("measured", {"|01⟩": 3, "|10⟩": 4}, True),
        ("status_counts", {"open": 3, "closed": 9}, True),
        ("counts", {"open": 0.25, "closed": 0.75}, False),
    ],
)
def test_numbers_are_a_chart_where_they_are_said_to_be_counts(
    browser: FlaskClient, sim: Simulation, waiting: str, name: str, numbers: dict[str, float], is_chart: bool
) -> None:
    put(sim, waiting, **{name: numbers})
    assert ("%" in look(browser, waiting).text) == is_chart


def test_rows_of_sql_are_shown_page_by_page(browser: FlaskClient, sim: Simulation, waiting: str) -> None:
    put(sim, waiting, answer={"rows": ROWS, "row_count": 120, "columns": ["name"]})
    page = look(browser, waiting, open="ctx.answer", page=2)
    assert "rows 101 to 120 of 120" in page.text
    assert "n119" in page.text


def test_a_long_list_is_shown_page_by_page(browser: FlaskClient, sim: Simulation, waiting: str) -> None:
    put(sim, waiting, rows=ROWS)
    (more,) = [one for one in look(browser, waiting).links if "open=" in one]
    seen, links = [], [more]
    while links:
        text = browser.get(links[-1].partition("#")[0]).text
        seen += re.findall(r">n(\d+)<", text)
        links = [unescape(one) for one in re.findall(r'rel="next" href="([^"]+)"', text)]
    assert seen == [str(number) for number in range(120)]
    beyond = look(browser, waiting, open="ctx.rows", page="99999")
    assert "rows 101 to 120 of 120" in beyond.text
    for nonsense in ("-1", "x", "²", "9" * 40):
        assert f"rows 1 to {PAGE} of 120" in look(browser, waiting, open="ctx.rows", page=nonsense).text


def test_what_is_kept_apart_is_opened_where_it_is_asked_for(
    browser: FlaskClient, sim: Simulation, waiting: str
) -> None:
    many = [{"id": number, "name": f"n{number}"} for number in range(60_000)]
    reference = sim.rt.results.put(many, Retention(waiting))
    put(sim, waiting, big=reference)
    page = look(browser, waiting)
    assert "60,000 rows" in page.text
    assert "n0" in page.text, "the first rows stand with the reference"
    assert "n59" not in page.text
    opened = look(browser, waiting, open="ctx.big", page="1199")
    assert "n59999" in opened.text
    assert "n59949" not in opened.text
    (whole,) = [one for one in opened.links if one.endswith(".parquet")]
    assert browser.get(whole).json[59_999] == {"id": 59_999, "name": "n59999"}


@pytest.mark.parametrize("is_expired", [False, True])
def test_what_is_gone_is_said(browser: FlaskClient, sim: Simulation, waiting: str, is_expired: bool) -> None:
    until = sim.rt.clock() + timedelta(hours=2)
    keep = Retention(waiting, until=until if is_expired else None)
    put(sim, waiting, big=sim.rt.results.put("x" * 100_000, keep))
    if is_expired:
        assert "xxx" in look(browser, waiting, open="ctx.big").text
        sim.pass_time(3 * 3600)
    else:
        sim.rt.results.remove(keep.place)
    gone = look(browser, waiting, open="ctx.big")
    assert ("has expired" if is_expired else "run its step again") in gone.text
    assert "100,000 characters" in gone.text


def test_what_only_looks_like_a_reference_is_data(
    browser: FlaskClient, sim: Simulation, waiting: str
) -> None:
    fake = {"kind": "result_ref", "ref": 'noetl://results/../../"><script>', "meta": {"bytes": "many"}}
    put(sim, waiting, fake=fake, parts={"kind": "manifest", "parts": [1], "count": "x"})
    for opened in ("ctx.fake", "ctx.parts"):
        page = look(browser, waiting, open=opened)
        assert not [one for one in page.links if "/api/results" in one]


def test_secrets_that_values_name_are_not_shown(browser: FlaskClient, sim: Simulation, waiting: str) -> None:
    secret = {"kind": "secret_ref", "keychain": "db", "execution": waiting, "seal": "c2VhbA"}
    put(sim, waiting, secret=secret, deep=[[[[[[{"x": secret}]]]]]], listed=[secret, 1])
    page = look(browser, waiting)
    assert "c2VhbA" not in page.text
    assert "a secret" in page.text


def test_all_variables_are_reached_however_many(browser: FlaskClient, sim: Simulation, waiting: str) -> None:
    put(sim, waiting, **{f"v{number}": number for number in range(MOST + 20)})
    page = look(browser, waiting)
    assert "more: all of them" in page.text
    assert f"v{MOST + 19}" in look(browser, waiting, open=f"ctx.v{MOST + 19}").text
