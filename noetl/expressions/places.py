"""Templates as text: where a name, a word or an error stands in one, and the pieces that it has.

Jinja's tree knows lines only; what is pointed at has a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2.exceptions import TemplateSyntaxError

from noetl.expressions.grammar import is_template, parse, parse_once
from noetl.expressions.limits import MAX_SOURCE, Refusal
from noetl.expressions.rendering import SANDBOX

_TAG = re.compile(r"\{#.*?#\}|\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|[^\W\d]\w*", re.DOTALL)
_ATTRIBUTE = re.compile(r"\.\s*$")
# What stands before the name of a filter or of a test.
_VERB = re.compile(r"(\||\bis(\s+not)?)\s*$")
_TAG_BEGIN = re.compile(r"\{%[-+]?\s*$")
_KEYWORD = re.compile(r"\s*=(?!=)")
#: Characters before a word that are looked at.
_BEFORE = 40


def place_of_name(source: str, chain: tuple[str, ...], *, guard: bool = False) -> int | None:
    """The offset at which the template reads `chain`; None where it does not."""
    return next((begin for begin, _ in places_of_name(source, chain, guard=guard)), None)


def places_of_name(source: str, chain: tuple[str, ...], *, guard: bool = False) -> Iterator[tuple[int, int]]:
    """Where the template reads `chain`: from the first character of it to the one behind it."""
    for at in _words(source, chain[0], guard):
        before = source[max(0, at - _BEFORE) : at]
        if not _ATTRIBUTE.search(before) and not _VERB.search(before):
            end = _end(source, at, chain)
            if end is not None:
                yield at, end


def rename_chain(source: str, chain: tuple[str, ...], new: str, *, guard: bool = False) -> str:
    """The template with `new` wherever it reads `chain`; the names of keyword arguments stay."""
    for begin, end in reversed(list(places_of_name(source, chain, guard=guard))):
        if len(chain) > 1 or not _KEYWORD.match(source, end):
            source = source[:begin] + new + source[end:]
    return source


def place_of_word(source: str, word: str, *, guard: bool = False) -> int | None:
    """The offset of the filter or test `word`, or of the tag that begins with it; None where there
    is none."""
    for at in _words(source, word, guard):
        begin = max(0, at - _BEFORE)
        if (tag := _TAG_BEGIN.search(source, begin, at)) is not None:
            return tag.start()
        if _VERB.search(source, begin, at):
            return at
    return None


def place_of_line(source: str, line: int) -> int:
    """The offset of the tag on that line (from 1) which cannot be read by itself, else of the first
    one there."""
    begin = min(len(source), sum(len(before) + 1 for before in source.split("\n")[: line - 1]))
    end = len(source) if (found := source.find("\n", begin)) < 0 else found
    tags = [tag for tag in _TAG.finditer(source) if tag.start() <= end and tag.end() > begin]
    broken = next((tag.start() for tag in tags if not _is_readable(tag[0])), None)
    if broken is not None:
        return broken
    opened = max(source.rfind("{{", 0, end), source.rfind("{%", 0, end))
    if tags and opened <= tags[-1].start():
        return tags[0].start()
    return opened if opened >= 0 else begin


def _is_readable(tag: str) -> bool:
    try:
        parse(tag)
    except Refusal:
        return tag.startswith("{%")  # blocks end elsewhere
    return True


def _words(source: str, word: str, guard: bool) -> Iterator[int]:
    for begin, end in _regions(source, guard):
        for token in _TOKEN.finditer(source, begin, end):
            if token[0] == word:
                yield token.start()


def _regions(source: str, guard: bool) -> Iterator[tuple[int, int]]:
    """What is evaluated: what stands in braces, or all of a guard without any."""
    if guard and "{{" not in source and "{%" not in source:
        yield 0, len(source)
        return
    for tag in _TAG.finditer(source):
        if not tag[0].startswith("{#"):
            yield tag.start(), tag.end()


def _end(source: str, at: int, chain: tuple[str, ...]) -> int | None:
    """Where `chain`, whose first name stands at `at`, ends; None where something else is read."""
    words = map(re.escape, chain[1:])
    rest = "".join(rf"\s*(?:\.\s*{word}\b|\[\s*['\"]?{word}['\"]?\s*\])" for word in words)
    found = re.compile(rest).match(source, at + len(chain[0]))
    return None if found is None else found.end()


def inside(guard: str) -> str | None:
    """The one expression that a guard is, without its braces; None where it is anything else.

    What cannot be parsed is taken for an expression where it stands in braces: `check` says what is
    wrong with it.
    """
    text = guard.strip()
    if not is_template(text):
        return text or None
    if not (text.startswith("{{") and text.endswith("}}")):
        return None
    try:
        whole = parse_once(text, False).whole is not None
    except (Refusal, RecursionError):
        whole = text.count("{{") == 1
    return text[2:-2].strip("-+").strip() if whole else None


def pieces(source: str) -> tuple[str, ...]:
    """`source` cut before and behind every `{{ ... }}`; joined they are `source` again.

    What cannot be cut is one piece: templates with statements, comments or control of white space,
    where a piece means something only beside the others, and what cannot be read.
    """
    if len(source) > MAX_SOURCE or not is_template(source):
        return (source,)
    found: list[str] = []
    inside = False
    try:
        for _, kind, text in SANDBOX.lex(source):
            if not inside and kind not in ("data", "variable_begin"):
                return (source,)
            if inside:
                found[-1] += text
            else:
                found.append(text)
            if kind in ("variable_begin", "variable_end"):
                inside = kind == "variable_begin"
                if text not in ("{{", "}}"):
                    return (source,)
    except (TemplateSyntaxError, RecursionError):
        return (source,)
    # The lexer has one kind of line end.
    return tuple(found) if not inside and "".join(found) == source else (source,)
