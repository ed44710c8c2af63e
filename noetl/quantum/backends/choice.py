"""Which backend a task names."""

from __future__ import annotations

from noetl.errors import ToolError
from noetl.facts.json import JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.quantum.backends import local
from noetl.quantum.config import LOCAL, REMOTE, Backend, QuantumConfig
from noetl.quantum.model import LocalBackend, RemoteBackend
from noetl.quantum.session import Session
from noetl.quantum.simulation.mitigation import parse


def chosen(session: Session) -> LocalBackend | RemoteBackend:
    """The backend of a task. Raises ToolError where there is none of that name, where its package is not installed, or
    where it does not know an option."""
    config = session.config.backend
    return local.simulator(config) or _elsewhere(session, config, _vendor(session.config))


def _vendor(config: QuantumConfig) -> JsonMap:
    return parse(config.mitigation or {}).vendor


def _refuse_vendor(vendor: JsonMap, provider: str) -> None:
    if vendor:
        raise ToolError(
            "client_error", f"mitigation.vendor: {provider} has no such options.", type="MitigationError"
        )


def _elsewhere(session: Session, config: Backend, vendor: JsonMap) -> LocalBackend | RemoteBackend:
    # Imported where they are asked for: who stays on simulators needs no vendor's package.
    match config.provider:
        case "ionq":
            from noetl.quantum.backends.ionq import IonQ

            return IonQ(config, session.services, session.held.client(), vendor)
        case "aqt":
            from noetl.quantum.backends.aqt import Aqt

            _refuse_vendor(vendor, config.provider)
            return Aqt(config, session.services, session.held.client())
        case "google":
            from noetl.quantum.backends.google import Google

            _refuse_vendor(vendor, config.provider)
            return Google(config)
    known = (*LOCAL, *REMOTE)
    raise ToolError(
        "client_error",
        f"There is no backend '{config.provider}'; there are {', '.join(known)}."
        f"{did_you_mean(config.provider, known)}",
        type="NoBackend",
    )
