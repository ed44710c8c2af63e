"""What somebody looks at on the page of a playbook: all of it stands in the address."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Self
from urllib.parse import urlencode

from flask import request

from noetl.facts.json import JsonMap
from noetl.net.model import Net
from noetl.ui.asked import read_number
from noetl.ui.playbook.listing import address_of
from noetl.ui.site import Visitor, here
from noetl.usecases import catalog
from noetl.usecases.playbooks import find_net
from noetl.usecases.ports import PlaybookRow

#: Fields of the address that lead to another place of the page; what only one tab understands is
#: left behind with it.
_PLACES: Final = ("tab", "version")


@dataclass(frozen=True)
class PlaybookLook:
    """One playbook, as one visitor looks at it: at `row`, which is the version that the address
    says, or the `newest` one."""

    visitor: Visitor
    row: PlaybookRow
    newest: int
    tab: str = ""
    #: Everything that stands in the address.
    asked: JsonMap = field(default_factory=dict)

    @classmethod
    def read(cls, path: str) -> Self:
        """As the current request asks. Raises NotFound, and BadRequest for a version that is no
        number."""
        visitor, asked = here().find_visitor(), request.args.to_dict()
        newest = catalog.playbook(visitor.rt, path)
        version = read_number(asked, "version")
        row = newest if version in (None, newest.version) else catalog.playbook(visitor.rt, path, version)
        return cls(visitor, row, newest.version, asked.get("tab", ""), asked)

    @property
    def path(self) -> str:
        return self.row.path

    @property
    def version(self) -> int | None:
        """The version that the address says."""
        return self.row.version if self.asked.get("version") else None

    @property
    def may_start(self) -> bool:
        return self.visitor.principal.may("run", self.path)

    @cached_property
    def net(self) -> Net | None:
        """None where this version of NoETL cannot run it."""
        return find_net(self.visitor.rt, self.row)

    def to(self, **changes: str | int | None) -> str:
        """The address of this page with other places than those that are looked at; None leaves a
        field out."""
        places = {name: self.asked.get(name) for name in _PLACES}
        return self._address({**places, **changes})

    def here(self, **changes: str | int | None) -> str:
        """The address of what is looked at, but for `changes`."""
        return self._address({**self.asked, **changes})

    def _address(self, fields: JsonMap) -> str:
        given = {name: value for name, value in fields.items() if value not in (None, "")}
        return address_of(self.path) + (f"?{urlencode(given)}" if given else "")
