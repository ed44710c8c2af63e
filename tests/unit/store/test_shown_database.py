"""What people are shown of the database: its place, and nothing that opens it."""

from __future__ import annotations

import pytest

from noetl.store.installation import show_database


@pytest.mark.parametrize(
    ("url", "schema", "shown"),
    [
        ("postgresql://me:s3c@ret@db:5432/etl", "", "db:5432/etl"),
        ("postgresql://me:s3cret@db/etl", "mine", "db/etl (schema mine)"),
        ("postgresql://db/etl?user=me&password=s3cret", "", "postgresql://db/etl"),
        ("sqlite:////home/me/noetl.db", "", "sqlite:////home/me/noetl.db"),
    ],
)
def test_the_place_of_the_database_is_shown_without_its_password(url: str, schema: str, shown: str) -> None:
    assert show_database(url, schema) == shown
