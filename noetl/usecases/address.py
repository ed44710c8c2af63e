"""Addresses: what people write in the place of an execution's id. Resolved once, at the edge; use
cases are given ids.

    186824917024604161      digits as long as those of ids are an id, and no key
    order-7                 a business key; the id of an execution, where it is one
    shop/order:order-7      the same, of this playbook

A key means the open execution that has it, else the last one that had it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from noetl.errors import Conflict, NotFound
from noetl.usecases import moment
from noetl.usecases.ports import NamedKey, Transaction
from noetl.usecases.runtime import Runtime

#: Digits of an id that was drawn, from some weeks after the first could be.
ID_DIGITS: Final = 17
#: Characters of an address that are looked at: those of a path and a key.
_MOST: Final = 1024


def is_drawn(address: str) -> bool:
    """Whether it can only be an id, which nobody has to look up."""
    return moment.is_id(address) and len(address) >= ID_DIGITS


def resolve(rt: Runtime, address: str, may_read: Callable[[str], bool] = lambda _path: True) -> str:
    """The id of the execution that an address means; a number that nothing has may be one, as use
    cases will say. Keys mean executions only of the playbooks that `may_read` is true of. Raises
    NotFound, and Conflict where several playbooks have an execution with that key."""
    if is_drawn(address):
        return address
    with rt.store.read() as tx:
        return _look_up(tx, address, may_read)


def _look_up(tx: Transaction, address: str, may_read: Callable[[str], bool]) -> str:
    row = tx.executions.get(address) if moment.is_id(address) else None
    if row is not None and may_read(row.path):
        return address
    meant = {name: one for name, one in _meanings(tx, address).items() if may_read(name.path)}
    match list(meant.values()):
        case [execution_id]:
            return execution_id
        case [] if moment.is_id(address):
            return address
        case []:
            raise NotFound(f"There is no execution {address[:80]!r}: nothing has that id or business key.")
        case _:
            named = ", ".join(map(repr, map(str, sorted(meant))))
            raise Conflict(
                f"Several playbooks have an execution with the key {address!r}; name the one that you mean: "
                f"{named}."
            )


def _meanings(tx: Transaction, address: str) -> Mapping[NamedKey, str]:
    """The executions that it may mean, as a key or as a path with one: both may hold colons."""
    if len(address) > _MOST or not address.isprintable():
        return {}
    parts = address.split(":")
    found = tx.business_keys.find([":".join(parts[first:]) for first in range(len(parts))])
    return {name: one for name, one in found.items() if address in (name.key, str(name))}
