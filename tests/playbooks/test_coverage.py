"""Every sentence of the contract has a case or a test, and every key of documents stands in some
case."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from noetl.dsl.document import Document, DocumentPart, known_keys
from noetl.dsl.document.validation import to_document
from noetl.dsl.read.report import ProblemReport
from noetl.dsl.read.source import read

from .corpus import COVERAGE, cases
from .running import head

ROOT = Path(__file__).parents[2]
SENTENCES: list[dict[str, Any]] = yaml.load(COVERAGE.read_text(encoding="utf-8"), yaml.CSafeLoader)
CASES = cases()
NAMES = {case.name for case in CASES}
#: What every case has from its head, and no key of which means anything to a run.
HEAD = "Metadata"

Keys = dict[type[DocumentPart], set[str]]


def test_a_sentence_names_where_it_is_held_to(subtests: pytest.Subtests) -> None:
    for sentence in SENTENCES:
        with subtests.test(f"{sentence['where']}: {sentence['says']}"):
            assert sentence.keys() <= {"says", "where", "cases", "tests", "later"}
            assert sentence.keys() & {"cases", "tests", "later"}
            assert not set(sentence.get("cases", ())) - NAMES
            for test in sentence.get("tests", ()):
                file, _, name = test.partition("::")
                assert name in _tests(ROOT / file), test


def test_no_sentence_stands_there_twice() -> None:
    said = [(sentence["where"], sentence["says"]) for sentence in SENTENCES]
    assert len(said) == len(set(said))


def test_every_key_of_every_dialect_stands_in_some_case() -> None:
    found: Keys = defaultdict(set)
    for case in CASES:
        source = read(head("corpus/keys") + case.body, "case.yaml")
        read_as = to_document(source.data, ProblemReport(source)) if source.data is not None else None
        if read_as is not None:
            _note(read_as[0], found)
    missing = {
        part.__name__: keys
        for part in _parts(Document, set())
        if part.__name__ != HEAD and (keys := set(known_keys(part)) - found[part])
    }
    assert not missing


def _note(value: object, found: Keys) -> None:
    """Adds the keys that the parts in `value` have."""
    match value:
        case DocumentPart():
            fields = type(value).model_fields
            for name in value.model_fields_set & fields.keys():
                found[type(value)].add(fields[name].alias or name)
                _note(getattr(value, name), found)
        case Mapping():
            for one in value.values():
                _note(one, found)
        case list():
            for one in value:
                _note(one, found)


def _parts(annotation: Any, seen: set[type[DocumentPart]]) -> Iterator[type[DocumentPart]]:
    """The parts that documents of this type are made of, in whatever dialect."""
    for inner in get_args(annotation):
        yield from _parts(inner, seen)
    if isinstance(annotation, type) and issubclass(annotation, DocumentPart) and annotation not in seen:
        seen.add(annotation)
        yield annotation
        for field in annotation.model_fields.values():
            yield from _parts(field.annotation, seen)


def _tests(file: Path) -> set[str]:
    """Names of the tests of a module, those of its classes as `Class::test`."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name, body=body):
                found |= {f"{name}::{one.name}" for one in body if isinstance(one, ast.FunctionDef)}
    return found
