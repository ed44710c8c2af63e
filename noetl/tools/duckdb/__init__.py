"""The tool `duckdb`."""
