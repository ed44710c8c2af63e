"""The page of who may do what, and its tabs: what each shows, and what its forms change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from flask import Response, request
from werkzeug.wrappers import Response as AnyResponse

from noetl.errors import BadRequest, NotFound
from noetl.facts.nearest import did_you_mean
from noetl.ui.access import audit, credentials, tokens
from noetl.ui.access.forms import RefusedForm
from noetl.ui.site import Visitor, here, is_part, show, show_error
from noetl.usecases.access import lacking

#: What a template is given, by name.
Shown: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AccessTab:
    """`name` stands in the address, `title` on the tab. `is_for_all`: it is for who has `admin` for
    all playbooks; else it shows what those of some playbooks may know."""

    name: str
    title: str
    template: str
    gather: Callable[[Visitor], Shown]
    is_for_all: bool = True


TABS: Final = (
    AccessTab("", "Credentials", "access/credentials.html", credentials.gather, is_for_all=False),
    AccessTab("tokens", "Tokens", "access/tokens.html", tokens.gather),
    AccessTab("audit", "Audit", "access/audit.html", audit.gather),
)
#: What forms change, by the name of what they do.
_CHANGES: Final[Mapping[str, Callable[[Visitor], AnyResponse | RefusedForm]]] = {
    "save_credential": credentials.save,
    "delete_credential": credentials.delete,
    "create_token": tokens.create,
    "revoke_token": tokens.revoke,
}


def show_access() -> Response:
    """The page. Raises NotFound for a tab that there is not, and Forbidden for one of others."""
    visitor, tab = here().find_visitor(), _find_tab(request.args.get("tab", ""))
    if tab.is_for_all and not visitor.principal.may("admin"):
        raise lacking(visitor.principal, "admin", "all playbooks")
    return _show(visitor, tab, tab.gather(visitor))


def _show(visitor: Visitor, tab: AccessTab, shown: Shown, status: int = 200) -> Response:
    tabs = [one for one in TABS if visitor.principal.may("admin") or not one.is_for_all]
    return show("access/page.html", status, tab=tab, tabs=tabs, **shown)


def _find_tab(name: str) -> AccessTab:
    for one in TABS:
        if one.name == name:
            return one
    hint = did_you_mean(name, (one.name for one in TABS if one.name))
    raise NotFound(f"The page has no tab {name[:40]!r}.{hint}")


def change() -> AnyResponse:
    """Does what a form asks for, or asks whether that is meant. Raises BadRequest for what no form
    asks for, and as what is done does."""
    act = request.form.get("act", "")
    if act not in _CHANGES:
        raise BadRequest(f"{act[:40]!r} is nothing that can be done here.")
    visitor = here().find_visitor()
    done = _CHANGES[act](visitor)
    if isinstance(done, RefusedForm):
        if is_part():
            # The form stands there still, with all that was typed.
            return show_error(done.error)
        return _show(visitor, _find_tab(done.tab), done.shown, here().status_of(done.error) or 400)
    return done
