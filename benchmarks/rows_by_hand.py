"""What a person would write: COPY into a file, from there into DuckDB, and from there into
Parquet."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import duckdb
import psycopg2

COLUMNS = {
    "id": "BIGINT",
    "name": "VARCHAR",
    "amount": "DECIMAL(12,2)",
    "at": "TIMESTAMPTZ",
    "paid": "BOOLEAN",
    "digest": "VARCHAR",
}


def main(dsn: str, home: Path) -> None:
    started = time.perf_counter()
    text, database, parquet = home / "rows.csv", home / "rows.duckdb", home / "rows.parquet"
    with psycopg2.connect(dsn) as connection, connection.cursor() as cursor, text.open("wb") as file:
        cursor.copy_expert("COPY (SELECT * FROM bench ORDER BY id) TO STDOUT (FORMAT csv)", file)
    with duckdb.connect(str(database), config={"threads": 2}) as target:
        target.execute(
            "CREATE TABLE rows AS SELECT * FROM read_csv(?, header = false, columns = ?)",
            [str(text), COLUMNS],
        )
        target.execute("COPY rows TO ? (FORMAT parquet, COMPRESSION zstd)", [str(parquet)])
        rows = target.execute("SELECT count(*) FROM rows").fetchall()[0][0]
    print(json.dumps({"rows": rows, "seconds": time.perf_counter() - started}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
