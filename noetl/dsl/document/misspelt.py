"""Keys that mean nothing where they stand: slips for a key that means something there are errors,
others warnings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Final

from noetl.dsl.document import DocumentPart
from noetl.dsl.document.base import keys_near, models_below
from noetl.dsl.problems import Code, Finding, Path
from noetl.dsl.read.report import ProblemReport
from noetl.facts.nearest import is_short_for

#: Keys that begin so are the author's own.
FREE: Final = "x-"

#: Where a slip loses a note and nothing more, and any key may be such a note.
_NOTES: Final = "metadata"
#: Where what each entry may have depends on a provider.
_FORGIVING: Final = frozenset({_NOTES, "keychain"})

#: Shorter keys have neighbours by chance: these count only where the key itself is missing.
_LONG: Final = 4
_VOWELS: Final = frozenset("aeiouy")


def is_free(key: str) -> bool:
    """Whether `key` is the author's own, which nothing reads: `x-owner`."""
    return key.startswith(FREE)


def unknown_key(
    path: Path, message: str, hint: str, known: Iterable[str], given: Collection[str] = ()
) -> Iterator[Finding]:
    """What is to be said of the key that `path` ends with: nothing where it is the author's own, an
    error where it is a slip for one of the `known` keys, else a warning with `hint`. `given` are
    the keys that stand beside it."""
    key = str(path[-1])
    if is_free(key):
        return
    meant = slip_for(key, known, given)
    if meant is None and path[0] == _NOTES:
        return
    hint = f"did you mean {meant!r}?" if meant else hint
    if meant is None or path[0] in _FORGIVING:
        yield Finding(Code.UNKNOWN_KEY, path, message, hint, at_key=True)
    else:
        around = (*path[:-1], meant)
        yield Finding(Code.MISSPELT_KEY, path, message, hint, at_key=True, explains=around)


def add_unknown_key(
    report: ProblemReport,
    path: Path,
    message: str,
    hint: str,
    known: Iterable[str],
    given: Collection[str] = (),
) -> None:
    """Adds the problem of the key that `path` ends with; see `unknown_key`."""
    for finding in unknown_key(path, message, hint, known, given):
        report.keep(finding)


def slip_for(key: str, known: Iterable[str], given: Collection[str] = ()) -> str | None:
    """The one of `known` that `key` is another form of (plural, case, `-`, `_`), or one letter away
    from."""
    word = _plain(key)
    others = {one: _plain(one) for one in known if one != key}
    near = {one for one, plain in others.items() if _is_form_of(word, plain)}
    # A key with a meaning elsewhere was misplaced rather than mistyped.
    if key not in _words():
        long = [one for one in others if len(one) >= _LONG or one not in given]
        # A word without vowels is short for a longer one: `cmd` is no slip for `cwd`.
        short = {one for one in long if _VOWELS.isdisjoint(word) and is_short_for(word, others[one])}
        near |= short or {one for one in long if _is_one_edit(word, others[one])}
    return min(near, key=lambda one: _far(word, others[one]), default=None)


def _far(word: str, other: str) -> tuple[bool, bool, int, str]:
    """Sorts first what differs in its writing only, then in one letter, then the shortest."""
    return word != other, not _is_one_edit(word, other), len(other), other


@cache
def _words() -> frozenset[str]:
    """All keys that some part of a document has."""
    models = [*models_below(DocumentPart)]
    return frozenset(key for model in models for key in keys_near(model))


def _plain(key: str) -> str:
    return re.sub(r"[-_\s]", "", key).casefold()


def _is_form_of(word: str, other: str) -> bool:
    return bool(word) and (word == other or word in _plurals(other) or other in _plurals(word))


def _plurals(word: str) -> tuple[str, ...]:
    # Words of two letters (`in`, `do`, `to`) have none.
    return (f"{word}s", f"{word}es", f"{word[:-1]}ies") if len(word) > 2 else ()


def _is_one_edit(word: str, other: str) -> bool:
    """Whether one letter is missing, too many or another one, or two neighbours have changed
    places."""
    if abs(len(word) - len(other)) > 1 or not word:
        return False
    first = next((at for at, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), None)
    if first is None:
        return True
    left, right = word[first:], other[first:]
    if left[1:] == right[1:] or left[1:] == right or left == right[1:]:
        return True
    return left[:2] == right[1::-1] and left[2:] == right[2:]
