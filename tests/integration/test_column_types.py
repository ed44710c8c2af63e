"""Every type of both databases: the columns of an answer have the same types and values whether it
is small or large, at both ends of what each type holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.facts import json
from noetl.facts.outcome import Outcome
from noetl.facts.reference import open_references
from noetl.net.model import ResultPolicy
from noetl.pipeline.model import Call, Where
from noetl.results import open_results
from noetl.tools.duckdb.open import DuckDbConfig
from noetl.tools.duckdb.tool import DuckDb
from noetl.tools.kit.base import Services
from noetl.tools.postgres.tool import Postgres, PostgresConfig

#: Bytes of text below which an answer stays in the log.
SMALL, LARGE = 1 << 30, 0

NINES = "9" * 38
#: Type of the catalogue → its values.
POSTGRES: dict[str, list[str]] = {
    "bool": ["true"],
    "int2": ["-32768", "32767"],
    "int4": ["-2147483648", "2147483647"],
    "int8": ["-9223372036854775808", "9223372036854775807"],
    "float4": ["1.5", "3.4028235e38"],
    "float8": ["0.1", "1.7976931348623157e308", "9007199254740993"],
    "numeric": [
        *("0", "1.50", NINES, f"-{NINES}", f"{NINES}9", "9223372036854775808"),
        *(
            "0." + "0" * 36 + "1",
            "0." + "0" * 37 + "1",
            "0." + "0" * 38 + "1",
            "1e40",
            "12345678901234567.25",
        ),
    ],
    "money": ["12.34"],
    "text": ["", "null", '\u00e9 "q" a\n\t;'],
    "varchar": ["x"],
    "bpchar": ["x  "],
    "name": ["x"],
    "char": ["x"],
    "bytea": ["\\x", "\\x00ff"],
    "date": ["2026-01-05", "0001-01-01", "9999-12-31", "10000-01-01", "0044-03-15 BC", "infinity"],
    "time": ["10:00:01.123456", "00:00", "24:00"],
    "timetz": ["10:00:01+02"],
    "timestamp": ["2026-01-05 10:00:00.123456", "9999-12-31 23:59:59.999999", "10000-01-01", "-infinity"],
    "timestamptz": ["2026-01-05 10:00:00+02", "0044-03-15 10:00+00 BC", "infinity"],
    "interval": ["1 month 2 days 03:04:05.5", "-90 min", "100 hours"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "json": ['{"a": [1, null, "x"]}', "5", '"x"'],
    "jsonb": ['{"a": 12345678901234567.25}', "[]", '"x"'],
    "jsonpath": ["$.a"],
    "bit": ["1"],
    "varbit": ["101"],
    "inet": ["10.0.0.1"],
    "cidr": ["10.0.0.0/8"],
    "macaddr": ["08:00:2b:01:02:03"],
    "macaddr8": ["08:00:2b:01:02:03:04:05"],
    "point": ["(1,2)"],
    "line": ["{1,2,3}"],
    "lseg": ["[(1,2),(3,4)]"],
    "box": ["(3,4),(1,2)"],
    "path": ["((1,2),(3,4))"],
    "polygon": ["((1,2),(3,4))"],
    "circle": ["<(1,2),3>"],
    "tsvector": ["'a' 'b'"],
    "tsquery": ["'a' & 'b'"],
    "oid": ["1"],
    "pg_lsn": ["0/1"],
    "tid": ["(0,1)"],
    "xid": ["1"],
    "int4range": ["[1,5)", "empty"],
    "int8range": ["[1,5)"],
    "numrange": ["[1.5,5)"],
    "daterange": ["[2026-01-01,2026-02-01)"],
    "tsrange": ["[2026-01-01,2026-02-01)"],
    "tstzrange": ["[2026-01-01 00:00+00,2026-02-01 00:00+00)"],
}
#: Those that nobody has in a table of theirs.
INNER = """select typname from pg_type where typnamespace = 'pg_catalog'::regnamespace and typtype in ('b', 'r')
    and typcategory <> 'A' and typname !~ '^(pg_|reg|_)|vector$' and typname not in ('cid', 'xid8', 'refcursor', 'gtsvector',
    'aclitem', 'xml', 'txid_snapshot')"""

DUCKDB: dict[str, list[str]] = {
    "BOOLEAN": ["true"],
    "TINYINT": ["-128", "127"],
    "SMALLINT": ["-32768"],
    "INTEGER": ["2147483647"],
    "BIGINT": ["-9223372036854775808"],
    "HUGEINT": ["5", NINES, "-" + NINES],
    "UTINYINT": ["255"],
    "USMALLINT": ["65535"],
    "UINTEGER": ["4294967295"],
    "UBIGINT": ["18446744073709551615"],
    "UHUGEINT": ["340282366920938463463374607431768211455"],
    "BIGNUM": ["9" * 60],
    "FLOAT": ["1.5"],
    "DOUBLE": ["0.1", "1.7976931348623157e308"],
    "DECIMAL(10,2)": ["1.50"],
    "DECIMAL(38,0)": [NINES],
    "DECIMAL(38,38)": ["0." + NINES],
    "DECIMAL(38,18)": ["12345678901234567890.123456789012345678"],
    "VARCHAR": ["", "null", "x"],
    "BLOB": ["\\x00\\xFF"],
    "DATE": ["2026-01-05", "0001-01-01", "9999-12-31", "10000-01-01", "0044-03-15 (BC)", "infinity"],
    "TIME": ["10:00:01.123456"],
    "TIME_NS": ["10:00:01.123456789"],
    "TIMETZ": ["10:00:01+02"],
    "TIMESTAMP": ["2026-01-05 10:00:00.123456", "10000-01-01", "-infinity"],
    "TIMESTAMP_S": ["2026-01-05 10:00:00"],
    "TIMESTAMP_MS": ["2026-01-05 10:00:00.123"],
    "TIMESTAMP_NS": ["2026-01-05 10:00:00.123456789"],
    "TIMESTAMPTZ": ["2026-01-05 10:00:00+02", "infinity"],
    "TIMESTAMPTZ_NS": ["2026-01-05 10:00:00.123456789+02"],
    "INTERVAL": ["1 month 2 days 03:04:05.5"],
    "UUID": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "JSON": ['{"a":12345678901234567.25}', '"x"', "5"],
    "BIT": ["101"],
    "ENUM('a', 'it''s [2]')": ["a"],
}
#: Types that Parquet has not: an answer with one of them goes another way into the store.
ODD = {"UHUGEINT", "BIGNUM", "TIME_NS", "TIMETZ", "TIMESTAMP_NS", "TIMESTAMPTZ_NS", "INTERVAL", "BIT"}
#: What others are made of: `{}` is a value, or a type.
NESTED = {
    "list": "[{}]",
    "array": "array_value({0}, {0})",
    "structure": "{{'a': {}, 'b [2]': 1}}",
    "map": "map {{'k': {}}}",
    "deep": "[{{'a': [{}]}}]",
}


@pytest.fixture
def services(tmp_path: Path, request: pytest.FixtureRequest) -> Services:
    credentials: dict[str, Any] = {}
    if request.node.get_closest_marker("postgres"):
        credentials["db"] = {"dsn": request.getfixturevalue("empty_postgres_url")}
    return Services(
        credential=credentials.__getitem__,
        results=open_results(str(tmp_path / "results")),
        scratch=tmp_path,
        allow_private_networks=True,
    )


#: What runs a statement whose rows stay in the log up to so many bytes.
Ask = Callable[[str, int], Any]


@pytest.fixture
def postgres(services: Services) -> Iterator[Ask]:
    tool = Postgres(services)
    yield lambda sql, limit: tool.run(_call(limit), PostgresConfig(auth="db", command=sql)).result
    tool.close()


@pytest.fixture
def duckdb(services: Services) -> Ask:
    return lambda sql, limit: _duckdb(services, limit, command=sql)


def _duckdb(services: Services, limit: int, **config: Any) -> Any:
    done = DuckDb(services).run(_call(limit), DuckDbConfig(**config))
    assert isinstance(done, Outcome)
    return done.result


def _call(limit: int) -> Call:
    return Call("x", {}, {}, {}, Where("7", "s#1", "s"), "t", 1, "k", result=ResultPolicy(inline_bytes=limit))


def same_types(services: Services, ask: Ask, columns: list[str]) -> None:
    """Asserts that the columns come alike by both ways, and as tables of DuckDB."""
    chosen = ", ".join(f"{column} as c{at}" for at, column in enumerate(columns))
    empty = ", ".join("null" for _ in columns)
    answers = [ask(f"select {chosen} union all select {empty}", limit) for limit in (SMALL, LARGE)]
    assert services.results is not None

    for what in (
        [answer["types"] for answer in answers],
        [
            [
                row["column_type"]
                for row in _duckdb(services, SMALL, tables={"t": one}, command="describe t")["rows"]
            ]
            for one in answers
        ],
        [open_references(answer["rows"], services.results.load) for answer in answers],
        [_duckdb(services, SMALL, tables={"t": one}, command="from t")["rows"] for one in answers],
    ):
        small, large = (
            {f"{name}: {json.dumps(cell)}" for name, cell in _cells(one, columns)} for one in what
        )
        assert small == large


def _cells(found: list[Any], columns: list[str]) -> Iterator[tuple[str, Any]]:
    """Each cell with the SQL that it came of."""
    rows = [row.values() for row in found] if isinstance(found[0], dict) else [found]
    for row in rows:
        yield from zip(columns, row, strict=True)


@pytest.mark.postgres
@pytest.mark.parametrize("form", ["{}", "array[{}, null]"])
def test_types_of_postgres_do_not_depend_on_how_many_rows_there_are(
    services: Services, postgres: Ask, form: str
) -> None:
    columns = [
        form.format(f"""'{text.replace("'", "''")}'::"{kind}\"""")
        for kind, texts in POSTGRES.items()
        for text in texts
    ]

    same_types(services, postgres, columns)


@pytest.mark.postgres
def test_no_type_of_postgres_is_forgotten(postgres: Ask) -> None:
    assert {row["typname"] for row in postgres(INNER, SMALL)["rows"]} - POSTGRES.keys() == set()


@pytest.mark.parametrize("form", ["{}", *NESTED.values()], ids=["alone", *NESTED])
def test_types_of_duckdb_do_not_depend_on_how_many_rows_there_are(
    services: Services, duckdb: Ask, form: str
) -> None:
    for kinds in (DUCKDB.keys() - ODD, ODD):
        values = [
            f"""'{text.replace("'", "''")}'::{kind}""" for kind in sorted(kinds) for text in DUCKDB[kind]
        ]
        same_types(services, duckdb, [form.format(value) for value in values])


