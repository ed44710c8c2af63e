"""A transaction is made of tables, each of which serves one port and offers nothing besides."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest

from noetl.store.sql import open_tables
from noetl.usecases.ports import Transaction

#: What is no table.
_OTHERS = ("now", "compiled")
PORTS = {name: port for name, port in get_type_hints(Transaction).items() if name not in _OTHERS}

_NO_SESSION: Any = None


def _offered(one: Any) -> set[str]:
    return {name for name in dir(one) if not name.startswith("_")}


def test_a_transaction_has_a_table_for_each_port() -> None:
    assert len(PORTS) == 20


@pytest.mark.parametrize("port", sorted(PORTS))
def test_a_table_offers_its_port_and_no_more(port: str) -> None:
    table = getattr(open_tables(_NO_SESSION, ""), port)
    assert _offered(table) == _offered(PORTS[port])
    for name in _offered(table):
        mine = list(inspect.signature(getattr(type(table), name)).parameters)
        assert mine == list(inspect.signature(getattr(PORTS[port], name)).parameters), name
