"""Credentials: encrypted before they reach the store, for everybody, for some playbooks, or for one
execution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from noetl.errors import BadRequest, ConfigError, Conflict, NotFound
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.usecases.access import Principal, lacking
from noetl.usecases.credential_types import TYPES, find_fault
from noetl.usecases.moment import refuse_specimen
from noetl.usecases.ports import AuditFilter, CredentialRow, CredentialScope, Transaction, credential_key
from noetl.usecases.runtime import Runtime

__all__ = [
    "EVERYBODY",
    "TYPES",
    "Audience",
    "Origin",
    "audience",
    "best",
    "check_may_keep",
    "credentials",
    "delete",
    "explain_absence",
    "find_origin",
    "may_know",
    "rotate",
    "save",
]
#: Entries of the audit that are read to find who saved a credential.
_LOOKED_AT: Final = 20


@dataclass(frozen=True, slots=True)
class Audience:
    """Who may use a credential. `place` is a path of the catalog, or the id of an execution."""

    scope: CredentialScope = "global"
    place: str = ""

    def __str__(self) -> str:
        return self.scope if self.scope == "global" else f"{self.scope} {self.place}"


EVERYBODY: Final = Audience()


def audience(path: str | None = None, execution: str | None = None) -> Audience:
    """For the playbooks at `path` and below, for one execution, or for everybody. Raises
    BadRequest."""
    if path and execution:
        raise BadRequest("A credential is kept for a path or for an execution, not for both.")
    if execution:
        return Audience("execution", execution)
    if path is None:
        return EVERYBODY
    place = path.strip("/")
    if not place or len(place) > 512 or not place.isprintable():
        raise BadRequest(f"{path[:80]!r} is no path of the catalog.")
    return Audience("path", place)


def save(
    rt: Runtime,
    name: str,
    type: str,
    data: JsonMap,
    of: Audience = EVERYBODY,
) -> CredentialRow:
    """Creates or replaces. Raises BadRequest for a bad name, type or data; NotFound or Conflict for
    an execution that there is not, or that has ended."""
    if not name or len(name) > 128 or not all(c.isalnum() or c in "-_./" for c in name):
        raise BadRequest(f"{name!r} is not a credential name: use letters, digits, `-`, `_`, `.` and `/`.")
    if type not in TYPES:
        raise BadRequest(
            f"{type!r} is not a credential type ({', '.join(TYPES)}).{did_you_mean(type, TYPES)}"
        )
    if not data:
        raise BadRequest("The data of a credential is a JSON object with at least one field.")
    wrong = find_fault(type, data)
    if wrong is not None:
        raise BadRequest(f"Credential {name!r} cannot be kept: {wrong}.")
    now = rt.clock()
    with rt.store.begin() as tx:
        _check(tx, of)
        before = tx.credentials.get(credential_key(name, of.scope, of.place))
        made = before.created_at if before else now
        row = CredentialRow(name, type, rt.encrypt(data), made, now, of.scope, of.place)
        tx.credentials.save(row)
        # What the fields are called is no secret, and nobody can tell it from the ciphertext.
        rt.record(tx, "credential.saved", name, {"type": type, **_placed(of), "fields": sorted(data)})
    return row


def _placed(of: Audience) -> JsonMap:
    return {} if of == EVERYBODY else {of.scope: of.place}


def _check(tx: Transaction, of: Audience) -> None:
    if of.scope != "execution":
        return
    row = tx.executions.lock(of.place)
    if row is None:
        raise NotFound(f"There is no execution {of.place[:80]!r}.")
    refuse_specimen(row)
    if row.ended_at is not None:
        raise Conflict(f"Execution {of.place} is {row.status}; nothing will use the credential.")


def check_may_keep(principal: Principal, of: Audience) -> None:
    """Raises Forbidden for who may not keep, or delete, a credential for these."""
    match of.scope:
        case "path" if not principal.may_below("admin", of.place):
            raise lacking(principal, "admin", f"all playbooks at {of.place[:200]!r} and below")
        case "path":
            return
        case _ if not principal.may("admin"):
            raise lacking(principal, "admin", "all playbooks")


def may_know(principal: Principal, row: CredentialRow) -> bool:
    """Whether the principal may know that there is such a credential."""
    return principal.may("admin") or (row.scope == "path" and principal.may_below("admin", row.place))


@dataclass(frozen=True, slots=True)
class Origin:
    """Who saved a credential as it is, and what its fields are called, as the audit tells."""

    principal: str
    fields: tuple[str, ...]


def find_origin(rt: Runtime, row: CredentialRow) -> Origin | None:
    """None where the audit does not know: an execution made it, or it is older than that."""
    where = AuditFilter(action="credential.saved", subject=row.name)
    placed = _placed(Audience(row.scope, row.place))
    with rt.store.read() as tx:
        entries = tx.audit.find(where, limit=_LOOKED_AT)
    for one in entries:
        if {name: one.detail[name] for name in ("path", "execution") if name in one.detail} == placed:
            fields = one.detail.get("fields")
            names = tuple(map(str, fields)) if isinstance(fields, list) else ()
            return Origin(one.caller.principal, names)
    return None


def credentials(rt: Runtime) -> list[CredentialRow]:
    """All, by name; their data stays encrypted."""
    with rt.store.read() as tx:
        return tx.credentials.find()


def delete(rt: Runtime, name: str, of: Audience = EVERYBODY) -> None:
    """Raises NotFound with the nearest name, or with where that name is kept."""
    with rt.store.begin() as tx:
        if tx.credentials.delete(credential_key(name, of.scope, of.place)):
            rt.record(tx, "credential.deleted", name, _placed(of))
            return
        kept = [str(Audience(row.scope, row.place)) for row in tx.credentials.find(name)]
        if kept:
            raise NotFound(f"Credential {name!r} is kept for {' and '.join(kept)}, not for {of}.")
        hint = did_you_mean(name, (row.name for row in tx.credentials.find()))
        raise NotFound(f"There is no credential {name!r}.{hint}")


def rotate(rt: Runtime, decrypt: Callable[[bytes], Mapping[str, Json]]) -> int:
    """Encrypts every credential anew, with the newest key, in one transaction; how many. Raises
    ConfigError that names one that no key opens: then nothing has changed."""
    with rt.store.begin() as tx:
        rows = [*tx.credentials.find(), *tx.credentials.find_of_lineages()]
        count = sum(tx.credentials.reencrypt(row, rt.encrypt(_open(row, decrypt))) for row in rows)
        rt.record(tx, "credential.rotated", "*", {"count": count})
        return count


def _open(row: CredentialRow, decrypt: Callable[[bytes], Mapping[str, Json]]) -> Mapping[str, Json]:
    try:
        return decrypt(row.data)
    except ConfigError as error:
        raise ConfigError(f"Credential {row.name!r} stays as it is, and so do all others: {error}") from None


def best(rows: Iterable[CredentialRow], path: str, execution_id: str) -> CredentialRow | None:
    """The one that an execution of the playbook at `path` uses: its own, else the one of the
    nearest path, else the global one."""
    usable = [(_nearness(row, path, execution_id), row) for row in rows]
    found = max((one for one in usable if one[0] >= 0), key=lambda one: one[0], default=None)
    return None if found is None else found[1]


def explain_absence(
    tx: Transaction | None,
    name: str,
    path: str,
    rows: Iterable[CredentialRow],
    entries: Iterable[str] = (),
) -> str:
    """Why the playbook at `path` finds none of that name among `rows`, and what to do. `entries`
    are those of its keychain. Without `tx` there is no store yet."""
    if kept := " and ".join(str(Audience(row.scope, row.place)) for row in rows):
        return f"Credential {name!r} is kept for {kept}, not for playbook {path!r}."
    known = [] if tx is None else [row.name for row in tx.credentials.find()]
    hint = did_you_mean(name, [*known, *entries])
    hint = hint or f" Set it with `noetl credential set {name} --type TYPE`."
    return f"There is no credential {name!r}.{hint}"


def _nearness(row: CredentialRow, path: str, execution_id: str) -> int:
    match row.scope:
        case "global":
            return 0
        case "path":
            below = f"{path.strip('/')}/".startswith(f"{row.place}/")
            return len(row.place) if below else -1
        case "execution" | "lineage":
            return 1_000_000 if row.place == execution_id else -1
        case _:
            assert_never(row.scope)
