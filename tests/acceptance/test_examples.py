"""`make run` as a newcomer sees it: three playbooks through the whole stack, compared with figures
that were computed from the same files without it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest

from tests.waiting import GUARD_S

from .stack import ROOT, environment

pytestmark = pytest.mark.acceptance


def _figures() -> ModuleType:
    """`examples/figures.py`: the folder is no package."""
    spec = importlib.util.spec_from_file_location("examples_figures", ROOT / "examples" / "figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


figures = _figures()


@dataclass(frozen=True)
class Run:
    """What one `examples/run.py` left: its exit code, the results that it printed in order, and
    files."""

    code: int
    results: list[Any]
    said: str
    home: Path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("examples")
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "run.py")],
        cwd=home,
        env=environment({"home": home}),
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    return Run(done.returncode, list(_objects(done.stdout)), done.stderr, home)


def _objects(text: str) -> Iterator[Any]:
    """JSON values that follow one another."""
    decoder = json.JSONDecoder()
    text = text.strip()
    while text:
        value, end = decoder.raw_decode(text)
        yield value
        text = text[end:].strip()


def test_all_examples_complete_and_show_their_progress(run: Run) -> None:
    assert run.code == 0, run.said
    assert len(run.results) == 3
    assert run.said.count("\ncompleted ") == 3
    for log in (run.home / "logs").glob("*.log"):
        assert "Traceback" not in log.read_text(), f"{log}:\n{log.read_text()[-3000:]}"


def test_hello_greets(run: Run) -> None:
    assert run.results[0] == {"greeting": "Hello, world!"}


def test_the_weather_of_four_years_adds_up(run: Run) -> None:
    expected = figures.weather()
    result = run.results[1]
    assert result["verdict"] == ("wet" if expected["rain_mm_per_year"] >= 1000 else "dry")
    for name in ("days", "months", "wettest_month", "hottest_temp", "hottest_day"):
        assert result["totals"][name] == expected[name], name
    assert result["totals"]["rain_mm_per_year"] == pytest.approx(expected["rain_mm_per_year"], abs=0.06)
    assert result["totals"]["wettest_mm"] == pytest.approx(expected["wettest_mm"])
    assert [year["year"] for year in result["years"]] == sorted(expected["by_year"])
    for year in result["years"]:
        wanted = expected["by_year"][year["year"]]
        assert (year["days"], year["sun_days"]) == (wanted["days"], wanted["sun_days"])
        assert year["rain_mm"] == pytest.approx(wanted["rain_mm"], abs=0.06)


def test_the_parquet_file_holds_every_month(run: Run) -> None:
    file = run.home.with_name(f"{run.home.name}-out") / "seattle_weather.parquet"
    assert run.results[1]["file"] == str(file)
    with duckdb.connect() as connection:
        asked = connection.execute(
            "SELECT month, days, mean_temp, rain_mm, sun_days, fog_days, rain_days, drizzle_days, snow_days"
            " FROM read_parquet(?)",
            [str(file)],
        )
        rows = asked.fetchall()
    expected = figures.weather()["by_month"]
    assert [row[0] for row in rows] == sorted(expected), "all months, in order"
    for month, days, mean_temp, rain_mm, *kinds in rows:
        wanted = expected[month]
        assert (days, rain_mm) == (wanted["days"], wanted["rain_mm"]), month
        assert mean_temp == pytest.approx(wanted["mean_temp"], abs=0.011), month
        named = zip(("sun", "fog", "rain", "drizzle", "snow"), kinds, strict=True)
        assert {name: count for name, count in named if count} == wanted["kinds"], month


def test_all_airports_are_counted_though_the_server_refuses_now_and_then(run: Run) -> None:
    expected = figures.airports(page_size=50)
    result = run.results[2]
    for name in ("total", "states", "pages", "by_state", "most"):
        assert result[name] == expected[name], name
    assert result["retries"] > 0, "the server was to answer 503 for some pages"
