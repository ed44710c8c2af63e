"""What commands take in the place of an execution's id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from noetl.cli.process import open_runtime
from noetl.errors import BadRequest, Conflict
from noetl.usecases.address import is_drawn, resolve

F = TypeVar("F", bound=Callable[..., Any])


def execution_argument(name: str = "execution_id", **more: Any) -> Callable[[F], F]:
    """An argument that is an id, a business key, or `<path of the playbook>:<key>`, or several of
    them. The command is given the ids."""
    return click.argument(name, callback=_resolve_all, **more)


def execution_option(name: str, about: str) -> Callable[[F], F]:
    """An option that takes the same."""
    return click.option(name, metavar="ID", callback=_resolve_all, help=about)


def _resolve_all(_ctx: click.Context, _param: click.Parameter, given: str | tuple[str, ...] | None) -> Any:
    if given is None:
        return None
    return _resolve(given) if isinstance(given, str) else tuple(map(_resolve, given))


def _resolve(address: str) -> str:
    """Raises NotFound, and BadRequest for what several executions may be called."""
    if is_drawn(address):
        return address
    with open_runtime() as rt:
        try:
            return resolve(rt, address)
        except Conflict as error:
            raise BadRequest(error.message) from error
