"""The examples' server hands out every row exactly once, and the figures are those of the files."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import requests

from tests.waiting import GUARD_S

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = pytest.mark.acceptance


def load(name: str) -> ModuleType:
    """A script of the examples as a module: the folder is no package."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


figures = load("figures")
server = load("server")


class Client:
    """Reads the server as the playbooks do: page after page, trying again on 503."""

    def __init__(self, url: str, session: requests.Session) -> None:
        self.url = url
        self.session = session
        self.refused = 0

    def get(self, path: str, **query: Any) -> requests.Response:
        return self.session.get(self.url + path, params=query, timeout=GUARD_S)

    def until_answered(self, path: str, **query: Any) -> requests.Response:
        answer = self.get(path, **query)
        while answer.status_code == 503:
            self.refused += 1
            answer = self.get(path, **query)
        return answer

    def rows(self, path: str, **query: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        page = 1
        while page is not None:
            body = self.until_answered(path, page=page, **query).json()
            rows += body["rows"]
            page = body["next"]
        return rows


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    words = [sys.executable, str(EXAMPLES / "server.py"), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with requests.Session() as session:
        yield Client(url, session)


@pytest.mark.parametrize("size", [1, 7, 200, 500])
def test_the_pages_of_the_weather_hold_every_day_exactly_once(client: Client, size: int) -> None:
    if size == 1:  # 1,461 requests prove no more than the last three pages do
        last = [client.get("/weather", page=page, size=1).json() for page in (1459, 1460, 1461)]
        assert [body["next"] for body in last] == [1460, 1461, None]
        return
    days = client.rows("/weather", size=size)
    assert len(days) == 1461
    assert [day["date"] for day in days] == sorted({day["date"] for day in days})


def test_the_weather_served_adds_up_to_the_figures(client: Client) -> None:
    days = client.rows("/weather", size=200)
    expected = figures.weather()
    assert Counter(day["weather"] for day in days) == expected["kinds"]
    rain = Counter[str]()
    for day in days:
        rain[day["date"][:7]] += day["precipitation"]
    for month, figure in expected["by_month"].items():
        assert rain[month] == pytest.approx(figure["rain_mm"], abs=0.05)


def test_the_airports_read_state_by_state_are_all_airports_exactly_once(client: Client) -> None:
    states = client.get("/airports/states").json()
    rows = [row for state in states["states"] for row in client.rows("/airports", state=state, size=50)]
    assert states["total"] == len(rows) == 3376
    assert len({row["iata"] for row in rows}) == 3376
    assert Counter(row["state"] for row in rows) == figures.airports()["by_state"]


def test_every_run_meets_the_same_refusals_and_reads_all_rows_nevertheless(client: Client) -> None:
    seen = []
    for run in ("first", "second"):
        client.refused = 0
        for state in client.get("/airports/states").json()["states"]:
            client.rows("/airports", state=state, size=50, run=run)
        assert client.get("/refusals", run=run).json() == {"refused": client.refused}
        seen.append(client.refused)
    # 15 of the 100 pages are in trouble, six of them twice.
    assert seen == [21, 21]


def test_a_refusal_says_503_and_when_to_come_back(client: Client) -> None:
    refused = [
        answer
        for page in range(1, 69)
        if (answer := client.get("/airports", page=page, size=50, run="manners")).status_code != 200
    ]
    assert refused
    assert {answer.status_code for answer in refused} == {503}
    assert {answer.headers["Retry-After"] for answer in refused} == {"0"}


def test_without_a_run_nothing_is_refused(client: Client) -> None:
    client.rows("/airports", size=50)
    assert client.refused == 0


def test_a_page_that_owes_two_refusals_is_answered_on_the_third_request() -> None:
    trouble = server.Trouble()
    twice = next(text for text in map(str, range(1000)) if trouble.owed(text) == 2)
    assert [trouble.refuses("run", twice) for _ in range(4)] == [True, True, False, False]
    assert trouble.refuses("another run", twice)


@pytest.mark.parametrize(
    ("path", "query", "status", "says"),
    [
        ("/weather", {"page": "0"}, 400, "'page' must be a whole number"),
        ("/weather", {"page": "zwei"}, 400, "'page' must be a whole number"),
        ("/weather", {"page": "²"}, 400, "'page' must be a whole number"),
        ("/weather", {"size": "501"}, 400, "from 1 to 500"),
        ("/weather", {"page": "9", "size": "200"}, 400, "the last one is 8"),
        ("/whether", {}, 404, "there are /weather"),
    ],
)
def test_a_request_that_cannot_be_answered_says_why(
    client: Client, path: str, query: dict[str, str], status: int, says: str
) -> None:
    answer = client.get(path, **query)
    assert answer.status_code == status
    assert says in answer.json()["error"]


def test_an_unknown_state_is_one_empty_page(client: Client) -> None:
    body = client.get("/airports", state="ZZ").json()
    assert body == {"rows": [], "page": 1, "pages": 1, "next": None, "total": 0}


def test_the_figures_are_those_that_are_known_of_the_files() -> None:
    weather, airports = figures.weather(), figures.airports(page_size=50)
    assert (weather["days"], weather["months"]) == (1461, 48)
    assert [year["days"] for year in weather["by_year"].values()] == [366, 365, 365, 365]
    assert [year["rain_mm"] for year in weather["by_year"].values()] == [1226.0, 828.0, 1232.8, 1139.2]
    assert (weather["hottest_day"], weather["hottest_temp"]) == ("2014-08-11", 35.6)
    assert sum(weather["kinds"].values()) == sum(m["days"] for m in weather["by_month"].values()) == 1461
    assert (airports["total"], airports["states"], airports["pages"]) == (3376, 57, 100)
    assert airports["most"][0] == {"state": "AK", "airports": 263}
