"""The catalog: versions of playbooks under their paths."""

from __future__ import annotations

import hashlib

from noetl.dsl import load_playbook
from noetl.errors import NotFound
from noetl.facts.nearest import did_you_mean
from noetl.net.codec import digest, to_json
from noetl.net.model import Net
from noetl.usecases.ports import PlaybookRow, Transaction
from noetl.usecases.runtime import Runtime


def register(rt: Runtime, content: str, file: str = "playbook.yaml") -> PlaybookRow:
    """Keeps `content` under its `metadata.path`: a new version when it changed, else the newest one.

    Raises PlaybookInvalid with every problem of the document.
    """
    net = load_playbook(content, file=file, kinds=rt.kinds)
    sha256 = hashlib.sha256(content.encode()).hexdigest()
    with rt.store.begin() as tx:
        newest = tx.playbook(net.path)
        if newest is not None and newest.content_sha256 == sha256:
            _keep_net(rt, tx, sha256, net)
            return newest
        row = PlaybookRow(
            path=net.path,
            version=newest.version + 1 if newest else 1,
            content=content,
            content_sha256=sha256,
            digest=_keep_net(rt, tx, sha256, net),
            created_at=rt.clock(),
            name=net.name,
            description=net.description,
        )
        tx.add_playbook(row)
        return row


def playbook(rt: Runtime, path: str, version: int | None = None) -> PlaybookRow:
    """Raises NotFound with the nearest path."""
    with rt.store.read() as tx:
        return find(tx, path, version)


def playbooks(rt: Runtime) -> list[PlaybookRow]:
    """The newest version of each."""
    with rt.store.read() as tx:
        return tx.playbooks()


def versions(rt: Runtime, path: str) -> list[PlaybookRow]:
    """All versions of one path, oldest first. Raises NotFound."""
    with rt.store.read() as tx:
        find(tx, path, None)
        return _versions(tx, path)


def find(tx: Transaction, path: str, version: int | None) -> PlaybookRow:
    """Raises NotFound with the nearest path, or with the versions that there are."""
    row = tx.playbook(path, version)
    if row is not None:
        return row
    known = [one.version for one in _versions(tx, path)]
    if known:
        raise NotFound(f"Playbook {path!r} has no version {version}; there are {known[0]} to {known[-1]}.")
    hint = did_you_mean(path, (one.path for one in tx.playbooks()))
    raise NotFound(f"There is no playbook {path!r} in the catalog.{hint}")


def _versions(tx: Transaction, path: str) -> list[PlaybookRow]:
    return sorted(tx.playbook_versions(path), key=lambda row: row.version)


def net_digest(rt: Runtime, tx: Transaction, row: PlaybookRow) -> str:
    """The digest of the net that the compiler of this version makes of a stored playbook."""
    known = rt.compiled.get(row.content_sha256)
    if known is not None:
        return known
    return _keep_net(rt, tx, row.content_sha256, load_playbook(row.content, file=row.path, kinds=rt.kinds))


def _keep_net(rt: Runtime, tx: Transaction, content_sha256: str, net: Net) -> str:
    name = digest(net)
    if tx.net(name) is None:
        tx.put_net(name, to_json(net))
    rt.compiled.put(content_sha256, name)
    return name
