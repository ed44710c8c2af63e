"""Warnings as events carry them, in `warnings` of a fact or of a task's `meta`."""

from __future__ import annotations

from typing import TypeAlias

from noetl.facts.json import JsonMap

#: What nobody defined is `{"template", "place"}`: the template that became null (shortened), and where it stands in the
#: playbook (`input.total`). What a tool has to say, and whatever an earlier version recorded, is a sentence.
Warned: TypeAlias = str | JsonMap
