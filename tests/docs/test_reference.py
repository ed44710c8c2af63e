"""The reference of playbooks is complete: keys, levels, scopes, examples, older spellings, names by place."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from names import NAMES, PLACES, matrix
from pages import keys, page, rows, sections
from reference import PAGE, REFERENCE, examples, used

from noetl.dsl import Code, compile_playbook
from noetl.dsl import document as parts
from noetl.dsl.document import canonical_keys, is_older
from noetl.dsl.keychain import FORMS, KINDS
from noetl.tools.registry import kinds

#: Sections whose parts have scopes and examples without being parts of the document model.
OTHERS = ("After the pipeline", "Secrets")
#: Sections and words of the tables above which are values, not keys.
_VALUES = {"auto", "all", "any", "first", "continue", "retry", "jump", "break", "fail"}
#: Parts that hold nothing but what another one is wrapped in.
_WRAPPERS = {parts.Part, parts.ElseThen, parts.ElseAllow, parts.AdmitRule}
#: What stands in the place of a document's root, and of every part: nobody sees these as an example of a key.
LEVELS = {
    "executor": parts.ExecutorSpec,
    "step": parts.StepSpec,
    "loop": parts.LoopSpec,
    "task": parts.CallSpec,
}


@pytest.mark.parametrize("title", REFERENCE)
def test_a_section_lists_every_key_of_its_parts(title: str) -> None:
    known = {key for part in REFERENCE[title] for key in canonical_keys(part)}
    listed = {key for key in keys(sections(PAGE)[title]) if re.fullmatch(r"[A-Za-z_]+", key)}
    assert listed - _VALUES == known - _VALUES


def every_part() -> set[type[parts.Part]]:
    named = vars(parts).values()
    return {value for value in named if isinstance(value, type) and issubclass(value, parts.Part)}


def test_every_part_of_the_document_has_its_section() -> None:
    assert every_part() - _WRAPPERS == {part for named in REFERENCE.values() for part in named}


@pytest.mark.parametrize("title", REFERENCE)
def test_the_examples_of_a_section_use_every_key_of_its_parts(title: str) -> None:
    unused = {
        f"{part.__name__}.{key}"
        for part in REFERENCE[title]
        for key in set(canonical_keys(part)) - used(part, title)
    }
    assert unused == set()


@pytest.mark.parametrize("title", [title for title in sections(PAGE) if examples(title)])
def test_the_examples_of_a_section_compile_without_a_problem(title: str) -> None:
    for text in examples(title):
        found = compile_playbook(text, file=PAGE, kinds=kinds()).problems
        # They read a workload that they do not show.
        assert [str(one) for one in found if one.code is not Code.UNDEFINED] == []


@pytest.mark.parametrize("title", [*REFERENCE, *OTHERS])
def test_a_section_says_its_scope_first(title: str) -> None:
    assert sections(PAGE)[title].startswith("\n**Scope.** ")


def test_the_contents_name_every_section_in_its_order() -> None:
    titles = [title for title in sections(PAGE) if title not in ("", "Playbooks", "Contents")]
    assert re.findall(r"\[([^\]]+)\]\(#", sections(PAGE)["Contents"]) == titles


# --- levels ----------------------------------------------------------------------------------------


def test_levels_lists_where_every_key_of_a_spec_may_stand() -> None:
    listed = {cells[0].strip("`"): cells[1:5] for cells in rows(sections(PAGE)["Levels"])}
    assert {key: cells for key, cells in listed.items() if "." not in key} == {
        key: ["yes" if key in canonical_keys(part) else "-" for part in LEVELS.values()]
        for part in LEVELS.values()
        for key in canonical_keys(part)
        if key != "policy"
    }
    assert {key for key in listed if "." in key} == {f"policy.{key}" for key in canonical_keys(parts.Policy)}


# --- older spellings -------------------------------------------------------------------------------


def older() -> Iterator[tuple[str, str]]:
    """Part and key of every older spelling."""
    for title, named in REFERENCE.items():
        for part in named:
            for name, field in part.model_fields.items():
                if is_older(part, name):
                    yield title, field.alias or name


def test_the_older_spellings_are_listed_with_the_newer_one() -> None:
    listed = rows(sections(PAGE)["Older spellings"])
    found = {(title, key.strip("`")) for key, titles, _, _ in listed for title in _linked(titles)}
    assert found == {*older(), ("Document", "apiVersion: noetl.io/v1")}


def _linked(cell: str) -> list[str]:
    return re.findall(r"\[([^\]]+)\]", cell)


@pytest.mark.parametrize("row", rows(sections(PAGE)["Older spellings"]), ids=lambda row: row[0])
def test_an_older_spelling_is_one_that_validate_replaces_by_the_newer_one(row: list[str]) -> None:
    key, _, new, example = (cell.strip("`") for cell in row)
    text = f"workload: {{x: 1}}\nworkflow: [{{step: start, {example}, next: end}}, {{step: end}}]\n"
    head = "kind: Playbook\n" if key.startswith("apiVersion") else "apiVersion: noetl.io/v2\nkind: Playbook\n"
    text = f"{head}{example}\nworkflow: [{{step: start}}]\n" if key.startswith("apiVersion") else head + text
    (problem,) = compile_playbook(text, file=PAGE, kinds=kinds()).problems
    assert problem.code is Code.DEPRECATED
    assert problem.path.endswith(key.partition(":")[0])
    assert f"write {new};" in problem.hint


# --- secrets and names -----------------------------------------------------------------------------


def test_secrets_lists_the_keys_of_every_kind_of_entry() -> None:
    listed: dict[str, set[str]] = {}
    for kind, key, *_ in rows(sections(PAGE)["Secrets"]):
        for name in re.findall(r"`(\w+)`", kind):
            listed.setdefault(name, set()).add(key.strip("`"))
    plain = {word for word, kind in KINDS.items() if kind == "static"}
    assert listed == {word: set(FORMS[KINDS[word]].keys) for word in KINDS.keys() - plain}


def test_names_by_place_are_those_that_the_engine_has_there() -> None:
    table = page(PAGE).partition("### Names by place")[2].partition("\n### ")[0]
    header = re.search(r"^\| name \|(.*)\|$", table, re.MULTILINE)
    assert header is not None
    assert [cell.strip() for cell in header[1].split("|")] == [f"*{place}*" for place in PLACES]
    listed = {cells[0].replace("`", ""): cells[1:] for cells in rows(table) if len(cells) > len(PLACES)}
    assert listed == {name: list(there.values()) for name, there in matrix().items()}
    assert list(listed) == list(NAMES)
