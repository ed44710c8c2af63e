"""The table of idempotency keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from noetl.store import codec
from noetl.store.schema import idempotency
from noetl.store.session import lines
from noetl.store.table import SqlTable
from noetl.usecases.ports import KeyOwner

_i = idempotency.c


_owners = select(_i.key, _i.request_sha256, _i.execution_id).where(
    _i.key.in_(bindparam("keys", expanding=True))
)


def _claim(dialect: Any) -> Any:
    return dialect.insert(idempotency).on_conflict_do_nothing(index_elements=[_i.key])


_claims = {"postgresql": _claim(postgresql), "sqlite": _claim(sqlite)}


class SqlIdempotencyKeys(SqlTable):
    """`noetl.usecases.ports.IdempotencyKeys`."""

    __slots__ = ()

    def claim(self, claims: Mapping[str, KeyOwner], now: datetime) -> Mapping[str, KeyOwner]:
        found: dict[str, KeyOwner] = {}
        for keys in lines(list(claims)):
            rows = [_claimed(key, claims[key], now) for key in keys]
            self._session.later(_claims[self._session.dialect], rows)
            for key, sha256, owner in self._session.read(_owners, {"keys": keys}):
                found[key] = KeyOwner(sha256, str(owner))
        return found


def _claimed(key: str, owner: KeyOwner, now: datetime) -> dict[str, Any]:
    return {
        "key": key,
        "request_sha256": owner.request_sha256,
        "execution_id": codec.number(owner.execution_id),
        "created_at": now,
    }
