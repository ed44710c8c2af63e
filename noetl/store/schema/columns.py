"""What all tables are made of: the metadata that they share, and types of columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    TypeDecorator,
    text,
)

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

metadata = MetaData(naming_convention=NAMES)


class IsoInstant(TypeDecorator[datetime]):
    """An aware instant as text of one width: `2026-01-31T12:00:00.000000+00:00`."""

    impl = String(32)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _: Dialect) -> str | None:
        """Raises ValueError for an instant without a time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"The instant {value.isoformat()} has no time zone; instants are aware, in UTC.")
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: Any, _: Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


Instant = DateTime(timezone=True).with_variant(IsoInstant(), "sqlite")
#: 64 bits. SQLite calls them INTEGER, and such a primary key is the row's own address there.
Id = BigInteger().with_variant(Integer(), "sqlite")


def partial(name: str, *columns: Any, where: str, unique: bool = False) -> Index:
    """An index over the rows that `where` selects, on both databases."""
    return Index(name, *columns, unique=unique, postgresql_where=text(where), sqlite_where=text(where))


def owner() -> Column[int]:
    """`execution_id` of a table whose rows belong to an execution that exists."""
    return Column("execution_id", Id, ForeignKey("execution.execution_id"), nullable=False)
