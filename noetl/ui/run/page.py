"""The page of one execution, which also takes the answers to what it asks."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from noetl.errors import BadRequest, Conflict, Forbidden
from noetl.facts.json import JsonMap
from noetl.ui.acting import find_acts
from noetl.ui.run import events, logs, variables
from noetl.ui.run.approvals import show_approvals, take_answer, typed_in
from noetl.ui.run.look import RunLook
from noetl.ui.run.tabs import find_tab, find_tabs
from noetl.ui.site import answer, here, is_part, render, share, show
from noetl.usecases import inspect
from noetl.usecases.address import resolve


def show_execution(address: str) -> Response:
    """The page of the execution at that id or key, the part of it that changes, what was true at
    the version that its slider stands at, or rows of its log. Those who have heard of a change, and
    look at the same, get the same part."""
    look = RunLook.read(resolve(here().rt, address))
    if look.tab == "logs" and look.asked.get("as") == "file":
        return logs.send_text(look)
    match look.asked.get("part") if is_part() else None:
        case "moment":
            return show("run/moment.html", look=look, **variables.gather(look))
        case "rows":
            return show("run/event_rows.html", look=look, **events.gather_rows(look))
        case _:
            # Approvals say whether who looks may answer them.
            return answer(share(lambda: _render(look), personal=True))


def take_answers(address: str) -> AnyResponse:
    """Takes the answer that a form of the page sends. What is wrong with it is said there, beside
    what was typed."""
    visitor, sent = here().find_visitor(), request.form.to_dict()
    execution_id = resolve(visitor.rt, address)
    try:
        take_answer(visitor, execution_id, sent)
    except (Forbidden, Conflict, BadRequest) as error:
        text = _render(RunLook.read(execution_id), typed_in(sent), error.message)
        return answer(text, here().status_of(error) or 500)
    # The page again, without the form: reloading it sends nothing.
    return redirect(url_for("pages.execution", address=execution_id), 303)


def _find_failure(look: RunLook) -> JsonMap | None:
    """The error with which it failed, by the version that is shown."""
    if look.at is None:
        return look.report.error
    error = look.state.error if look.state.ended else None
    return None if error is None else error.as_json()


def _render(look: RunLook, typed: Mapping[str, str] | None = None, refused: str = "") -> str:
    tab, found = find_tab(look), look.report
    approvals, more = show_approvals(look.visitor, look.execution_id, typed)
    return render(
        "run/part.html" if is_part() else "run/page.html",
        look=look,
        tab=tab,
        tabs=find_tabs(look),
        report=found.as_json(),
        row=look.row,
        stop=found.stop,
        failure=_find_failure(look),
        # Looking again would lose what was typed.
        is_live=look.goes_on and not typed,
        became=inspect.BECAME,
        acts=find_acts(look.visitor, look.row),
        approvals=approvals,
        more_approvals=more,
        refused=refused,
        **tab.gather(look),
    )
