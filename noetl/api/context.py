"""What the routes of one application share, and what serves one request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from flask import current_app, g

from noetl.api.limits import WaitingPlaces
from noetl.api.oidc import Issuer
from noetl.api.rates import TokenRates
from noetl.config import Settings
from noetl.facts.callers import Caller
from noetl.usecases.access import NOBODY, Principal
from noetl.usecases.runtime import Runtime

#: Where the application keeps its context.
KEY: Final = "noetl"


@dataclass(frozen=True, slots=True)
class ApiContext:
    """`places` are those of requests that wait, `rates` the limits of tokens, `issuer` who signs
    tokens besides. `principal` is who asks: until that is known, nobody who may anything."""

    rt: Runtime
    settings: Settings
    places: WaitingPlaces
    rates: TokenRates
    issuer: Issuer | None = None
    principal: Principal = NOBODY

    def serving(self, principal: Principal, request_id: str) -> ApiContext:
        """The same for one request: what is done in it names who asked."""
        rt = self.rt.acting_for(Caller(principal.name, request_id))
        return replace(self, rt=rt, principal=principal)


def application() -> ApiContext:
    """What all requests share, whoever asks."""
    found: ApiContext = current_app.extensions[KEY]
    return found


def services() -> ApiContext:
    """What the current request is served with."""
    found: ApiContext | None = g.get(KEY)
    return application() if found is None else found


def serve(principal: Principal) -> None:
    """From now on the current request is that principal's."""
    setattr(g, KEY, application().serving(principal, g.request_id))
