"""Thousands of playbooks with something wrong: each is answered, with problems that have a place.

The seed is printed at the end of the run and in every failure; `NOETL_TEST_FUZZ_SEED=... pytest
tests/properties/test_fuzz.py` tries the same ones again, and `NOETL_TEST_FUZZ_MUTANTS` says
how many there are (2,500, in the quick profile 500).
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from mutants import mutant

from noetl.dsl import Compiled, compile_playbook
from noetl.dsl.read.canonical_text import canonical_text
from noetl.errors import PlaybookInvalid
from noetl.net.codec import from_json, same_net, to_json
from noetl.tools.kit.registry import kinds
from tests.budget import budget
from tests.playbooks.corpus import cases

SEED = int(os.environ["NOETL_TEST_FUZZ_SEED"])
MUTANTS = budget("NOETL_TEST_FUZZ_MUTANTS", quick=500, full=2_500, long=500_000)
#: Of hundreds of mutants at the least: few of them compile.
SHARDS = max(4, MUTANTS // 25_000)

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: corpus/test}\n"
EXAMPLES = Path(__file__).parents[2] / "examples"
SEEDLINGS = [HEAD + case.body for case in cases()] + [
    file.read_text(encoding="utf-8") for file in sorted(EXAMPLES.glob("*.yaml"))
]
KINDS = kinds()


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_mutant_is_answered(shard: int) -> None:
    draw = random.Random(f"{SEED}/{shard}")
    valid = 0
    for number in range(MUTANTS // SHARDS):
        text = mutant(draw.choice(SEEDLINGS), draw)
        place = f"mutant {number} of shard {shard}, NOETL_TEST_FUZZ_SEED={SEED}:\n{text}"
        try:
            compiled = compile_playbook(text, file="m.yaml", kinds=KINDS)
            _check(compiled, text)
        except Exception as error:
            error.add_note(place)
            raise
        valid += compiled.net is not None
    # One in six compiles: a test that nothing compiles in tests nothing.
    assert valid > MUTANTS // SHARDS // 50


def _check(compiled: Compiled, text: str) -> None:
    lines = text.count("\n") + text.count("\x85") + text.count("\u2028") + text.count("\r") + 2
    for problem in compiled.problems:
        assert 1 <= problem.line <= lines, problem
        assert problem.column >= 1, problem
        assert problem.message, problem
        assert json.loads(json.dumps(problem.as_json())), problem
    assert (compiled.net is None) == bool(compiled.errors)
    if compiled.net is None:
        return
    assert from_json(json.loads(json.dumps(to_json(compiled.net)))) == compiled.net
    if compiled.source.origins:
        try:
            text = canonical_text(compiled.source)
        except PlaybookInvalid:
            # Its parser is not ours: it refuses tabs in places where ours does not.
            return
        again = compile_playbook(text, file="m.yaml", kinds=KINDS)
        assert again.net is not None, again.problems
        assert not again.source.origins
        assert same_net(compiled.net, again.net)