@pytest.mark.parametrize("limit", [SMALL, LARGE], ids=["small", "large"])
def test_infinite_days_stay_infinite_and_the_last_of_python_is_a_day(
    services: Services, duckdb: Ask, limit: int
) -> None:
    days = ["infinity", "-infinity", "9999-12-31", "0001-01-01"]
    texts = ", ".join(f"({at}, '{day}')" for at, day in enumerate(days))
    ordered = f"(values {texts}) as v(n, d) order by n"

    answer = duckdb(f"select d::date as day, d::timestamptz as instant from {ordered}", limit)
    assert services.results is not None
    found = list(open_references(answer["rows"], services.results.load))

    assert [row["day"] for row in found] == days
    assert [row["instant"] for row in found][:2] == days[:2]
    written = "select d::date as d, i::timestamptz as i from (select day as d, instant as i from t)"
    again = _duckdb(
        services,
        SMALL,
        tables={"t": [{"day": row["day"], "instant": row["instant"]} for row in found]},
        command=f"select d = 'infinity' as yes, isinf(i) as endless from ({written})",
    )
    assert [row["yes"] for row in again["rows"]] == [True, False, False, False]
    assert [row["endless"] for row in again["rows"]] == [True, True, False, False]
    assert duckdb("select date '9999-12-31' as d", limit)["types"] == ["DATE"]


