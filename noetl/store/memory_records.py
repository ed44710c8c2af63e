"""Definitions and records in memory: the twins of `definitions` and `records`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from noetl.errors import Conflict
from noetl.facts.json import JsonMap
from noetl.store import codec
from noetl.store.memory_tables import Concern
from noetl.store.rules import legible, letter, missing
from noetl.usecases.ports import CredentialRow, KeyOwner, PlaybookRow, Snapshot, WorkerRow


class Definitions(Concern):
    """The methods of `Transaction` on nets, playbooks and credentials."""

    __slots__ = ()

    def put_net(self, digest: str, body: JsonMap) -> None:
        table = self._journal.locked.nets
        text = codec.dumps(body, "net")
        if digest not in table.rows:
            self._journal.put(table, digest, text)

    def net(self, digest: str) -> JsonMap | None:
        text = self._journal.tables.nets.rows.get(digest)
        found: JsonMap | None = None if text is None else codec.loads(text)
        return found

    def add_playbook(self, row: PlaybookRow) -> None:
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

    def playbook(self, path: str, version: int | None = None) -> PlaybookRow | None:
        if version is not None:
            return self._journal.tables.playbooks.rows.get((path, version))
        return next(iter(self.playbook_versions(path)), None)

    def playbooks(self) -> list[PlaybookRow]:
        newest: dict[str, PlaybookRow] = {}
        for row in self._journal.tables.playbooks.rows.values():
            if row.path not in newest or newest[row.path].version < row.version:
                newest[row.path] = row
        return [newest[path] for path in sorted(newest)]

    def playbook_versions(self, path: str) -> list[PlaybookRow]:
        """Newest first."""
        rows = self._journal.tables.playbooks.group("path", path)
        return sorted(rows, key=lambda row: row.version, reverse=True)

    def save_credential(self, row: CredentialRow) -> None:
        """Creates it, or replaces all but `created_at`."""
        table = self._journal.locked.credentials
        before = table.rows.get(row.key)
        kept = row if before is None else replace(row, created_at=before.created_at)
        self._journal.put(table, row.key, kept)

    def credential(self, key: str) -> CredentialRow | None:
        return self._journal.tables.credentials.rows.get(key)

    def credentials(self, name: str | None = None) -> list[CredentialRow]:
        """All, or those of one name, ordered by key."""
        rows = self._journal.tables.credentials.rows.values()
        return sorted((row for row in rows if name in (None, row.name)), key=lambda row: row.key)

    def reencrypt_credential(self, row: CredentialRow, data: bytes) -> bool:
        """Gives the credential other ciphertext, unless it is no longer what `row` says."""
        table = self._journal.locked.credentials
        now = table.rows.get(row.key)
        if now is None or now.data != row.data:
            return False
        self._journal.put(table, row.key, replace(now, data=data))
        return True

    def delete_credential(self, key: str) -> bool:
        table = self._journal.locked.credentials
        found = key in table.rows
        self._journal.put(table, key, None)
        return found

    def executions_with_credentials(self) -> list[str]:
        """The ids of those that credentials are kept for."""
        rows = self._journal.tables.credentials.rows.values()
        return sorted({row.place for row in rows if row.scope == "execution"})

    def delete_credentials_of(self, execution_id: str) -> None:
        table = self._journal.locked.credentials
        for key, row in list(table.rows.items()):
            if (row.scope, row.place) == ("execution", execution_id):
                self._journal.put(table, key, None)


class Records(Concern):
    """The methods of `Transaction` on snapshots, idempotency keys, dead letters and workers."""

    __slots__ = ()

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """One that is older than what is kept is dropped."""
        tables, key = self._journal.locked, snapshot.execution_id
        text = codec.dumps(snapshot.state, "snapshot")
        if key not in tables.executions.rows:
            raise self._journal.fail(missing(key))
        before = tables.snapshots.rows.get(key)
        if before is None or before[0] <= snapshot.version:
            self._journal.put(tables.snapshots, key, (snapshot.version, snapshot.schema, text))

    def snapshot(self, execution_id: str) -> Snapshot | None:
        found = self._journal.tables.snapshots.rows.get(execution_id)
        if found is None:
            return None
        version, schema, text = found
        return Snapshot(execution_id, version, schema, codec.loads(text))

    def claim_keys(
        self,
        claims: Mapping[str, KeyOwner],
        now: datetime,  # noqa: ARG002 - kept by databases, for retention
    ) -> Mapping[str, KeyOwner]:
        table = self._journal.locked.idempotency
        for key, owner in claims.items():
            if key not in table.rows:
                self._journal.put(table, key, owner)
        return {key: table.rows[key] for key in claims}

    def add_dead_letter(self, source: str, reason: str, body: str, now: datetime) -> None:
        table = self._journal.locked.letters
        number = max(table.rows, default=0) + 1
        self._journal.put(table, number, letter(number, legible(source), legible(reason), legible(body), now))

    def dead_letters(self, limit: int = 50) -> list[JsonMap]:
        """Newest first, as `letter` shapes them."""
        rows = self._journal.tables.letters.rows
        return [dict(rows[number]) for number in sorted(rows, reverse=True)[:limit]]

    def now(self) -> datetime | None:
        return None

    def see_worker(self, row: WorkerRow) -> None:
        self._journal.put(self._journal.locked.workers, row.name, row)

    def workers(self, seen_after: datetime) -> list[WorkerRow]:
        """Ordered by name."""
        rows = self._journal.tables.workers.rows.values()
        return sorted((row for row in rows if row.seen_at > seen_after), key=lambda row: row.name)
