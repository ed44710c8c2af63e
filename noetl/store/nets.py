"""The table of compiled nets."""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from noetl.facts.json import JsonMap
from noetl.store import codec
from noetl.store.schema import net
from noetl.store.table import SqlTable

_net = select(net.c.body).where(net.c.digest == bindparam("digest"))


def _put_net(dialect: Any) -> Any:
    return dialect.insert(net).on_conflict_do_nothing(index_elements=[net.c.digest])


_nets = {"postgresql": _put_net(postgresql), "sqlite": _put_net(sqlite)}


class SqlNets(SqlTable):
    """`noetl.usecases.ports.Nets`."""

    __slots__ = ()

    def put(self, digest: str, body: JsonMap) -> None:
        values = {"digest": digest, "body": codec.dumps(body, "net")}
        self._session.write(_nets[self._session.dialect], values)

    def get(self, digest: str) -> JsonMap | None:
        body = self._session.read(_net, {"digest": digest}).scalar()
        found: JsonMap | None = None if body is None else codec.loads(body)
        return found