ODD_NUMBERS = "select x from (values (1, 'NaN'::float8), (2, 'Infinity'), (3, 0.5)) as v(n, x) order by n"


def _nulls_with_warnings(services: Services, tool: DuckDb | Postgres, config: Any) -> None:
    for limit in (SMALL, LARGE):
        done = tool.run(_call(limit), config)
        assert isinstance(done, Outcome)
        assert services.results is not None
        rows = done.result["rows"]

        assert list(open_references(rows, services.results.load)) == [{"x": None}, {"x": None}, {"x": 0.5}]
        assert done.result["types"] == ["DOUBLE"]
        assert done.meta["warnings"] == ["Column 'x': NaN and infinite numbers are null"]
        counted = _duckdb(services, SMALL, tables={"t": rows}, command="select count(x) as n from t")
        assert counted["rows"] == [{"n": 1}]


def test_numbers_that_json_has_not_are_null_in_few_rows_and_many(services: Services) -> None:
    _nulls_with_warnings(services, DuckDb(services), DuckDbConfig(command=ODD_NUMBERS))


@pytest.mark.postgres
def test_numbers_that_json_has_not_are_null_in_few_rows_of_postgres_and_many(services: Services) -> None:
    tool = Postgres(services)

    _nulls_with_warnings(services, tool, PostgresConfig(auth="db", command=ODD_NUMBERS))

    tool.close()


@pytest.mark.parametrize("number", ["1" + "0" * 38, str(2**127 - 1), str(-(2**127) + 1)])
def test_whole_numbers_that_no_decimal_holds_keep_their_digits(
    services: Services, duckdb: Ask, number: str
) -> None:
    same_types(services, duckdb, [f"'{number}'::hugeint", "5::hugeint"])

    assert duckdb(f"select '{number}'::hugeint as n", SMALL)["rows"] == [{"n": int(number)}]


def test_a_column_of_nulls_is_null(services: Services, duckdb: Ask) -> None:
    same_types(services, duckdb, ["null"])

    found = duckdb("select null as n", LARGE)["rows"]
    assert _duckdb(services, SMALL, tables={"t": found}, command="from t")["rows"] == [{"n": None}]


#: Those that need an extension, have no name, or are made of others.
APART = {
    "NULL",
    '"NULL"',
    "UNION",
    "VARIANT",
    "TYPE",
    "GEOMETRY",
    "TUPLE",
    *("LIST", "STRUCT", "MAP", "ARRAY"),
}


def test_no_type_of_duckdb_is_forgotten(duckdb: Ask) -> None:
    found = duckdb(
        "select distinct logical_type as t from duckdb_types() where database_name = 'system'", SMALL
    )
    short = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ", "TIME WITH TIME ZONE": "TIMETZ"}
    types = {short.get(row["t"], row["t"]) for row in found["rows"]}

    assert types - APART - {kind.partition("(")[0] for kind in DUCKDB} == set()
