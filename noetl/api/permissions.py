"""What each route needs: a scope, and whose playbook decides where a token is for some playbooks
only.

A route that is not in the table is refused, whoever asks. Where the body of a request decides, the
guard only sees that the scope is there at all; the handler calls `check_playbook`, or the check of
its use case, before it does anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias, assert_never

from noetl.api.context import ApiContext, services
from noetl.api.segments import decode_segment
from noetl.errors import Forbidden, NotFound
from noetl.usecases import catalog, moment
from noetl.usecases.access import Principal, Scope, lacking
from noetl.usecases.address import resolve
from noetl.usecases.ports import ExecutionRow, OperationRow
from noetl.usecases.results import owner_of

#: `nobody`: it is answered whoever asks. `anybody`: who has said who it is. `whole`: the scope for
#: every playbook. `given`: what the request names, which the handler looks at, or what is listed,
#: which is narrowed to what may be seen. The others: the playbook of what the path names.
Decider: TypeAlias = Literal[
    "nobody", "anybody", "whole", "given", "execution", "page", "playbook", "result", "operation"
]


@dataclass(frozen=True, slots=True)
class Rule:
    """The scope that a route needs, and what decides for which playbook."""

    decider: Decider
    scope: Scope | None = None

    def __str__(self) -> str:
        """As the OpenAPI document says it."""
        return self.decider if self.scope is None else f"{self.scope}{_SAID[self.decider]}"


_SAID: Final[Mapping[Decider, str]] = {
    "nobody": "",
    "anybody": "",
    "whole": " for all playbooks",
    "given": " for the playbooks that it is about",
    "execution": " for the playbook of the execution",
    "page": " for the playbook of the execution",
    "playbook": " for the playbook",
    "result": " for the playbook of the execution that has the result",
    "operation": " for all playbooks, or for some where the operation is one's own",
}

_READ: Final = Rule("execution", "read")
_STEER: Final = Rule("execution", "operate")
_ADMIN: Final = Rule("whole", "admin")
_PARTS: Final = Rule("whole", "operate")
_START: Final = Rule("given", "run")
_OPERATION: Final = Rule("operation", "operate")

#: By the names of endpoints.
RULES: Final[Mapping[str, Rule]] = {
    "system.health": Rule("nobody"),
    "system.runtime": Rule("given", "read"),
    "system.render": Rule("given", "read"),
    "system.whoami": Rule("anybody"),
    "document": Rule("anybody"),
    "docs.page": Rule("anybody"),
    "docs.file": Rule("anybody"),
    "pages.index": Rule("given", "read"),
    "pages.execution": Rule("page", "read"),
    "pages.answer": Rule("page", "approve"),
    "pages.act": Rule("given", "operate"),
    "pages.artifact": _READ,
    "pages.picture": Rule("result", "read"),
    "pages.again": Rule("given", "operate"),
    "pages.fixture": Rule("given", "read"),
    "pages.queues": Rule("given", "read"),
    "pages.steer_queues": _PARTS,
    "pages.access": Rule("given", "admin"),
    "pages.change_access": Rule("given", "admin"),
    "pages.playbooks": Rule("given", "read"),
    "pages.playbook": Rule("playbook", "read"),
    "pages.start": Rule("playbook", "run"),
    "pages.news": Rule("given", "read"),
    "pages.failures": Rule("given", "read"),
    "pages.retry_failures": Rule("given", "operate"),
    "pages.operations": Rule("given", "read"),
    "pages.operation": Rule("operation", "read"),
    "pages.steer_operation": _OPERATION,
    "pages.flower_main": Rule("whole", "read"),
    "pages.flower": Rule("whole", "read"),
    "pages.flower_search": Rule("whole", "read"),
    "pages.flower_steer": _PARTS,
    "pages.edit": Rule("given", "read"),
    "pages.register": Rule("given", "operate"),
    "pages.check": Rule("given", "operate"),
    "pages.complete": Rule("given", "operate"),
    "pages.login": Rule("nobody"),
    "pages.sign_in": Rule("nobody"),
    "pages.sign_out": Rule("nobody"),
    "pages.file": Rule("nobody"),
    "tokens.list_tokens": _ADMIN,
    "tokens.create": _ADMIN,
    "tokens.revoke": _ADMIN,
    "audit.read": _ADMIN,
    "catalog.register": Rule("given", "operate"),
    "catalog.playbooks": Rule("given", "read"),
    "catalog.inputs": Rule("playbook", "read"),
    "catalog.playbook": Rule("playbook", "read"),
    "executions.executions": Rule("given", "read"),
    "executions.grouped_failures": Rule("given", "read"),
    "tally.tally": Rule("given", "read"),
    "executions.create": _START,
    "executions.report": _READ,
    "executions.result": _READ,
    "executions.state": _READ,
    "executions.graph": _READ,
    "executions.cancel": _STEER,
    "executions.pause": _STEER,
    "executions.resume": _STEER,
    "executions.patch": _STEER,
    "again.retry_execution": _STEER,
    "again.fork_execution": _STEER,
    "again.migrate_execution": _STEER,
    "history.explain": _READ,
    "history.diff": _READ,
    "history.timeline": _READ,
    "events.events": _READ,
    "logs.read": _READ,
    "specimens.export": _READ,
    "specimens.fixture": _READ,
    "specimens.import_": _ADMIN,
    "signals.send": Rule("execution", "run"),
    "callbacks.call": Rule("nobody"),
    "approvals.list_approvals": _READ,
    "approvals.answer": Rule("execution", "approve"),
    "inbox.inbox": Rule("given", "read"),
    "correlated.send_about": Rule("whole", "run"),
    "variables.list_variables": _READ,
    "variables.show": _READ,
    "variables.assign": _STEER,
    "batch.create_batch": _START,
    "workflows.run": _START,
    "workflows.status": _READ,
    "workflows.result": _READ,
    "operations.begin": Rule("given", "operate"),
    "operations.list_operations": Rule("given", "read"),
    "operations.show": Rule("operation", "read"),
    "operations.items": Rule("operation", "read"),
    "operations.cancel": _OPERATION,
    "operations.pause": _OPERATION,
    "operations.resume": _OPERATION,
    "results.result": Rule("result", "read"),
    "cache.cached": Rule("given", "read"),
    "limits.list_limits": Rule("given", "read"),
    "limits.pause": _PARTS,
    "limits.resume": _PARTS,
    "queues.list_queues": Rule("given", "read"),
    "queues.pause_queue": _PARTS,
    "queues.resume_queue": _PARTS,
    "cache.clear": _ADMIN,
    "credentials.save": Rule("given", "admin"),
    "credentials.list_credentials": Rule("given", "admin"),
    "credentials.delete": Rule("given", "admin"),
}


def check_route(endpoint: str, here: ApiContext, names: MutableMapping[str, Any]) -> None:
    """Lets the request to `endpoint` pass. `names` are those of its path; addresses of executions
    among them become ids, so that what was looked at is what the handler is given.

    Raises Forbidden; NotFound where what the path names is not for the caller to know of.
    """
    rule = RULES.get(endpoint)
    if rule is None:
        raise Forbidden(f"Nobody has said who may use {endpoint!r}: this is a defect of NoETL.")
    if rule.scope is None or here.principal.may(rule.scope):
        return
    _check_restricted(rule, rule.scope, here, names)


def _check_restricted(rule: Rule, scope: Scope, here: ApiContext, names: MutableMapping[str, Any]) -> None:
    match rule.decider:
        case "execution":
            for name in names.keys() & {"execution_id", "other"}:
                names[name] = _check_address(here, scope, decode_segment(names[name]))
        case "page":
            names["address"] = _check_address(here, scope, names["address"])
        case "playbook":
            _check_known(here, scope, names["path"])
        case "result":
            _check_result(here, scope, names["name"])
        case "operation":
            _check_operation(here, scope, names["operation_id"])
        case "given":
            if not here.principal.has_some(scope):
                raise lacking(here.principal, scope)
        case "whole" | "nobody" | "anybody":
            raise lacking(here.principal, scope, "all playbooks")
        case _:
            assert_never(rule.decider)


# --- of what the path names -----------------------------------------------------------------------


def may_read(principal: Principal) -> Callable[[str], bool]:
    """Whether the principal may look at what belongs to the playbook of that path."""
    return partial(principal.may, "read")


def _check_address(here: ApiContext, scope: Scope, address: str) -> str:
    """The id of the execution at that address. Raises Forbidden, NotFound, Conflict."""
    execution_id = resolve(here.rt, address, may_read(here.principal))
    _check_execution(here, scope, execution_id)
    return execution_id


def _check_execution(here: ApiContext, scope: Scope, execution_id: str) -> None:
    row = _row(here, execution_id)
    if row is None or not here.principal.may("read", row.path):
        raise moment.no_execution(execution_id)
    _check_path(here.principal, scope, row.path)


def _row(here: ApiContext, execution_id: str) -> ExecutionRow | None:
    with here.rt.store.read() as tx:
        return tx.executions.get(execution_id) if moment.is_id(execution_id) else None


def _check_path(principal: Principal, scope: Scope, path: str) -> None:
    if not principal.may(scope, path):
        raise lacking(principal, scope, f"playbook {path[:200]!r}")


def _check_known(here: ApiContext, scope: Scope, path: str) -> None:
    """What there is not is said without the names of others, which may not be for the caller."""
    if not here.principal.may("read", path) or not catalog.is_known(here.rt, path):
        raise NotFound(f"There is no playbook {path[:512]!r} in the catalog.")
    _check_path(here.principal, scope, path)


def _check_result(here: ApiContext, scope: Scope, name: str) -> None:
    execution_id = owner_of(f"noetl://results/{name}")
    if execution_id is None:
        # Kept for a time or for good, whosever it was.
        raise lacking(here.principal, scope, "all playbooks")
    _check_execution(here, scope, execution_id)


def _check_operation(here: ApiContext, scope: Scope, operation_id: str) -> None:
    principal, row = here.principal, _operation(here, operation_id)
    is_own = row is not None and row.principal == principal.name
    if not is_own and not principal.may("read"):
        raise NotFound(f"There is no operation {operation_id[:80]!r} of {principal.name}.")
    if not is_own or not principal.has_some(scope):
        raise lacking(principal, scope, "all playbooks")


def _operation(here: ApiContext, operation_id: str) -> OperationRow | None:
    with here.rt.store.read() as tx:
        return tx.operations.get(operation_id) if moment.is_id(operation_id) else None


# --- of what a body names -------------------------------------------------------------------------


def check_playbook(scope: Scope, path: str) -> None:
    """Raises Forbidden for a playbook that the caller may look at only, and NotFound for one that
    there is not, or that it may not know of."""
    here = services()
    if not here.principal.may(scope):
        _check_known(here, scope, path)


def check_text(path: str) -> None:
    """The same for a playbook that comes with the request and is to be registered at `path`."""
    _check_path(services().principal, "operate", path)
