"""One word, one meaning: classes that are called by words of the glossary are what it says."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import noetl

ROOT = Path(noetl.__file__).parent
GLOSSARY = ROOT.parent / "docs" / "glossary.md"
TERM = re.compile(r"\*\*([a-z -]+)\*\*")
#: The public classes of a module, told by their first lines.
CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)

#: Where a class may bear a word of the glossary alone. What is written, what runs and what the API
#: answers of it are one thing in several shapes; every other class needs a word of its own.
HOMES = {
    "admission": {"net"},
    "arc": {"dsl/document", "net"},
    "artifact": {"tools/artifact"},
    "attempt": {"pipeline"},
    "broker": {"cli"},
    "business key": {"dsl/document", "usecases/ports"},
    "call": {"pipeline"},
    "callback": {"facts"},
    "child": {"engine"},
    "chunk": {"api"},
    "claim": {"usecases/work"},
    "command": {"engine", "usecases/ports"},
    "credential": {"usecases/ports"},
    "cursor": {"dsl/document"},
    "directive": {"net"},
    "enabled": {"engine"},
    "event": {"facts", "usecases/ports", "api", "client"},
    "execution": {"usecases/ports"},
    "explanation": {"history"},
    "fixture": {"usecases"},
    "forecast": {"forecast"},
    "guard": {"dsl/dialects"},
    "idempotency key": {"usecases/ports"},
    "iteration": {"usecases/work"},
    "join": {"net"},
    "keychain": {"facts"},
    "lease": {"usecases/work", "tools/code/runner"},
    "loop": {"dsl/document", "net", "usecases/ports"},
    "manifest": {"exports"},
    "marking": {"net/soundness"},
    "message": {"tools/message", "trial"},
    "milestone": {"net"},
    "net": {"net", "usecases/ports"},
    "operation": {"usecases/fleet", "usecases/ports"},
    "outcome": {"facts"},
    "parent": {"facts"},
    "part": {"exports"},
    "place": {"net"},
    "playbook": {"engine", "usecases/ports"},
    "policy": {"dsl/document"},
    "projection": {"projection"},
    "queue": {"usecases/ports"},
    "region": {"net"},
    "report": {"usecases"},
    "result": {"usecases/ports", "client"},
    "round": {"engine"},
    "router": {"dsl/document"},
    "runner": {"tools/code", "tools/code/runner"},
    "snapshot": {"usecases/ports"},
    "signal": {"engine"},
    "specimen": {"usecases"},
    "step": {"dsl/document"},
    "stream": {"client"},
    "suspend": {"pipeline"},
    "task": {"net", "dsl/dialects/canonical"},
    "timeout": {"tools/http"},
    "timer": {"engine"},
    "token": {"facts", "usecases/ports"},
    "tool": {"dsl/document", "tools/kit"},
    "transition": {"net"},
    "turn": {"usecases/turn"},
    "wait": {"facts"},
    "watch": {"usecases/ports"},
    "worker": {"usecases/work", "usecases/ports"},
}
#: Words of the net and of the log whose second meanings mislead most: a class whose name ends with
#: one is of that kind, or names a kind that its field knows by this word.
ENDINGS = {
    "place": {"WaitingPlaces"},
    "token": {"AccessTokens", "NewToken", "QasmToken", "SendTokens", "ShownToken", "SqlToken", "SqlTokens"},
    "marking": {"TokenMarking"},
    "transition": set(),
    "round": set(),
    "turn": set(),
    "marker": set(),
    "event": {"NewEvents", "ShownEvent", "SqlEvents"},
    "message": set(),
}


def _terms() -> set[str]:
    return {term.removesuffix("s") for term in TERM.findall(GLOSSARY.read_text(encoding="utf-8"))}


def _words(name: str) -> list[str]:
    words = [word.lower() for word in re.findall(r"[A-Z][a-z0-9]*|[A-Z]+(?![a-z])", name)]
    return [*words[:-1], words[-1].removesuffix("s")] if words else []


def _classes() -> dict[str, set[str]]:
    found = defaultdict[str, set[str]](set)
    for file in ROOT.rglob("*.py"):
        room = file.parent.relative_to(ROOT).as_posix().removeprefix(".")
        for name in CLASS.findall(file.read_text(encoding="utf-8")):
            found[name].add(room)
    return found


def test_a_class_called_by_a_word_of_the_glossary_is_what_the_glossary_says() -> None:
    terms, found = _terms(), defaultdict[str, set[str]](set)
    for name, rooms in _classes().items():
        if (term := " ".join(_words(name))) in terms:
            found[term] |= rooms
    assert dict(found) == HOMES


def test_words_of_the_net_and_of_the_log_end_no_name_of_another_meaning() -> None:
    foreign = defaultdict[str, set[str]](set)
    for name in _classes():
        words = _words(name)
        if len(words) > 1 and words[-1] in ENDINGS:
            foreign[words[-1]].add(name)
    assert {word: foreign[word] for word in ENDINGS} == ENDINGS
