"""Every playbook of the corpus has a canonical form: it means the same, keeps its comments, and has
itself as its canonical form."""

from __future__ import annotations

import pytest
import yaml

from noetl.dsl import compile_playbook
from noetl.dsl.read.canonical_text import canonical_text
from noetl.net.codec import same_net
from noetl.tools.kit.registry import kinds
from tests.budget import budget

from .corpus import cases

HEAD = "# kept\napiVersion: noetl.io/v1\nkind: Playbook\nmetadata: {name: test, path: corpus/test}\n"
KINDS = kinds()
VALID = [case for case in cases() if case.expected["status"] is not None]
#: Each case is compiled, printed and compiled again.
VALID = VALID[:: budget("NOETL_TEST_CASES_APART", quick=6, full=3, long=1)]


def commented(text: str) -> tuple[str, list[str]]:
    """`text` with a comment behind every line that can have one, and these comments."""
    inside: set[int] = set()
    for token in yaml.scan(text):
        if isinstance(token, yaml.ScalarToken):
            # A block text begins behind its header, and ends before the line of its end mark.
            block = token.style in ("|", ">")
            inside |= set(range(token.start_mark.line + block, token.end_mark.line))
    lines = text.splitlines()
    free = [number for number, line in enumerate(lines) if line.strip() and number not in inside]
    for number in free:
        lines[number] += f"  # {number}!"
    return "\n".join(lines) + "\n", [f"# {number}!" for number in free]


def test_the_canonical_form_means_the_same(subtests: pytest.Subtests) -> None:
    """Every other case has comments: they are kept wherever they stand."""
    for number, case in enumerate(VALID):
        with subtests.test(case.name):
            text, comments = commented(HEAD + case.body) if number % 2 else (HEAD + case.body, [])
            before = compile_playbook(text, file="p.yaml", kinds=KINDS)
            found = canonical_text(before.source)
            after = compile_playbook(found, file="p.yaml", kinds=KINDS)
            assert before.net is not None
            assert after.net is not None, (found, after.problems)
            assert same_net(before.net, after.net)
            assert not after.source.origins
            assert canonical_text(after.source) == found
            assert "# kept" in found
            # What is said twice now has its comment twice.
            assert [comment for comment in comments if comment not in found] == []
