"""The reference of playbooks is complete: keys, levels, scopes, examples, older spellings, names by
place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from names import NAMES, PLACES, matrix
from pages import LANGUAGE, ROOT, keys, language, rows, sections
from reference import OF_DIALECTS, OF_RULES, REFERENCE, WRAPPERS, as_playbook, examples, used

from noetl.config import Settings
from noetl.dsl import Code, compile_playbook
from noetl.dsl import document as parts
from noetl.dsl.document import canonical_keys, classic, is_older, known_keys, spellings_of
from noetl.dsl.document.keychain import FORMS, FROM_ENDPOINT, KINDS, form_of
from noetl.tools.kit.registry import kinds
from noetl.trial.running import explain_failure, run_test
from noetl.trial.stage import open_stage
from noetl.trial.suites import read_suite

#: Sections whose parts have scopes and examples without being parts of the document model.
OTHERS = ("After the pipeline", "Secrets")
#: Sections and words of the tables above which are values, not keys.
_VALUES = {"auto", "all", "any", "first", "continue", "retry", "jump", "break", "fail"}
#: Level → the part that is its `spec`.
LEVELS = {
    "executor": parts.ExecutorSpec,
    "step": parts.StepSpec,
    "loop": parts.LoopSpec,
    "task": parts.CallSpec,
}


@pytest.mark.parametrize("title", REFERENCE)
def test_a_section_lists_every_key_of_its_parts(title: str) -> None:
    known = {key for part in REFERENCE[title] for key in canonical_keys(part)}
    listed = {key for key in keys(language()[title]) if re.fullmatch(r"[A-Za-z_]+", key)}
    assert listed - _VALUES == known - _VALUES


def every_part() -> set[type[parts.DocumentPart]]:
    named = vars(parts).values()
    return {value for value in named if isinstance(value, type) and issubclass(value, parts.DocumentPart)}


def test_every_part_of_the_document_has_its_section() -> None:
    named = {part for named in REFERENCE.values() for part in named}
    assert every_part() - WRAPPERS - OF_RULES - {parts.Action} == named


@pytest.mark.parametrize("title", REFERENCE)
def test_the_examples_of_a_section_use_every_key_of_its_parts(title: str) -> None:
    unused = {
        (part, key) for part in REFERENCE[title] for key in set(canonical_keys(part)) - used(part, title)
    }
    assert unused == set()


@pytest.mark.parametrize("title", [title for title in language() if examples(title)])
def test_the_examples_of_a_section_compile_without_a_problem(title: str) -> None:
    for text in examples(title):
        found = compile_playbook(text, file=LANGUAGE, kinds=kinds()).problems
        # They read a workload that they do not show.
        assert [str(one) for one in found if one.code is not Code.UNDEFINED] == []


@pytest.mark.parametrize("title", [*REFERENCE, *OTHERS])
def test_a_section_says_its_scope_first(title: str) -> None:
    assert language()[title].startswith("\n**Scope.** ")


def test_the_contents_link_every_section_of_every_page() -> None:
    listed = {cells[0]: cells[1] for cells in rows(sections(f"{LANGUAGE}/README.md")["The language"])}
    wanted = {}
    for file in (ROOT / LANGUAGE).glob("*.md"):
        if file.name != "README.md":
            _, title, *inner = sections(f"{LANGUAGE}/{file.name}")
            anchors = [(one, f"{file.name}#{one.lower().replace(' ', '-')}") for one in inner]
            wanted[f"[{title}]({file.name})"] = ", ".join(f"[{one}]({link})" for one, link in anchors)
    assert listed == wanted


# --- dialects ------------------------------------------------------------------------------------

#: Of parts that are others with more keys: those keys.
BEYOND = {"Tasks of the playbook": set(known_keys(parts.Action)) - set(known_keys(parts.Tool))}


@pytest.mark.parametrize("title", OF_DIALECTS)
def test_the_page_about_dialects_lists_every_key_of_its_parts(title: str) -> None:
    known = {key for part in OF_DIALECTS[title] for key in known_keys(part)}
    listed = {key for key in keys(sections("docs/dialects.md")[title]) if key.isidentifier()}
    assert listed == known | BEYOND.get(title, set())


def test_the_page_about_dialects_has_every_part_of_them() -> None:
    every = {value for value in vars(classic).values() if isinstance(value, type)}
    every = {part for part in every if part.__module__ == classic.__name__}
    named = {part for named in OF_DIALECTS.values() for part in named}
    assert (every - {classic.Classic}) | OF_RULES == named


# --- levels --------------------------------------------------------------------------------------


def test_levels_lists_where_every_key_of_a_spec_may_stand() -> None:
    listed = {cells[0].strip("`"): cells[1:5] for cells in rows(language()["Levels"])}
    assert {key: cells for key, cells in listed.items() if "." not in key} == {
        key: ["yes" if key in canonical_keys(part) else "-" for part in LEVELS.values()]
        for part in LEVELS.values()
        for key in canonical_keys(part)
        if key != "policy"
    }
    assert {key for key in listed if "." in key} == {f"policy.{key}" for key in canonical_keys(parts.Policy)}


#: Level → steps with a policy there.
POLICIES = {
    "executor": "executor: {spec: {policy: POLICY}}\nworkflow: [{step: start, tool: {kind: noop}}]",
    "step": "workflow: [{step: start, tool: {kind: noop}, spec: {policy: POLICY}}]",
    "loop": "workflow: [{step: start, loop: {in: [1], iterator: i, spec: {policy: POLICY}}, tool: {kind: "
    "noop}}]",
    "task": "workflow: [{step: start, tool: {kind: noop, spec: {policy: POLICY}}}]",
}


@pytest.mark.parametrize("level", POLICIES)
def test_levels_lists_where_every_key_of_a_policy_has_an_effect(level: str) -> None:
    listed = {cells[0].strip("`"): cells[1:5] for cells in rows(language()["Levels"])}
    for key in canonical_keys(parts.Policy):
        text = "apiVersion: noetl.io/v2\nkind: Playbook\n" + POLICIES[level].replace("POLICY", f"{{{key}: }}")
        codes = [problem.code for problem in compile_playbook(text, file=LANGUAGE, kinds=kinds()).problems]
        cell = listed[f"policy.{key}"][list(LEVELS).index(level)]
        assert codes == ([] if cell == "yes" else [Code.IGNORED]), key


# --- older spellings -----------------------------------------------------------------------------


def older() -> Iterator[tuple[str, str]]:
    """Part and key of every older spelling."""
    for title, named in REFERENCE.items():
        for part in named:
            for name, field in part.model_fields.items():
                if is_older(part, name) and (field.alias or name) not in spellings_of(part):
                    yield title, field.alias or name


def listed_older() -> Iterator[tuple[str, str, str]]:
    """Part, key and what to write instead, of every row."""
    for key, where, new in rows(language()["Older spellings"]):
        for title in re.findall(r"\[([^\]]+)\]", where):
            yield title, key.strip("`"), new.strip("`")


def test_every_older_spelling_is_listed() -> None:
    assert sorted((title, key) for title, key, _ in listed_older()) == sorted(older())


def test_every_other_spelling_is_listed() -> None:
    table = [cells for cells in rows(language()["Other spellings"]) if len(cells) == 3]
    listed = {
        (title, key.rpartition(".")[2])
        for written, where, _ in table
        for title in re.findall(r"\[([^\]]+)\]", where)
        for key in re.findall(r"`([\w.]+)`", written)
    }
    declared = {
        (title, key) for title, named in REFERENCE.items() for part in named for key in spellings_of(part)
    }
    assert listed == declared


#: Older spelling → a playbook's line with it.
SAMPLES = {
    "with": "tool: {kind: noop, with: {x: 1}}",
    "set_ctx": "tool: {kind: noop}, set_ctx: {x: 1}",
    "set_iter": "loop: {in: [1], iterator: i}, tool: {kind: noop, set_iter: {x: 1}}",
    "mode": "loop: {in: [1], iterator: i, mode: parallel}, tool: {kind: noop}",
}


@pytest.mark.parametrize("key", SAMPLES)
def test_an_older_spelling_is_listed_with_the_one_that_validate_names(key: str) -> None:
    text = as_playbook(f"- {{step: start, {SAMPLES[key]}}}\n")
    (problem,) = compile_playbook(text, file=LANGUAGE, kinds=kinds()).problems
    assert problem.code is Code.DEPRECATED
    listed = {new for _, older_key, new in listed_older() if older_key == key}
    assert {f"write {new}; `noetl migrate` does" for new in listed} == {problem.hint}


def test_what_has_no_newer_word_is_explained_with_its_dialect() -> None:
    for _, key, new in listed_older():
        assert key in SAMPLES or "](../dialects.md#" in new, key


# --- secrets and names ---------------------------------------------------------------------------


def test_secrets_lists_the_keys_of_every_kind_of_entry() -> None:
    listed: dict[str, set[str]] = {}
    table = [cells for cells in rows(language()["Secrets"]) if len(cells) == 5]
    shared = {cells[1].strip("`") for cells in table if cells[0] == "every kind"}
    for kind, key, *_ in table:
        for name in re.findall(r"`(\w+)`", kind):
            listed.setdefault(name, set(shared)).add(key.strip("`"))
    forms = {kind: [kind] for kind in KINDS.values()} | {"token": ["token", FROM_ENDPOINT], "static": ["map"]}
    assert listed == {
        word: {key for form in forms[kind] for key in FORMS[form].keys} for word, kind in KINDS.items()
    }


def test_the_examples_of_secrets_use_every_key_of_every_kind() -> None:
    entries = [entry for text in examples("Secrets") for entry in keychain_of(text)]
    for name, form in FORMS.items():
        of_form = {key for entry in entries if entry["form"] == name for key in entry["keys"]}
        assert name == "static" or of_form | {"name", "kind", "description"} == set(form.keys)


def keychain_of(text: str) -> Iterator[dict[str, Any]]:
    """The form of each entry, and the keys that are written."""
    given = yaml.safe_load(text).get("keychain", [])
    for entry in given if isinstance(given, list) else given.values():
        said = entry.get("kind", "secret" if "provider" in entry else "credential")
        yield {"form": form_of(KINDS[said], entry), "keys": entry.keys()}


def test_names_by_place_are_those_that_the_engine_has_there() -> None:
    table = language()["Names by place"]
    header = re.search(r"^\| name \|(.*)\|$", table, re.MULTILINE)
    assert header is not None
    assert [cell.strip() for cell in header[1].split("|")] == [f"*{place}*" for place in PLACES]
    listed = {cells[0].replace("`", ""): cells[1:] for cells in rows(table) if len(cells) > len(PLACES)}
    assert listed == {name: list(there.values()) for name, there in matrix().items()}
    assert list(listed) == list(NAMES)


# --- tests ---------------------------------------------------------------------------------------


def test_the_tests_in_the_examples_pass(tmp_path: Path) -> None:
    book, verdicts = tmp_path / "book.yaml", []
    with open_stage(Settings(home=tmp_path / "home")) as stage:
        for text in [
            text for title in ("Document", "Tests", "Stand-ins", "Expectations") for text in examples(title)
        ]:
            book.write_text(text, encoding="utf-8")
            suite = read_suite(book, kinds())
            verdicts += [run_test(stage, suite, index) for index in range(len(suite.tests))]
    assert [list(explain_failure(one)) for one in verdicts if not one.passed] == []
    assert len(verdicts) >= 7
