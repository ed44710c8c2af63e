"""What a filter may say, what it means, and what is said of one that cannot be used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import BadRequest
from noetl.facts.failures import failure_of
from noetl.usecases.facets import write_facets
from noetl.usecases.fields import FACETS, FIELDS, holds
from noetl.usecases.ports import ExecutionRow
from noetl.usecases.where import parse_where

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ERROR = {"kind": "sql", "type": "OperationalError", "step": "load", "task": "t", "message": "it timed out"}
ROW = ExecutionRow(
    "100",
    "shop/orders",
    3,
    "d",
    "failed",
    9,
    9,
    created_at=NOW - timedelta(hours=2),
    updated_at=NOW,
    ended_at=NOW - timedelta(hours=1),
    error=ERROR,
    parent_id="99",
    labels=write_facets({"team": "data", "Team": "Big", "app.io": "1", "my-team": "a"}),
    inputs=write_facets({"customer": "acme", "userId": "7", "dry": "true"}),
)
#: One that has nothing that it need not have.
BARE = ExecutionRow("1000", "a'b", 1, "d", "running", 1, 0, created_at=NOW, updated_at=NOW)


@pytest.mark.parametrize(
    ("text", "of_row", "of_bare"),
    [
        ("status = 'failed'", True, False),
        ("status != 'failed'", False, True),
        ("status <> 'failed'", False, True),
        ("STATUS = 'failed' AND version = 3", True, False),
        ("status in ('failed', 'partial')", True, False),
        ("status not in ('failed', 'partial')", False, True),
        ("not status = 'failed'", False, True),
        ("status = 'failed' or version = 1", True, True),
        ("status = 'failed' and version = 1 or version = 1", False, True),
        ("status = 'failed' and (version = 1 or version = 1)", False, False),
        ("path = 'a''b'", False, True),
        ("path ~ '^shop/'", True, False),
        ("path !~ '^shop/'", False, True),
        ("error ~ 'timed? out'", True, False),
        ("error !~ 'timed? out'", False, True),
        ("error = 'it timed out'", True, False),
        ("kind = 'sql' and type = 'OperationalError' and step = 'load' and task = 't'", True, False),
        (f"fingerprint = '{failure_of(ERROR).fingerprint}'", True, False),
        ("version >= 2 and version < 4", True, False),
        ("version > -1", True, True),
        ("id = 100", True, False),
        ("id = '0100'", True, False),
        ("id < 1000", True, False),
        ("parent = 99", True, False),
        ("parent is null", False, True),
        ("parent is not null", True, False),
        ("parent != 99", False, True),
        ("parent > 1", True, False),
        ("not parent > 1", False, True),
        ("descent = 'retry'", False, False),
        ("descent != 'retry'", True, True),
        ("source = 1 or operation = 1", False, False),
        ("ended > '-2h'", True, False),
        ("ended > '-30m'", False, False),
        ("ended <= '-30m'", True, False),
        ("not ended > '-30m'", True, True),
        ("created < '2026-01-31T11:00:00Z'", True, False),
        ("created < '2026-01-31T13:00:00+02:00'", True, False),
        ("created >= '2026-01-31'", True, True),
        ("error = 'x' -- what stands behind it is a comment", False, False),
        (f"{'(' * 500}version = 3{')' * 500}", True, False),
        ("label.team = 'data'", True, False),
        ("LABEL.team <> 'data'", False, True),
        ("label.team ~ '^da' and label.team !~ '^x'", True, False),
        ("label.Team = 'Big' and label.\"Team\" = 'Big'", True, False),
        ("label.team is null", False, True),
        ("label.app.io = '1'", True, False),
        ('label."app.io" = 1 and "label.app.io" = 1', True, False),
        ("label.\"my-team\" in ('a', 'b')", True, False),
        ("input.customer = 'acme' or input.customer is null", True, True),
        ("input.userId = 7 and input.userId != 8 and input.userid is null", True, False),
        ("input.dry = true and not input.dry = 'false'", True, False),
        ("error = 'é' or input . userid is null or input.userId = 7", True, True),
    ],
)
def test_a_filter_means(text: str, of_row: bool, of_bare: bool) -> None:
    condition = parse_where(text, NOW)
    assert (holds(condition, ROW), holds(condition, BARE)) == (of_row, of_bare)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "The filter is empty"),
        ("  \n", "The filter is empty"),
        ("version = 1\0", "at character 12: it is no text there"),
        ("path = '\udcff'", "at character 9: it is no text there"),
        ("version = 1" + " " * 10_000, "at most 10000 are read"),
        ("status = ", "at its end: syntax error at end of input."),
        ("status = 'failed')", "at character 18 (')'): syntax error"),
        ("statsu = 'failed'", "at character 1 (\"statsu = 'failed'\"): there is no field 'statsu'. Did you"),
        ("error = 'é' and statsu = 'failed'", "at character 17"),
        ("error = 'é' and = 1", "at character 17"),
        ("colour = 'red'", "The fields are id, status"),
        ("status = 'faild'", "no execution has the status 'faild'. Did you mean 'failed'?"),
        ("status = 'x'", "There are pending, running"),
        ("status = failed", "values stand in single quotes: status = 'failed'"),
        ("input.City != Oslo", "values stand in single quotes: input.City != 'Oslo'"),
        ("'failed' = status", "the name of a field stands on the left"),
        ("lower(status) = 'failed'", "the name of a field stands on the left"),
        ("execution.status = 'failed'", "there is no field 'execution.status'"),
        ("status > 'failed'", "status is text, and compared by"),
        ("status = 1", "status is text, written in single quotes"),
        ("status = null", "a value is text in single quotes, or a whole number"),
        ("version = '1'", "version is a number"),
        ("version = 1.5", "or a whole number"),
        ("version = 99999999999", "version is a number up to 2147483647"),
        ("version ~ '1'", "~ searches text"),
        ("label = 'data'", "there is no field 'label'. Write label.NAME."),
        ("label.* = 'data'", "there is no field 'label.*'. Write label.NAME."),
        ("input = 'data'", "Write input.NAME."),
        ("labels.team = 'data'", "there is no field 'labels.team'. Did you mean 'label.team'?"),
        ("inputs.n = 1", "Did you mean 'input.n'?"),
        ("colour.red = 1", "fingerprint, label.NAME, input.NAME."),
        ("label.my-team = 'a'", "where it has other characters, it is quoted: label.\"my-team\" = 'data'"),
        ("input.n > 3", "at character 9 ('> 3'): input.n is text, and compared by =, !=, ~, !~ and in (…)"),
        ("input.n = 1.5", "a value is text in single quotes, or a whole number"),
        ("input.n = null", "a value is text in single quotes, or a whole number"),
        (f"input.n = '{'x' * 201}'", "of input.n the first 200 characters are kept, and no more"),
        ("label.team ~ '('", "'(' is no pattern"),
        ("version between 1 and 2", "fields are compared with values by ="),
        ("path like 'a%'", "fields are compared with values by ="),
        ("version % 1", "'%' compares nothing here"),
        ("version = any('{1}')", "fields are compared with values by ="),
        ("id = 'abc'", "id is an id, a decimal number"),
        ("id = -1", "id is an id, a decimal number"),
        ("error ~ '('", "'(' is no pattern: unclosed group"),
        ("error ~ '(?=x)'", "is no pattern"),
        ("ended > 'yesterday'", "ended is an instant: '2026-01-31T12:00:00Z', or '-2h'"),
        ("ended > '-2 fortnights'", "ended is an instant"),
        ("ended > '0001-01-01T00:00:00+14:00'", "ended is an instant"),
        ("status", "a condition compares a field with a value"),
        ("true", "a condition compares a field with a value"),
        ("exists (select 1)", "a condition compares a field with a value"),
        ("version in (select 1)", "a condition compares a field with a value"),
        ("version = 1; drop table execution", "more than a condition"),
        ("version = 1 union select 1", "more than a condition"),
        ("version = 1 order by 1", "more than a condition"),
        ("version = 1 limit 1", "more than a condition"),
        ("version = 1 for update", "more than a condition"),
        ("not " * 1000 + "version = 1", "nests too deeply"),
    ],
)
def test_a_filter_that_cannot_be_used_is_answered_with_its_place(text: str, told: str) -> None:
    with pytest.raises(BadRequest) as raised:
        parse_where(text, NOW)
    assert told in raised.value.message


def test_every_field_can_be_asked_for() -> None:
    values: dict[str, Any] = {"number": 1, "id": 1, "instant": "'-1h'", "text": "'x'"}
    known = {"status": "'failed'", "descent": "'fork'"}
    for name, field in FIELDS.items():
        condition = parse_where(f"{name} = {known.get(name, values[field.kind])}", NOW)
        assert holds(condition, ROW) in (True, False)
        assert holds(parse_where(f"{name} is null", NOW), BARE) is (field.read(BARE) is None)


def test_the_manual_has_every_field() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "executions.md").read_text()
    words = {"text": "text", "number": "a number", "id": "an id", "instant": "an instant"}
    for name, field in FIELDS.items():
        assert f"| `{name}` | {words[field.kind]} | {field.about} |\n" in page
    for name, facet in FACETS.items():
        assert f"| `{name}.NAME` | text | {facet.about} |\n" in page
