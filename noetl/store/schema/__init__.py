"""The tables. Every constraint has a name; every index serves one query of the port.

Executions' ids are numbers here and decimal strings in Python. JSON is kept as TEXT: `jsonb`
refuses NUL characters that are legal in JSON, costs a parse for each insert, and no query of ours
looks inside. Instants are `timestamptz` on PostgreSQL and ISO 8601 text of one width, in UTC, on
SQLite, so that they sort as they compare.

It imports SQLAlchemy alone.
"""
