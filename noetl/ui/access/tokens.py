"""Tokens on a page: whose they are and what they may. A new one is shown once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self

from flask import request
from werkzeug.wrappers import Response as AnyResponse

from noetl.errors import BadRequest
from noetl.ui.access.forms import RefusedForm, go_to
from noetl.ui.site import Visitor, show
from noetl.usecases import tokens as use_case
from noetl.usecases.access import SCOPES, lacking
from noetl.usecases.ports import TokenRow

HERE: Final = "/access?tab=tokens"
#: For how many days a token may be good, as people choose it; 0: until it is revoked.
LIFETIMES: Final[Mapping[int, str]] = {
    1: "a day",
    7: "a week",
    30: "30 days",
    use_case.LIFETIME.days: f"{use_case.LIFETIME.days} days",
    365: "a year",
    0: "until it is revoked",
}


@dataclass(frozen=True, slots=True)
class TokenForm:
    """What was typed: a token is no secret before there is one."""

    principal: str = ""
    scopes: Sequence[str] = ()
    paths: str = ""
    groups: str = ""
    days: int = use_case.LIFETIME.days
    rate: str = ""

    @classmethod
    def sent(cls) -> Self:
        """Raises BadRequest for a lifetime that is not offered."""
        texts = {
            name: request.form.get(name, "").strip() for name in ("principal", "paths", "groups", "rate")
        }
        days = request.form.get("days", "")
        if days not in map(str, LIFETIMES):
            raise BadRequest(
                f"{days[:40]!r} is no lifetime that is offered: {', '.join(LIFETIMES.values())}."
            )
        return cls(scopes=request.form.getlist("scope"), days=int(days), **texts)

    @property
    def grants(self) -> list[str]:
        """Each scope for each pattern of paths, or for all playbooks."""
        patterns = _split(self.paths)
        return [f"{scope}:{one}" for scope in self.scopes for one in patterns] or list(self.scopes)

    def make(self, visitor: Visitor) -> use_case.NewToken:
        """Raises BadRequest."""
        return use_case.create(
            visitor.rt,
            self.principal,
            self.grants,
            groups=_split(self.groups),
            lifetime=timedelta(days=self.days) if self.days else None,
            rate=self.rate or None,
        )


def _split(text: str) -> list[str]:
    return text.replace(",", " ").split()


@dataclass(frozen=True, slots=True)
class ShownToken:
    """A token as the page shows it. `state` is `good`, `expired` or `revoked`; `is_own`: it is the
    one that the visitor is signed in with."""

    row: TokenRow
    state: str
    is_own: bool

    @classmethod
    def of(cls, row: TokenRow, visitor: Visitor, now: datetime) -> Self:
        is_over = row.expires_at is not None and row.expires_at <= now
        state = "revoked" if row.revoked_at is not None else "expired" if is_over else "good"
        return cls(row, state, row.token_id == visitor.principal.token_id)


def gather(visitor: Visitor) -> Mapping[str, Any]:
    return {**_list(visitor), "form": TokenForm(), "fault": ""}


def _list(visitor: Visitor) -> Mapping[str, Any]:
    now = visitor.rt.clock()
    shown = [ShownToken.of(row, visitor, now) for row in use_case.tokens(visitor.rt)]
    # Those that are good first, and of all the newest first.
    shown.sort(key=lambda one: (one.state == "good", one.row.created_at), reverse=True)
    return {"tokens": shown, "scopes": SCOPES, "lifetimes": LIFETIMES}


def create(visitor: Visitor) -> AnyResponse | RefusedForm:
    """Makes a token and shows it, this once: the answer is kept by nobody."""
    _check(visitor)
    form = TokenForm()
    try:
        form = TokenForm.sent()
        made = form.make(visitor)
    except BadRequest as error:
        return RefusedForm("tokens", {**_list(visitor), "form": form, "fault": error.message}, error)
    answer = show("access/new_token.html", 201, made=made, back=HERE)
    answer.headers["Cache-Control"] = "no-store"
    return answer


def revoke(visitor: Visitor) -> AnyResponse:
    """Asks whether that is meant, or does it. Raises NotFound."""
    _check(visitor)
    token_id = request.form.get("token_id", "")
    if request.form.get("sure") != "yes":
        row = use_case.find(visitor.rt, token_id)
        return show("access/revoke_token.html", one=ShownToken.of(row, visitor, visitor.rt.clock()))
    use_case.revoke(visitor.rt, token_id)
    return go_to(HERE)


def _check(visitor: Visitor) -> None:
    if not visitor.principal.may("admin"):
        raise lacking(visitor.principal, "admin", "all playbooks")
