"""SQL that its database could not parse is found before it runs, and nothing else is called so."""

from __future__ import annotations

from noetl.tools.kit.registry import kinds

#: By kind: SQL that is none (and what stands where it is wrong), and SQL that is some, with tables
#: that are not there.
WRONG = {
    "duckdb": {"SELECT 1;\nSELEC 2": "SELEC", "SELECT * FRM t": "t", "SELECT :a FROM (": ""},
    "postgres": {"SELECT 1;\nSELEC 2": "SELEC", "SELECT * FRM t": "FRM", "\\copy t from 'x'": "\\"},
    "sqlite": {"SELECT 1;\nSELEC 2": "SELEC", "SELECT * FRM t": "FRM", "SELECT FROM t": "FROM"},
}
RIGHT = {
    "duckdb": [
        "FROM 'a.csv'; COPY (SELECT :a) TO 'x.parquet' (FORMAT parquet)",
        "SELECT * EXCLUDE (a) FROM t WHERE b LIKE '%x%' AND c = :a::INT",
        "INSTALL httpfs; ATTACH 'x.db' AS x; PRAGMA database_list",
        "-- only a comment",
    ],
    "postgres": [
        "DO $$ BEGIN PERFORM 1; END $$; SELECT :a::jsonb ->> 'b', 5 % 2 FROM nowhere WHERE c LIKE '%s%'",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; END",
        "INSERT INTO t (a) VALUES (:a) ON CONFLICT DO NOTHING RETURNING id",
        "COPY t FROM STDIN",
    ],
    "sqlite": [
        "CREATE TABLE t (a); INSERT INTO t VALUES (:a) ON CONFLICT DO NOTHING; SELECT * FROM nowhere",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN UPDATE t SET a = 1; DELETE FROM u; END",
        "PRAGMA foreign_keys = ON; VACUUM; SELECT json_extract(a, '$.b') FROM t WHERE b = $1",
    ],
}


def test_sql_that_cannot_be_parsed_is_reported_with_its_place_and_other_sql_is_not() -> None:
    installed = kinds()
    wrong = {}
    for kind, texts in WRONG.items():
        for text, at in texts.items():
            fault = installed[kind].parse(text, True)
            if fault is None or not text[fault[0] :].startswith(at):
                wrong[kind, text] = fault
    for kind, others in RIGHT.items():
        wrong |= {
            (kind, text): fault for text in others if (fault := installed[kind].parse(text, True)) is not None
        }
    assert wrong == {}
    assert installed["http"].parse("SELEC", True) is None
