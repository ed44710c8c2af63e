"""The catalog's table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import bindparam, func, insert, select, update

from noetl.facts.json import JsonMap
from noetl.store import codec
from noetl.store.schema import playbook
from noetl.store.session import SqlTable, columns_of
from noetl.usecases.ports import PlaybookRow

_p = playbook.c
PLAYBOOK: Final = columns_of(playbook, PlaybookRow)


_add_playbook = insert(playbook)
_keep_warnings = (
    update(playbook)
    .where(_p.path == bindparam("of_path"), _p.version == bindparam("of_version"))
    .values(warnings=bindparam("warnings"))
)
_versions = select(*PLAYBOOK).where(_p.path == bindparam("path")).order_by(_p.version.desc())
_newest_of = _versions.limit(1)
_version = select(*PLAYBOOK).where(_p.path == bindparam("path"), _p.version == bindparam("version"))
_other = playbook.alias("other")
_newest = (
    select(*PLAYBOOK)
    .where(_p.version == select(func.max(_other.c.version)).where(_other.c.path == _p.path).scalar_subquery())
    .order_by(_p.path)
)


def _playbook(found: Sequence[Any]) -> PlaybookRow:
    row = PlaybookRow(*found)
    return replace(row, warnings=tuple(codec.loads(found[-1])))


def _dumped(warnings: Sequence[JsonMap]) -> str:
    return codec.dumps(list(warnings), "list of warnings")


class SqlPlaybooks(SqlTable):
    """`noetl.usecases.ports.Playbooks`."""

    __slots__ = ()

    def add(self, row: PlaybookRow) -> None:
        """Raises Conflict where that version of the path exists."""
        values = {c.name: getattr(row, c.name) for c in PLAYBOOK}
        self._session.write(_add_playbook, values | {"warnings": _dumped(row.warnings)})

    def keep_warnings(self, path: str, version: int, warnings: Sequence[JsonMap]) -> None:
        """Gives a version other warnings."""
        values = {"of_path": path, "of_version": version, "warnings": _dumped(warnings)}
        self._session.write(_keep_warnings, values)

    def get(self, path: str, version: int | None = None) -> PlaybookRow | None:
        if version is None:
            found = self._session.read(_newest_of, {"path": path}).first()
        else:
            found = self._session.read(_version, {"path": path, "version": version}).first()
        return _playbook(found) if found else None

    def newest(self) -> list[PlaybookRow]:
        return [_playbook(found) for found in self._session.read(_newest)]

    def versions(self, path: str) -> list[PlaybookRow]:
        """Newest first."""
        return [_playbook(found) for found in self._session.read(_versions, {"path": path})]
