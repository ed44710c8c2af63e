"""What the examples must find, computed from the files themselves: no engine, no server.

    python examples/figures.py               # all figures, as JSON

The tests compare what the playbooks yield with these numbers.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import statistics
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any


def read(name: str) -> list[dict[str, str]]:
    """The rows of a file of the `vega_datasets` wheel, as text. Raises FileNotFoundError without
    the wheel."""
    spec = importlib.util.find_spec("vega_datasets")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            "The figures need the vega_datasets package: pip install 'noetl-celery[examples]'"
        )
    with Path(spec.origin).with_name("_data").joinpath(name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def weather() -> dict[str, Any]:
    """Days, months, years, and the extremes: mm of rain, degrees Celsius."""
    days = read("seattle-weather.csv")
    by_month: dict[str, list[dict[str, str]]] = defaultdict(list)
    by_year: dict[str, list[dict[str, str]]] = defaultdict(list)
    for day in days:
        year, month, _ = day["date"].split("/")
        by_month[f"{year}-{month}"].append(day)
        by_year[year].append(day)
    months = {month: _month(rows) for month, rows in by_month.items()}
    wettest = max(months, key=lambda month: months[month]["rain_mm"])
    hottest = max(days, key=lambda day: float(day["temp_max"]))
    return {
        "days": len(days),
        "months": len(months),
        "by_month": months,
        "by_year": {year: _year(rows) for year, rows in by_year.items()},
        "rain_mm_per_year": round(_rain(days) / len(by_year), 1),
        "wettest_month": wettest,
        "wettest_mm": months[wettest]["rain_mm"],
        "hottest_day": hottest["date"].replace("/", "-"),
        "hottest_temp": float(hottest["temp_max"]),
        "kinds": dict(Counter(day["weather"] for day in days)),
    }


def _rain(days: list[dict[str, str]]) -> float:
    return sum(float(day["precipitation"]) for day in days)


def _month(days: list[dict[str, str]]) -> dict[str, Any]:
    middle = [(float(day["temp_max"]) + float(day["temp_min"])) / 2 for day in days]
    return {
        "days": len(days),
        "mean_temp": round(statistics.fmean(middle), 2),
        "rain_mm": round(_rain(days), 1),
        "kinds": dict(Counter(day["weather"] for day in days)),
    }


def _year(days: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "days": len(days),
        "rain_mm": round(_rain(days), 1),
        "sun_days": sum(day["weather"] == "sun" for day in days),
    }


def airports(page_size: int = 50) -> dict[str, Any]:
    """Airports in all and by state; `pages` of `page_size` that it takes to read them state by
    state."""
    by_state = Counter(row["state"] for row in read("airports.csv"))
    most = sorted(by_state.items(), key=lambda item: (-item[1], item[0]))[:5]
    return {
        "total": sum(by_state.values()),
        "states": len(by_state),
        "by_state": dict(sorted(by_state.items())),
        "pages": sum((count + page_size - 1) // page_size for count in by_state.values()),
        "most": [{"state": state, "airports": count} for state, count in most],
    }


def main() -> int:
    try:
        figures = {"weather": weather(), "airports": airports()}
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    json.dump(figures, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
