"""What a forecast needs, and whether it is there: credentials, secrets, playbooks. Looked up by
name; none is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, assert_never

from noetl.dsl import compile_playbook
from noetl.errors import NotFound, ToolError
from noetl.facts.secret import STORE
from noetl.forecast.model import CalledPlaybook, Forecast, SecretForecast
from noetl.forecast.secrets import OWN
from noetl.net.model import KindInfo
from noetl.usecases import catalog
from noetl.usecases.credentials import best, explain_absence
from noetl.usecases.ports import Library, PlaybookFile, PlaybookRow, Transaction
from noetl.usecases.secrets import Inspectable, Provider

_NEEDED: Final = "its name is known only then"
_PROVIDED: Final = "it comes while a run goes on, says `provides`"


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
        secrets=tuple(_look_for_secret(secret, forecast, by) for secret in forecast.secrets),
        playbooks=tuple(_look_for_playbook(called, forecast, by) for called in forecast.playbooks),
    )


def mark_unknown(forecast: Forecast, why: str) -> Forecast:
    """`forecast` where it was not possible to look."""
    return replace(
        forecast,
        secrets=tuple(replace(secret, note=why) for secret in forecast.secrets),
        playbooks=tuple(replace(called, note=why) for called in forecast.playbooks),
    )


def _look_for_secret(secret: SecretForecast, forecast: Forecast, by: Provisions) -> SecretForecast:
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
            return _look_in_store(secret, name, forecast, by.tx)
        case _, provider:
            return _ask_provider(secret, name, provider, by)


def _look_in_store(
    secret: SecretForecast, name: str, forecast: Forecast, tx: Transaction | None
) -> SecretForecast:
    rows = [] if tx is None else tx.credentials.find(name)
    row = best(rows, forecast.path, "")
    if row is not None:
        return replace(secret, exists=True, note=f"of type {row.type}")
    if name in forecast.provides.credentials:
        return replace(secret, note=_PROVIDED)
    why = explain_absence(tx, name, forecast.path, rows)
    return replace(secret, exists=False, note=why.rstrip("."))


def _ask_provider(secret: SecretForecast, name: str, provider: str, by: Provisions) -> SecretForecast:
    try:
        found = by.provider(provider)
        if not isinstance(found, Inspectable):
            return replace(secret, note=f"{provider} was not asked")
        exists = found.has(name)
    except ToolError as error:
        return replace(secret, exists=False, note=error.message.rstrip("."))
    return replace(secret, exists=exists, note="" if exists else f"{provider} has no {name!r}")


def _look_for_playbook(called: CalledPlaybook, forecast: Forecast, by: Provisions) -> CalledPlaybook:
    """As `catalog.find_to_call` finds it."""
    if called.needs:
        return replace(called, note="its path is known only then")
    version = called.version if isinstance(called.version, int) else None
    try:
        found = catalog.look_for_called(by.tx, by.library, called.path, version)
    except NotFound as error:
        if called.path in forecast.provides.playbooks:
            return replace(called, note=_PROVIDED)
        return replace(called, found="", note=error.message.rstrip("."))
    match found:
        case PlaybookRow():
            return replace(called, found=f"catalog version {found.version}")
        case PlaybookFile():
            return replace(called, found=f"file {found.file}", note=_fault(found, by.kinds))
        case _:
            assert_never(found)


def _fault(file: PlaybookFile, kinds: Mapping[str, KindInfo]) -> str:
    compiled = compile_playbook(file.content, file=file.file, kinds=kinds)
    return "" if compiled.net is not None else f"it cannot be run: {compiled.errors[0]}"
