"""The tables of results that stand in for calls, of calls that others wait for, and of executions
that name results of others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, delete, exists, select, update

from noetl.store import codec
from noetl.store.schema.results import cache_lock, cached, result_use
from noetl.store.session import SqlTable, upserts
from noetl.usecases.ports import CachedRow, CallLock, CallSite

_c, _l, _u = cached.c, cache_lock.c, result_use.c

_columns: Final = (
    *(_c.key, _c.path, _c.scope, _c.kind, _c.execution_id, _c.run_id, _c.iteration, _c.task),
    *(_c.outcome, _c.created_at, _c.expires_at),
)
_now: Final = bindparam("now", type_=_c.expires_at.type)
_get = select(*_columns).where(_c.key == bindparam("called"), _c.expires_at > _now)
_lock = _get.with_for_update()
_save = upserts(cached, [column.name for column in _columns[1:]])
_all = select(*_columns).order_by(_c.created_at.desc(), _c.key).limit(bindparam("limit"))
_of_path = _all.where(_c.path == bindparam("called"))
_remove: Final = {
    "all": delete(cached),
    "path": delete(cached).where(_c.path == bindparam("called")),
    "key": delete(cached).where(_c.key == bindparam("called")),
    "both": delete(cached).where(_c.path == bindparam("path"), _c.key == bindparam("called")),
}
_has_expired = select(exists().where(_c.expires_at <= _now))
_remove_expired = delete(cached).where(_c.expires_at <= _now)
_remove_of = delete(cached).where(_c.execution_id == bindparam("id"))

_hold = upserts(cache_lock)
_holder = select(_l.execution_id, _l.run_id, _l.iteration, _l.task, _l.taken_at).where(
    _l.key == bindparam("called")
)
_its = (
    _l.key == bindparam("called"),
    _l.execution_id == bindparam("of_execution"),
    _l.run_id == bindparam("of_run"),
    _l.iteration.is_not_distinct_from(bindparam("of_iteration", type_=_l.iteration.type)),
    _l.task == bindparam("of_task"),
)
_take_over = (
    update(cache_lock)
    .where(*_its)
    .values(
        execution_id=bindparam("execution_id"),
        run_id=bindparam("run_id"),
        iteration=bindparam("iteration"),
        task=bindparam("task"),
        taken_at=bindparam("taken_at"),
    )
)
_release = delete(cache_lock).where(*_its)

_use = upserts(result_use)
_users = select(_u.user_id).where(_u.execution_id == bindparam("id")).order_by(_u.user_id)


class SqlCachedResults(SqlTable):
    """`noetl.usecases.ports.CachedResults`."""

    def get(self, key: str, now: datetime) -> CachedRow | None:
        found = self._session.read(_get, {"called": key, "now": now}).first()
        return _row(found) if found else None

    def lock(self, key: str, now: datetime) -> CachedRow | None:
        found = self._session.write(_lock, {"called": key, "now": now}).first()
        return _row(found) if found else None

    def save(self, row: CachedRow) -> None:
        values = {
            "key": row.key,
            "path": row.path,
            "scope": row.scope,
            "kind": row.kind,
            **_site_values(row.site),
            "outcome": codec.dumps(row.outcome, "result"),
            "created_at": row.created_at,
            "expires_at": row.expires_at,
        }
        self._session.later(_save[self._session.dialect], values)

    def find(self, path: str | None = None, limit: int = 100) -> list[CachedRow]:
        statement, values = (_all, {}) if path is None else (_of_path, {"called": path})
        return [_row(found) for found in self._session.read(statement, {**values, "limit": limit})]

    def remove(self, path: str | None = None, key: str | None = None) -> int:
        match path, key:
            case None, None:
                return self._session.write(_remove["all"]).rowcount
            case _, None:
                return self._session.write(_remove["path"], {"called": path}).rowcount
            case None, _:
                return self._session.write(_remove["key"], {"called": key}).rowcount
            case _:
                return self._session.write(_remove["both"], {"path": path, "called": key}).rowcount

    def has_expired(self, now: datetime) -> bool:
        return bool(self._session.read(_has_expired, {"now": now}).scalar())

    def remove_expired(self, now: datetime) -> None:
        self._session.write(_remove_expired, {"now": now})

    def remove_of(self, execution_id: str) -> int:
        return self._session.write(_remove_of, {"id": codec.number(execution_id)}).rowcount

    def hold(self, key: str, lock: CallLock) -> CallLock:
        values = {"key": key, **_site_values(lock.site), "taken_at": lock.taken_at}
        found = None
        while found is None:
            # One that was there may be released before it is read.
            self._session.write(_hold[self._session.dialect], values)
            found = self.holder(key)
        return found

    def holder(self, key: str) -> CallLock | None:
        found = self._session.read(_holder, {"called": key}).first()
        if found is None:
            return None
        number, *rest, taken_at = found
        return CallLock(CallSite(str(number), *rest), taken_at)

    def take_over(self, key: str, before: CallLock, lock: CallLock) -> bool:
        values = {"called": key, **_owner_values(before.site), **_site_values(lock.site)}
        return self._session.write(_take_over, {**values, "taken_at": lock.taken_at}).rowcount > 0

    def release(self, key: str, site: CallSite) -> None:
        self._session.later(_release, {"called": key, **_owner_values(site)})

    def use(self, execution_id: str, user_id: str) -> None:
        values = {"execution_id": codec.number(execution_id), "user_id": codec.number(user_id)}
        self._session.write(_use[self._session.dialect], values)

    def users(self, execution_id: str) -> list[str]:
        return [str(one) for (one,) in self._session.read(_users, {"id": codec.number(execution_id)})]


def _row(found: Sequence[Any]) -> CachedRow:
    key, path, scope, kind, number, run_id, iteration, task, outcome, created_at, expires_at = found
    site = CallSite(str(number), run_id, iteration, task)
    return CachedRow(key, path, scope, kind, site, codec.loads(outcome), created_at, expires_at)


def _site_values(site: CallSite) -> dict[str, Any]:
    return {
        "execution_id": codec.number(site.execution_id),
        "run_id": site.run_id,
        "iteration": site.iteration,
        "task": site.task,
    }


def _owner_values(site: CallSite) -> dict[str, Any]:
    return {
        "of_execution": codec.number(site.execution_id),
        "of_run": site.run_id,
        "of_iteration": site.iteration,
        "of_task": site.task,
    }
