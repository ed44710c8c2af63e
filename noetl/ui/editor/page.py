"""The page on which a playbook is written."""

from __future__ import annotations

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from noetl.errors import Conflict, NoetlError, PlaybookInvalid
from noetl.ui.editor.check import check
from noetl.ui.editor.text import EditedText, find_newest, may_register, read_text
from noetl.ui.site import Visitor, here, show
from noetl.usecases import catalog
from noetl.usecases.access import lacking
from noetl.usecases.ports import PlaybookRow

#: What the address says after a registration.
_REGISTERED = "registered"
_UNCHANGED = "unchanged"


def edit() -> Response:
    """The page, with a version of a playbook or a new one. Raises NotFound and BadRequest."""
    visitor = here().find_visitor()
    edited = read_text(visitor)
    said = ""
    if request.args.get("now") == _REGISTERED:
        said = f"Version {edited.version} is registered."
    elif request.args.get("now") == _UNCHANGED:
        said = f"Nothing was registered: version {edited.version} has the same text."
    return _show(visitor, edited, said=said)


def take_text() -> AnyResponse:
    """Registers the text of the form, or checks it alone. What is wrong with it is said beside
    it."""
    visitor, edited = here().find_visitor(), EditedText.from_form()
    if request.form.get("do") != "register":
        return _show(visitor, edited)
    try:
        row, is_new = _register(visitor, edited)
    except PlaybookInvalid:
        return _show(visitor, edited, refused="Nothing was registered: the text has errors.", status=422)
    except Conflict as error:
        # Whoever has read that has seen that version.
        return _show(visitor, _seen(visitor, edited), refused=error.message, status=409)
    except NoetlError as error:
        return _show(visitor, edited, refused=error.message, status=here().status_of(error) or 500)
    now = _REGISTERED if is_new else _UNCHANGED
    return redirect(url_for("pages.edit", path=row.path, version=row.version, now=now), 303)


def show_check() -> Response:
    """What is wrong with the text of the form, and its plan: a part of the page."""
    visitor = here().find_visitor()
    return show("editor/found.html", checked=check(visitor, EditedText.from_form().text))


def _show(
    visitor: Visitor, edited: EditedText, *, said: str = "", refused: str = "", status: int = 200
) -> Response:
    return show(
        "editor/page.html",
        status,
        edited=edited,
        checked=check(visitor, edited.text),
        may_register=may_register(visitor.principal, edited.path),
        said=said,
        refused=refused,
    )


def _register(visitor: Visitor, edited: EditedText) -> tuple[PlaybookRow, bool]:
    """The version that has the text, and whether it is new. Raises Conflict where somebody else has
    registered one that whoever types has not seen, Forbidden, and PlaybookInvalid."""
    before: list[int] = []

    def allow(path: str) -> None:
        if not visitor.principal.may("operate", path):
            raise lacking(visitor.principal, "operate", f"playbook {path[:200]!r}")
        newest = find_newest(visitor, path)
        before.append(newest.version if newest is not None else 0)
        if newest is not None and newest.content_sha256 != catalog.sha256_of(edited.text):
            _check_seen(edited, newest)

    row = catalog.register(visitor.rt, edited.text, check=allow)
    return row, row.version not in before


def _check_seen(edited: EditedText, newest: PlaybookRow) -> None:
    """Raises Conflict."""
    if edited.path != newest.path:
        raise Conflict(
            f"There is a playbook {newest.path!r} already, at version {newest.version}. Register again to "
            f"make this text its version {newest.version + 1}, or write another `metadata.path`."
        )
    if edited.base != newest.version:
        raise Conflict(
            f"Version {newest.version} was registered since you began, and this text has nothing of it. "
            "Look at it first, or register again to put this text above it."
        )


def _seen(visitor: Visitor, edited: EditedText) -> EditedText:
    """The text, of somebody who knows the newest version of the playbook that it is."""
    path = check(visitor, edited.text).path
    newest = find_newest(visitor, path)
    base = 0 if newest is None else newest.version
    return EditedText(edited.text, path, base, edited.version if path == edited.path else base)
