"""The page of one playbook, which also takes what starts it."""

from __future__ import annotations

from typing import Any

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from noetl.errors import NoetlError
from noetl.ui.playbook import source, start
from noetl.ui.playbook.look import PlaybookLook
from noetl.ui.playbook.tabs import PlaybookTab, find_tab, find_tabs
from noetl.ui.playbook.takes import show_inputs
from noetl.ui.site import answer, here, is_part, render, share


def show_playbook(path: str) -> Response:
    """The page of the playbook at that path, or the part of it that changes. Those who have heard
    of a change, and look at the same, get the same part."""
    look = PlaybookLook.read(path)
    if look.asked.get("as") == "file":
        return source.send_file(look)
    tab = find_tab(look)
    return answer(share(lambda: _render(look, tab, tab.gather(look))))


def take_start(path: str) -> AnyResponse:
    """Starts what a form of the page says, or shows what would run. What is wrong with it is said
    there, beside what was typed."""
    sent = request.form.to_dict()
    look = PlaybookLook.read(path)
    form = start.StartForm.read(look, sent)
    try:
        if form.wants_plan:
            return _show_form(look, form.with_plan())
        # The execution: reloading its page sends nothing.
        return redirect(url_for("pages.execution", address=form.start()), 303)
    except NoetlError as error:
        status = here().status_of(error)
        if status is None:
            raise
        return _show_form(look, form.refused_with(error), status)


def _show_form(look: PlaybookLook, form: start.StartForm, status: int = 200) -> Response:
    tab = next(one for one in find_tabs(look) if one.gather is start.gather)
    return answer(_render(look, tab, {"form": form}), status)


def _render(look: PlaybookLook, tab: PlaybookTab, shown: Any) -> str:
    return render(
        "playbook/part.html" if is_part() else "playbook/page.html",
        look=look,
        row=look.row,
        tab=tab,
        tabs=find_tabs(look),
        takes=show_inputs(look.net),
        **shown,
    )
