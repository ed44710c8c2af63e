"""The text that is edited, and what it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from flask import request

from noetl.errors import BadRequest, NotFound
from noetl.ui.site import Visitor
from noetl.usecases import catalog
from noetl.usecases.access import Principal
from noetl.usecases.ports import PlaybookRow

_LARGEST_VERSION: Final = 2**31 - 1

#: What somebody begins with.
SKELETON: Final = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: My playbook
  # What it is registered under, started by, and called by.
  path: examples/my-playbook

# Values that it begins with; whoever starts it may give others.
workload:
  city: Lisbon

workflow:
  # Steps are run one after the other, as `next` leads.
  - step: greet
    tool:
      kind: python
      input:
        city: "{{ workload.city }}"
      code: |
        result = {"said": f"Hello, {city}!"}
    next: say
  - step: say
    tool:
      kind: noop
      result: "{{ greet.said }}"
"""


@dataclass(frozen=True, slots=True)
class EditedText:
    """What is typed. `path` and `base` are the playbook, and the newest version of it, that whoever
    types has seen; empty and 0 for a new one. `version` is the one that the text came from."""

    text: str
    path: str = ""
    base: int = 0
    version: int = 0

    @classmethod
    def from_form(cls) -> Self:
        form = request.form
        # Forms send the line ends of Windows, whatever the text had.
        text = form.get("text", "").replace("\r\n", "\n")
        return cls(text, form.get("path", ""), _number(form.get("base")), _number(form.get("version")))

    @property
    def is_older(self) -> bool:
        return self.version < self.base


def read_text(visitor: Visitor) -> EditedText:
    """What the address names, or what a new playbook begins with. Raises NotFound, and BadRequest
    for a version that is no number."""
    path = request.args.get("path", "")
    if not path:
        return EditedText(SKELETON)
    newest = find_newest(visitor, path)
    if newest is None:
        raise NotFound(f"There is no playbook {path[:512]!r} in the catalog.")
    asked = request.args.get("version")
    if asked is None:
        return EditedText(newest.content, path, newest.version, newest.version)
    if not _number(asked):
        raise BadRequest(f"{asked[:40]!r} is no version of a playbook: versions are numbers from 1.")
    row = catalog.playbook(visitor.rt, path, _number(asked))
    return EditedText(row.content, path, newest.version, row.version)


def find_newest(visitor: Visitor, path: str) -> PlaybookRow | None:
    """The newest version of a playbook; None where there is none that the visitor may know of."""
    if not visitor.principal.may("read", path):
        return None
    with visitor.rt.store.read() as tx:
        return tx.playbooks.get(path)


def may_register(principal: Principal, path: str) -> bool:
    """Whether somebody may register new versions at the path, or at some path where it is empty."""
    return principal.may("operate", path) if path else principal.has_some("operate")


def _number(text: str | None) -> int:
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) <= 10
    return min(int(text), _LARGEST_VERSION) if text is not None and is_number else 0
