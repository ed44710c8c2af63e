"""Every playbook of the corpus has a canonical form: it means the same, and has itself as its canonical form."""

from __future__ import annotations

import pytest

from noetl.dsl import compile_playbook
from noetl.dsl.canonical_text import canonical_text
from noetl.net.same import same_net
from noetl.tools.registry import kinds

from .corpus import Case, cases

HEAD = "# kept\napiVersion: noetl.io/v1\nkind: Playbook\nmetadata: {name: test, path: corpus/test}\n"
KINDS = kinds()
VALID = [case for case in cases() if case.expected["status"] is not None]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in VALID])
def test_the_canonical_form_means_the_same(case: Case) -> None:
    before = compile_playbook(HEAD + case.body, file="p.yaml", kinds=KINDS)
    text = canonical_text(before.source)
    after = compile_playbook(text, file="p.yaml", kinds=KINDS)
    assert before.net is not None
    assert after.net is not None, (text, after.problems)
    assert same_net(before.net, after.net)
    assert not after.source.origins
    assert canonical_text(after.source) == text
    assert "# kept" in text
