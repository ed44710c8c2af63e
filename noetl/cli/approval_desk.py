"""Where commands find approvals and leave answers: the database of this machine, as its user, or a
server, as whom the token says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import click

from noetl.cli.execution_control import report
from noetl.cli.process import open_runtime
from noetl.errors import BadRequest, InputsInvalid
from noetl.facts.json import JsonMap
from noetl.usecases import approvals, open_approvals
from noetl.usecases.access import Grant, Principal
from noetl.usecases.address import resolve
from noetl.usecases.approval_requests import ApprovalRequest
from noetl.usecases.runtime import Runtime

if TYPE_CHECKING:
    from noetl.client import Client

#: Approvals that are shown.
MOST: Final = 1000

server_option = click.option(
    "--server", metavar="URL", help="Ask a server, as whom NOETL_TOKEN says, and not the database as oneself."
)


class ApprovalDesk(Protocol):
    """Approvals and answers, as REST has them."""

    def inbox(self, *, mine: bool) -> list[JsonMap]:
        """The open ones of all executions, the oldest first, up to `MOST`."""

    def open_of(self, address: str) -> list[JsonMap]:
        """Those of one execution. Raises NotFound."""

    def answer(self, address: str, request: ApprovalRequest) -> JsonMap:
        """Raises as `usecases.approvals.answer` does."""

    def tell(self, given: JsonMap, what: str) -> None:
        """Says what was done."""


@contextmanager
def open_desk(server: str | None) -> Iterator[ApprovalDesk]:
    """The one that is meant."""
    if server is not None:
        from noetl.cli.remote import connect  # the HTTP client is needed only here

        with connect(server) as client:
            yield RemoteDesk(client)
        return
    with open_runtime() as rt:
        yield LocalDesk(rt, Principal(rt.principal or "", (Grant("admin"),)))


@dataclass(frozen=True, slots=True)
class LocalDesk:
    """The database, for who may do everything with it anyhow, and is asked by its own name."""

    rt: Runtime
    principal: Principal

    def inbox(self, *, mine: bool) -> list[JsonMap]:
        page = open_approvals.pending(self.rt, self.principal, mine=mine, limit=MOST)
        return [one.as_json() for one in page.found]

    def open_of(self, address: str) -> list[JsonMap]:
        found = open_approvals.open_in(self.rt, self.principal, resolve(self.rt, address))
        return open_approvals.show_open(self.rt, found)

    def answer(self, address: str, request: ApprovalRequest) -> JsonMap:
        """Raises as it does, and BadRequest for values that cannot be."""
        try:
            return approvals.answer(self.rt, self.principal, resolve(self.rt, address), request).as_json()
        except InputsInvalid as error:
            # Of inputs it is said that nothing was started.
            raise BadRequest(error.message) from error

    def tell(self, given: JsonMap, what: str) -> None:
        report(self.rt, str(given["execution_id"]), what)


@dataclass(frozen=True, slots=True)
class RemoteDesk:
    """A server."""

    client: Client

    def inbox(self, *, mine: bool) -> list[JsonMap]:
        return self.client.approvals(mine=mine, limit=MOST)

    def open_of(self, address: str) -> list[JsonMap]:
        return self.client.approvals_of(address)

    def answer(self, address: str, request: ApprovalRequest) -> JsonMap:
        """Raises as it does, and BadRequest for values that cannot be."""
        place = {"task": request.task, "name": request.name, "iteration": request.iteration, "id": request.id}
        try:
            if request.answer == "reject":
                return self.client.reject(address, request.step, reason=request.reason, **place)  # type: ignore[arg-type]
            return self.client.approve(
                address,
                request.step,
                values=request.values,
                reason=request.reason,
                **place,  # type: ignore[arg-type]
            )
        except InputsInvalid as error:
            raise BadRequest(error.message) from error

    def tell(self, given: JsonMap, what: str) -> None:
        click.echo(f"{given['execution_id']}: {what}.")
