"""Where rows go that leave the log: files of Parquet or JSON lines, ClickHouse, DuckDB for a
person's questions.

An adapter: imports use cases, projections and what lies below, DuckDB and fsspec.
"""
