"""A playbook that says what no page may take for its own: in its name, its key, a step's name, and
what its tasks return, print and fail with."""

from __future__ import annotations

import json
from typing import Final

from playwright.sync_api import Page, expect

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


#: Names of steps hold no control characters.
_TURNED: Final = "back\u202eturned"
#: Texts that people read, or have read to them, in which something stands that nobody sees.
_FIND_UNSEEN: Final = r"""() => {
  const unseen = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;
  const texts = [document.title];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  // A text that is written is as it is, also as the editor draws it.
  while (walker.nextNode())
    if (!walker.currentNode.parentElement.closest("textarea, script, style, .ace_editor")) texts.push(walker.currentNode.data);
  for (const name of ["title", "aria-label", "alt", "placeholder"])
    for (const one of document.querySelectorAll(`[${name}]`)) texts.push(one.getAttribute(name));
  return texts.filter((one) => unseen.test(one));
}"""


#: YAML takes JSON.
PLAYBOOK: Final = json.dumps(
    {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": _SAID, "path": f"browser/{_SAID}"},
        "workload": {"said": _SAID},
        "workflow": [
            _step("says", "print(told)\nresult = {told: [told]}", next=_TURNED),
            {"step": _TURNED, "tool": {"kind": "noop"}, "next": "fails"},
            _step("fails", "raise ValueError(told)"),
        ],
    }
)


def check_nothing_ran(page: Page) -> None:
    """Fails where the page took something for markup, or for the direction of its own text."""
    assert page.evaluate("typeof window.pwned") == "undefined"
    expect(page.locator("[onerror], [onload], [href^='javascript:']")).to_have_count(0)
    assert page.evaluate(_FIND_UNSEEN) == []
