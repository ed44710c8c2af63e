"""What may be typed at a place of the text."""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import Final

from flask import Response, current_app, jsonify, request

from noetl.dsl.completion import Completer, InstalledNames
from noetl.errors import BadRequest
from noetl.ui.editor.text import EditedText
from noetl.ui.site import Visitor, here
from noetl.usecases import catalog, credentials

#: Where the application keeps what it is asked for at every key.
_KEY: Final = "noetl.completer"
#: Names of playbooks, and of credentials, that are offered.
_MOST: Final = 1000
_LAST: Final = 10_000_000
_making: Final = threading.Lock()


def complete() -> Response:
    """`{begin, offers: [{label, text, what, about}]}` for the cursor in front of character `column`
    of `line`, both from 0. Raises BadRequest."""
    visitor, edited = here().find_visitor(), EditedText.from_form()
    line, column = _read_place("line"), _read_place("column")
    return jsonify(asdict(_completer(visitor).complete(edited.text, line, column, _known(visitor))))


def _read_place(name: str) -> int:
    text = request.form.get(name, "")
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(_LAST)):
        raise BadRequest(f"`{name}` is a number from 0.")
    return int(text)


def _completer(visitor: Visitor) -> Completer:
    # It is made of the sources of the language, which Python 3.11 cannot parse in two threads.
    with _making:
        found: Completer | None = current_app.extensions.get(_KEY)
        if found is None:
            found = current_app.extensions[_KEY] = Completer(visitor.rt.kinds)
        return found


def _known(visitor: Visitor) -> InstalledNames:
    """Names that the visitor may know."""
    principal = visitor.principal
    rows = credentials.credentials(visitor.rt) if principal.has_some("admin") else ()
    kept = [
        row.name
        for row in rows
        if principal.may("admin") or (row.scope == "path" and principal.may_below("admin", row.place))
    ]
    paths = [one.path for one in catalog.heads(visitor.rt) if principal.may("read", one.path)]
    return InstalledNames(tuple(dict.fromkeys(kept[:_MOST])), tuple(paths[:_MOST]))
