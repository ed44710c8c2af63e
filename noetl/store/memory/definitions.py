"""Nets, playbooks and credentials in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from noetl.errors import Conflict
from noetl.facts.json import JsonMap
from noetl.store import codec
from noetl.store.memory.tables import MemoryTable
from noetl.usecases.ports import CredentialRow, PlaybookRow


class MemoryNets(MemoryTable):
    """`noetl.usecases.ports.Nets`."""

    __slots__ = ()

    def put(self, digest: str, body: JsonMap) -> None:
        table = self._journal.locked.nets
        text = codec.dumps(body, "net")
        if digest not in table.rows:
            self._journal.put(table, digest, text)

    def get(self, digest: str) -> JsonMap | None:
        text = self._journal.tables.nets.rows.get(digest)
        found: JsonMap | None = None if text is None else codec.loads(text)
        return found


class MemoryPlaybooks(MemoryTable):
    """`noetl.usecases.ports.Playbooks`."""

    __slots__ = ()

    def add(self, row: PlaybookRow) -> None:
        """Raises Conflict where that version of the path exists."""
        table, key = self._journal.locked.playbooks, (row.path, row.version)
        if key in table.rows:
            raise self._journal.fail(
                Conflict(f"It is already recorded: version {row.version} of {row.path}.")
            )
        self._journal.put(table, key, row)

    def keep_warnings(self, path: str, version: int, warnings: Sequence[JsonMap]) -> None:
        """Gives a version other warnings."""
        table, key = self._journal.locked.playbooks, (path, version)
        if key in table.rows:
            self._journal.put(table, key, replace(table.rows[key], warnings=tuple(warnings)))

    def get(self, path: str, version: int | None = None) -> PlaybookRow | None:
        if version is not None:
            return self._journal.tables.playbooks.rows.get((path, version))
        return next(iter(self.versions(path)), None)

    def newest(self) -> list[PlaybookRow]:
        newest: dict[str, PlaybookRow] = {}
        for row in self._journal.tables.playbooks.rows.values():
            if row.path not in newest or newest[row.path].version < row.version:
                newest[row.path] = row
        return [newest[path] for path in sorted(newest)]

    def versions(self, path: str) -> list[PlaybookRow]:
        """Newest first."""
        rows = self._journal.tables.playbooks.group("path", path)
        return sorted(rows, key=lambda row: row.version, reverse=True)


class MemoryCredentials(MemoryTable):
    """`noetl.usecases.ports.Credentials`."""

    __slots__ = ()

    def save(self, row: CredentialRow) -> None:
        """Creates it, or replaces all but `created_at`."""
        table = self._journal.locked.credentials
        before = table.rows.get(row.key)
        kept = row if before is None else replace(row, created_at=before.created_at)
        self._journal.put(table, row.key, kept)

    def get(self, key: str) -> CredentialRow | None:
        return self._journal.tables.credentials.rows.get(key)

    def find(self, name: str | None = None) -> list[CredentialRow]:
        """All, or those of one name, ordered by key."""
        rows = self._journal.tables.credentials.rows.values()
        return sorted((row for row in rows if name in (None, row.name)), key=lambda row: row.key)

    def reencrypt(self, row: CredentialRow, data: bytes) -> bool:
        """Gives the credential other ciphertext, unless it is no longer what `row` says."""
        table = self._journal.locked.credentials
        now = table.rows.get(row.key)
        if now is None or now.data != row.data:
            return False
        self._journal.put(table, row.key, replace(now, data=data))
        return True

    def delete(self, key: str) -> bool:
        table = self._journal.locked.credentials
        found = key in table.rows
        self._journal.put(table, key, None)
        return found

    def execution_ids(self) -> list[str]:
        """The ids of those that credentials are kept for."""
        rows = self._journal.tables.credentials.rows.values()
        return sorted({row.place for row in rows if row.scope == "execution"})

    def delete_of(self, execution_id: str) -> None:
        table = self._journal.locked.credentials
        for key, row in list(table.rows.items()):
            if (row.scope, row.place) == ("execution", execution_id):
                self._journal.put(table, key, None)
