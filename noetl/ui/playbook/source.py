"""The text of a version of a playbook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from flask import Response

from noetl.ui.playbook.look import PlaybookLook

#: What a name of a file is not to hold.
_UNFIT: Final = re.compile(r"[^\w.-]+", re.ASCII)


def gather(look: PlaybookLook) -> Mapping[str, Any]:
    """What `playbook/source.html` shows."""
    return {"lines": split_lines(look.row.content)}


def split_lines(text: str) -> list[str]:
    """The lines of a document, as editors count them."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def send_file(look: PlaybookLook) -> Response:
    """The text, to be kept as a file."""
    name = _UNFIT.sub("-", look.path.rpartition("/")[2])[:100].strip("-.") or "playbook"
    sent = Response(look.row.content, mimetype="application/yaml")
    sent.headers.set("Content-Disposition", "attachment", filename=f"{name}-v{look.row.version}.yaml")
    return sent
