"""Instants and durations: ISO text at rest, computed without clock, locale or the zones of the
machine."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.errors import TemplateError, TemplateLimit
from noetl.expressions import evaluate
from noetl.expressions.instants import DIRECTIVES, duration, instant
from noetl.facts.durations import iso_duration
from noetl.facts.json import Json

_FIRST, _LAST = (datetime.fromisoformat(text) for text in ("0002-01-01", "9998-01-01"))
NAMES: dict[str, Any] = {"now": lambda: "2026-03-28T23:30:00.5+00:00", "day": "2026-01-05"}


def says(template: str) -> Json:
    return evaluate(f"{{{{ {template} }}}}", NAMES)


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("day | to_datetime", "2026-01-05T00:00:00+00:00"),
        ("'2026-01-05T01:00+02:00' | to_datetime", "2026-01-04T23:00:00+00:00"),
        ("1767571200 | to_datetime", "2026-01-05T00:00:00+00:00"),
        ("-0.5 | to_datetime", "1969-12-31T23:59:59.500000+00:00"),
        ("now() | to_datetime(tz='Europe/Berlin')", "2026-03-29T00:30:00.500000+01:00"),
        ("'05.01.2026 3:04 PM' | to_datetime('%d.%m.%Y %I:%M %p')", "2026-01-05T15:04:00+00:00"),
        ("'May 3 2026 +0130' | to_datetime('%b %d %Y %z')", "2026-05-02T22:30:00+00:00"),
        ("'12 AM' | to_datetime('%I %p') | strftime('%H')", "00"),
        # An hour that is left out, and one that comes twice.
        ("'2026-03-29T02:30' | to_datetime(tz='Europe/Berlin')", "2026-03-29T03:30:00+02:00"),
        ("'2026-10-25T02:30' | to_datetime(tz='Europe/Berlin')", "2026-10-25T02:30:00+02:00"),
        ("now() + timedelta(days=1, hours=2)", "2026-03-30T01:30:00.500000+00:00"),
        ("now() | to_datetime + '1d'", "2026-03-29T23:30:00.500000+00:00"),
        # A day is 24 hours, also where the clocks change.
        (
            "'2026-03-28T12:00' | to_datetime(tz='Europe/Berlin') + '1d' | timedelta",
            "2026-03-29T12:00:00+01:00",
        ),
        ("'2026-01-06' | to_datetime - day", "P1D"),
        ("('2026-01-06' | to_datetime - day).total_seconds()", 86400.0),
        ("(day | to_datetime).year", 2026),
        ("'1h30m' | timedelta * 2", "PT3H"),
        ("timedelta(days=1) / timedelta(hours=6)", 4.0),
        ("90 | timedelta", "PT1M30S"),
        ("-1 * timedelta(seconds=1.5)", "-PT1.5S"),
        ("timedelta()", "PT0S"),
        ("day | to_timestamp", 1767571200),
        ("now() | to_timestamp", 1774740600.5),
        ("day | to_datetime < now()", True),
        ("now() >= '2026-03-28T23:30:00.5Z' | to_datetime", True),
        ("day | to_datetime == '2026-01-05T01:00+01:00'", True),
        ("day | to_datetime == 'soon'", False),
        ("[day | to_datetime, timedelta(1)]", ["2026-01-05T00:00:00+00:00", "PT1S"]),
        ("day | to_datetime | tojson", '"2026-01-05T00:00:00+00:00"'),
        ("['2026-02-01', day] | map('to_datetime') | min", "2026-01-05T00:00:00+00:00"),
        ("day | strftime('%A %-d %B %Y, %j, week %V of %G')", "Monday 5 January 2026, 005, week 02 of 2026"),
        ("now() | strftime('%F %T %Z %z', tz='America/New_York')", "2026-03-28 19:30:00 EDT -0400"),
        ("'2026-01-05T10:00+02:00' | strftime('%H:%M %z')", "10:00 +0200"),
        ("day | strftime('100%%')", "100%"),
    ],
)
def test_what_templates_compute_with_time(template: str, value: Json) -> None:
    assert says(template) == value


@pytest.mark.parametrize(
    ("template", "error", "words"),
    [
        ("'soon' | to_datetime", TemplateError, "write it in ISO 8601"),
        ("'5.1.' | to_datetime('%d/%m')", TemplateError, "as '%d/%m' says"),
        ("'31.02.2026' | to_datetime('%d.%m.%Y')", TemplateError, "cannot read an instant"),
        ("day | to_datetime('%Y%F')", TemplateError, "says something twice"),
        ("day | to_datetime(tz='Europe/Berlni')", TemplateError, "Did you mean 'Europe/Berlin'?"),
        ("day | to_datetime(tz='../../etc/passwd')", TemplateError, "time zone"),
        ("day | to_datetime(tz='localtime')", TemplateError, "time zone"),
        ("day | to_datetime(tz='leapseconds')", TemplateError, "time zone"),
        ("day | to_datetime(tz=[])", TemplateError, "`tz` that is no text"),
        ("day | strftime(none)", TemplateError, "`format`"),
        ("day | strftime('%c')", TemplateError, "'%c'; there are %Y"),
        ("day | strftime('%')", TemplateError, "there are %Y"),
        ("day | strftime('%Y' * 500)", TemplateLimit, "200 characters"),
        ("true | to_datetime", TemplateError, "a boolean"),
        ("[] | to_datetime", TemplateError, "ISO 8601"),
        ("1e300 | to_datetime", TemplateLimit, "too long"),
        ("'9999-12-31' | to_datetime + timedelta(days=2)", TemplateLimit, "years 1 to 9999"),
        ("'0001-01-01' | to_datetime(tz='Asia/Tokyo')", TemplateLimit, "years 1 to 9999"),
        ("timedelta(days=10**12)", TemplateLimit, "too long"),
        ("timedelta(years=1)", TemplateError, "weeks, days, hours"),
        ("'tomorrow' | timedelta", TemplateError, "not a duration"),
        ("day | to_datetime + 1", TemplateError, "between an instant and a number"),
        ("(day | to_datetime).now()", TemplateError, "undefined"),
        ("(day | to_datetime).astimezone()", TemplateError, "undefined"),
    ],
)
def test_anything_but_a_time_is_said_in_a_sentence(
    template: str, error: type[TemplateError], words: str
) -> None:
    with pytest.raises(error, match=words.replace("?", r"\?").replace("[", r"\[").replace("%d/%m", "%d/%m")):
        says(template)


@given(
    st.datetimes(_FIRST, _LAST),
    st.sampled_from(["UTC", "Asia/Kolkata", "Europe/Berlin"]),
)
def test_an_instant_is_what_its_text_says(at: datetime, zone: str) -> None:
    aware = at.replace(tzinfo=UTC)
    there = instant(aware, zone)
    assert there == aware
    assert instant(there.isoformat()) == aware
    assert (
        evaluate("{{ at | to_datetime(tz=zone) }}", {"at": aware.isoformat(), "zone": zone})
        == there.isoformat()
    )
    assert evaluate("{{ at | strftime(form) }}", {"at": there, "form": "%Y-%m-%dT%T"}) == there.strftime(
        "%Y-%m-%dT%H:%M:%S"
    ).rjust(19, "0")


@given(st.timedeltas(timedelta(days=-3000), timedelta(days=3000)))
def test_a_duration_is_what_its_text_says(length: timedelta) -> None:
    assert abs(duration(iso_duration(length)) - length) <= timedelta(microseconds=1)


@given(st.text(max_size=30))
def test_any_text_is_an_instant_or_a_sentence(text: str) -> None:
    for template in (
        "{{ text | to_datetime }}",
        "{{ 0 | strftime(text) }}",
        "{{ 0 | to_datetime(tz=text) }}",
        "{{ text | timedelta }}",
    ):
        assert "cannot be evaluated" not in _said(template, text)


def _said(template: str, text: str) -> str:
    try:
        return str(evaluate(template, {"text": text}))
    except TemplateError as error:
        return str(error)


def test_neither_locale_nor_zone_nor_zone_files_of_the_machine_count() -> None:
    code = (
        "import locale, sys\n"
        "from noetl.expressions import evaluate\n"
        "for name in ('de_DE.UTF-8', 'fr_FR.UTF-8', 'C'):\n"
        "    try:\n        locale.setlocale(locale.LC_ALL, name)\n        break\n"
        "    except locale.Error:\n        pass\n"
        "t = \"{{ '2026-07-05T12:00' | to_datetime(tz='Europe/Berlin') }} \"\n"
        "t += \"{{ 0 | strftime('%A %B %H %Z') }}\"\n"
        "print(evaluate(t, {}))\n"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"TZ": zone, "PYTHONTZPATH": path, "LC_ALL": "de_DE.UTF-8"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for zone, path in (("Asia/Tokyo", ""), ("America/New_York", "/usr/share/zoneinfo"))
    }
    assert told == {"2026-07-05T12:00:00+02:00 Thursday January 00 UTC\n"}


def test_the_directives_are_a_fixed_list() -> None:
    assert " ".join(DIRECTIVES) == "Y y m d j H I p M S f z Z A a B b u w G V F T s %"
