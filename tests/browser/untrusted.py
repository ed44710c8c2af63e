"""A playbook that says what no page may take for its own: in its name, its key, and what its tasks
return, print and fail with."""

from __future__ import annotations

import json
from typing import Final

from playwright.sync_api import Page

#: Each of them sets `window.pwned` where a page takes it for markup.
MARKUP: Final = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "\"'><svg onload=window.pwned=1>",
    "</td></pre></textarea></script><script>window.pwned=1</script>",
    "<a href=javascript:window.pwned=1>x</a>",
)
#: A bell, an escape sequence of terminals, a carriage return, and what has the rest written from
#: right to left.
_ODD: Final = "bell\x07 escape\x1b[31m return\rline turned\u202eend"
_SAID: Final = " ".join((*MARKUP, _ODD))
#: Words of it, with what is odd between them.
WORDS: Final = ("bell", "escape", "return", "line", "turned", "end")
#: What would be 1337 if the text became part of a template.
TEMPLATE: Final = "{{ 7 * 191 }}"
#: Put together when it runs: code of playbooks is a template itself.
_TOLD: Final = 'told = said + " {" + "{ 7 * 191 }" + "}"\n'


def _step(name: str, code: str, **more: object) -> dict[str, object]:
    given = {"said": "{{ workload.said }}"}
    return {"step": name, "tool": {"kind": "python", "input": given, "code": _TOLD + code}, **more}


#: YAML takes JSON.
PLAYBOOK: Final = json.dumps(
    {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": _SAID, "path": f"browser/{_SAID}"},
        "workload": {"said": _SAID},
        "workflow": [
            _step("says", "print(told)\nresult = {told: [told]}", next="fails"),
            _step("fails", "raise ValueError(told)"),
        ],
    }
)


def check_nothing_ran(page: Page) -> None:
    """Fails where the page took something for markup."""
    assert page.evaluate("typeof window.pwned") == "undefined"
    assert page.locator("[onerror], [onload], [href^='javascript:']").count() == 0
