"""What the tables of a transaction share."""

from __future__ import annotations

from noetl.store.session import Session


class SqlTable:
    """One transaction's session, and the shard that it works for."""

    __slots__ = ("_session", "_shard")

    def __init__(self, session: Session, shard: str) -> None:
        self._session = session
        self._shard = shard
