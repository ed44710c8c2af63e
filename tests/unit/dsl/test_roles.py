"""What handlers are there for, in words."""

from __future__ import annotations

from collections.abc import Callable

from noetl.net.model import Net

TEXT = """\
executor:
  spec: {on_cancel: lights}
regions: {trip: {steps: [book], finally: tidy, on_cancel: home}}
workflow:
- {step: start, next: book}
- {step: book, tool: {kind: noop}, compensate: unbook, finally: close}
- {step: unbook, tool: {kind: noop}}
- {step: close, tool: {kind: noop}}
- {step: tidy, tool: {kind: noop}}
- {step: home, tool: {kind: noop}}
- {step: lights, tool: {kind: noop}}
"""


def test_every_handler_has_its_role_and_no_other_step_has_one(net_of: Callable[[str], Net]) -> None:
    net = net_of(TEXT)
    assert {step: net.role_of(step) for step in net.steps if net.role_of(step)} == {
        "unbook": "undoes step 'book'",
        "close": "is the `finally` of step 'book'",
        "tidy": "is the `finally` of region 'trip'",
        "home": "is where the flow leaves region 'trip' that was cancelled",
        "lights": "is the `on_cancel` of the execution",
    }
