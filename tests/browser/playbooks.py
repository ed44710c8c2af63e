"""Playbooks whose executions the pages show."""

from __future__ import annotations

from tests.acceptance.playbooks import head

WELL = (
    head("well")
    + """
workflow:
  - step: start
    tool: {kind: python, code: "print('counted'); result = {'sum': 3}"}
"""
)

FAILS = (
    head("fails")
    + """
workflow:
  - step: look
    tool: {kind: python, code: "raise LookupError('no such customer: Ada')"}
"""
)
WHY = "no such customer: Ada"

WAITS = (
    head("waits")
    + """
workflow:
  - step: start
    tool: {kind: wait, signal: {name: payment}}
"""
)

ASKS = (
    head("asks")
    + """
workflow:
  - step: start
    tool: {kind: wait, approval: {message: "Pay?"}}
"""
)
