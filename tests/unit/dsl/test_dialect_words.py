"""Dialects end where they are rewritten: nothing else knows their keys."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import noetl

ROOT = Path(noetl.__file__).parent
#: Keys of dialects, as far as the canonical form does not have the same word for something of its
#: own.
WORDS = frozenset(
    {
        *("case", "sink", "next_call", "per_iteration", "retry_when", "max_attempts", "backoff_multiplier"),
        *("cases", "end_loop"),
    }
)
#: As a text, an attribute, a keyword or a field.
PLACES = re.compile(r"""["'.]WORD["']|\.WORD\b|\bWORD\s*[=:]""".replace("WORD", f"(?:{'|'.join(WORDS)})"))
#: What reads them, and what writes them anew.
KNOWING = ("dsl/document/", "dsl/dialects/")
#: SQL, Python and OpenQASM have such a word too.
OTHER_LANGUAGES = (
    "tools/sql/text.py",
    "store/commands.py",
    "tools/code/runner/returns.py",
    "quantum/circuits/qasm_tokens.py",
)


def modules() -> Iterator[Path]:
    for file in sorted(ROOT.rglob("*.py")):
        name = str(file.relative_to(ROOT))
        if not name.startswith(KNOWING) and name not in OTHER_LANGUAGES:
            yield file


def words(tree: ast.AST) -> Iterator[str]:
    """Texts, attributes, fields and keywords of a module: what a key of a document could be read or
    named by."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case (
                ast.Attribute(attr=name)
                | ast.keyword(arg=str(name))
                | ast.AnnAssign(target=ast.Name(id=name))
            ):
                yield name


def test_no_word_of_a_dialect_is_known_outside_of_its_lowering(subtests: pytest.Subtests) -> None:
    for file in modules():
        text = file.read_text(encoding="utf-8")
        # Most have none of them in any place, and need not be understood.
        if not PLACES.search(text):
            continue
        with subtests.test(str(file.relative_to(ROOT))):
            assert WORDS.isdisjoint(words(ast.parse(text)))


def test_the_words_are_known_where_they_are_rewritten() -> None:
    known = {
        word
        for place in KNOWING
        for file in (ROOT / place).rglob("*.py")
        for word in words(ast.parse(file.read_text(encoding="utf-8")))
    }
    assert known >= WORDS
