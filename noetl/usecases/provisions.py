"""What a forecast needs, and whether it is there: credentials, secrets, playbooks. Looked up by
name; none is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from noetl.dsl import compile_playbook
from noetl.errors import NotFound, ToolError
from noetl.facts.nearest import did_you_mean
from noetl.forecast.model import CalledPlaybook, Forecast, SecretForecast
from noetl.forecast.secrets import OWN
from noetl.net.model import KindInfo
from noetl.usecases import catalog
from noetl.usecases.credentials import Audience, best
from noetl.usecases.ports import Library, PlaybookFile, Transaction
from noetl.usecases.secrets import STORE, Inspectable, Provider

_NEEDED: Final = "its name is known only then"


@dataclass(frozen=True, slots=True)
class Provisions:
    """Where to look. `tx` None: there is no store yet. `library` are the files beside the
    playbook."""

    tx: Transaction | None
    provider: Callable[[str], Provider]
    library: Library
    kinds: Mapping[str, KindInfo]


def find_provisions(forecast: Forecast, by: Provisions) -> Forecast:
    """`forecast` with what is there of what it needs. Raises what the store raises."""
    return replace(
        forecast,
        secrets=tuple(_look_for_secret(secret, forecast.path, by) for secret in forecast.secrets),
        playbooks=tuple(_look_for_playbook(called, by) for called in forecast.playbooks),
    )


def mark_unknown(forecast: Forecast, why: str) -> Forecast:
    """`forecast` where it was not possible to look."""
    return replace(
        forecast,
        secrets=tuple(replace(secret, note=why) for secret in forecast.secrets),
        playbooks=tuple(replace(called, note=why) for called in forecast.playbooks),
    )


def _look_for_secret(secret: SecretForecast, path: str, by: Provisions) -> SecretForecast:
    if secret.error:
        return replace(secret, note="its entry would be refused")
    if secret.needs and secret.provider != OWN:
        return replace(secret, note=_NEEDED)
    name = secret.source or (secret.name if secret.kind == "credential" else "")
    match secret.kind, secret.provider:
        case "static", _:
            note = "it stands in the playbook as plain text, and no task gets it"
            return replace(secret, exists=False, note=note)
        case _, provider if provider == OWN:
            return replace(secret, exists=True, note="the playbook brings it")
        case _, _ if not name:
            return secret
        case _, provider if provider == STORE:
            return _look_in_store(secret, name, path, by.tx)
        case _, provider:
            return _ask_provider(secret, name, provider, by)


def _look_in_store(secret: SecretForecast, name: str, path: str, tx: Transaction | None) -> SecretForecast:
    rows = [] if tx is None else tx.credentials.find(name)
    row = best(rows, path, "")
    if row is not None:
        return replace(secret, exists=True, note=f"of type {row.type}")
    if rows:
        kept = " and ".join(str(Audience(one.scope, one.place)) for one in rows)
        return replace(secret, exists=False, note=f"it is kept for {kept}, not for playbook {path!r}")
    hint = did_you_mean(name, [] if tx is None else [one.name for one in tx.credentials.find()])
    return replace(secret, exists=False, note=f"there is no credential {name!r}.{hint}".rstrip("."))


def _ask_provider(secret: SecretForecast, name: str, provider: str, by: Provisions) -> SecretForecast:
    try:
        found = by.provider(provider)
        if not isinstance(found, Inspectable):
            return replace(secret, note=f"{provider} was not asked")
        exists = found.has(name)
    except ToolError as error:
        return replace(secret, exists=False, note=error.message.rstrip("."))
    return replace(secret, exists=exists, note="" if exists else f"{provider} has no {name!r}")


def _look_for_playbook(called: CalledPlaybook, by: Provisions) -> CalledPlaybook:
    """As `catalog.find_to_call` finds it."""
    if called.needs:
        return replace(called, note="its path is known only then")
    version = called.version if isinstance(called.version, int) else None
    newest = None if by.tx is None else by.tx.playbooks.get(called.path)
    file = None if newest is not None and version is not None else by.library.find(called.path)
    if by.tx is not None and newest is not None and file is None:
        try:
            return replace(
                called, found=f"catalog version {catalog.find(by.tx, called.path, version).version}"
            )
        except NotFound as error:
            return replace(called, found="", note=error.message.rstrip("."))
    if file is None:
        known = [
            *by.library.paths(),
            *(one.path for one in (by.tx.playbooks.heads() if by.tx is not None else ())),
        ]
        note = f"neither the catalog nor the files beside have it.{did_you_mean(called.path, known)}"
        return replace(called, found="", note=note.rstrip("."))
    return replace(called, found=f"file {file.file}", note=_fault(file, by.kinds))


def _fault(file: PlaybookFile, kinds: Mapping[str, KindInfo]) -> str:
    compiled = compile_playbook(file.content, file=file.file, kinds=kinds)
    return "" if compiled.net is not None else f"it cannot be run: {compiled.errors[0]}"
