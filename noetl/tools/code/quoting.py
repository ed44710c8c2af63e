"""How values are written into a command line, so that a shell reads each as the text that it is.

What stands around a value decides how it is written: by itself it becomes one word, between quotes
it goes on with them. The reader of that surrounding text follows bash (POSIX, `$'…'`,
here-documents, comments) as far as quoting is concerned; where it cannot be sure, values pass only
if no shell could read anything into them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Final, Literal, TypeAlias

from noetl.expressions import Broken

#: What a place is within. `(` is as good as outside of everything, but for the `)` that ends it.
Mode: TypeAlias = Literal["", "(", "'", '"', "$'", "#", "<<", "((", "${", "`"]

#: Within these a text is read twice, or as arithmetic, or otherwise by each shell.
_UNSURE: Final = frozenset({"$'", "((", "${", "`"})
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_HARMLESS: Final = re.compile(r"[A-Za-z0-9_@%+:./-]+")
#: Behind these a word begins, and with it a comment may.
_BEFORE_WORD: Final = frozenset("\n \t;&|()<>")
#: A `)` that opens nothing may follow.
_UNPAIRED: Final = re.compile(r"case\b|\[\[")
#: What is expanded in a here-document and may hold quotes.
_NESTED: Final = re.compile(r"\$\(|`|\$\{\w*[^\w}]|\$\[")
_PAIR: Final = re.compile(r"\\.")
_SPECIAL: Final = re.compile(r"([\\$\"`])")
_QUOTES: Final[Mapping[str, Mode]] = {"'": "'", '"': '"', "`": "`", "(": "(("}
#: What ends each of the modes that know few characters, which of these mean something there, and
#: which cannot be followed: a quote in `${…}` depends on what is around, `((` may be two subshells.
_ENDS: Final[Mapping[Mode, str]] = {"'": "'", '"': '"', "$'": "'", "`": "`", "${": "}", "((": ")"}
_MEANING: Final[Mapping[Mode, str]] = {"'": "", '"': "\\$`", "$'": "\\", "`": "\\", "${": '\\$"`', "((": "$("}
_UNCLEAR: Final[Mapping[Mode, str]] = {"${": "'", "((": "'\"`\\#"}
_BEGIN_DOCUMENT: Final = re.compile(
    r"<<(?P<tabs>-?)[ \t]*(?:'(?P<one>[^'\n]*)'|\"(?P<two>[^\"\n]*)\"|(?P<bare>\\?[\w.+-]+))(?=[\s;&|<>()])"
)
_SPECIAL_IN_DOCUMENT: Final = re.compile(r"([\\$`])")


@dataclass(frozen=True, slots=True)
class HereDocument:
    """What ends it, whether nothing in it is expanded, whether tabs before its lines go."""

    end: str
    raw: bool
    tabs: bool

    def quote(self, text: str) -> str:
        """How `text` is written into it."""
        return text if self.raw else _SPECIAL_IN_DOCUMENT.sub(r"\\\1", text)

    def is_ended_by(self, line: str) -> bool:
        return (line.lstrip("\t") if self.tabs else line) == self.end

    def end_error(self) -> Broken:
        """What is wrong where a value makes the line that ends it."""
        return Broken(f"puts a value into a here-document that would end it: a line {self.end!r}")


def _begin_document(text: str, at: int) -> tuple[HereDocument, int] | None:
    """The document that `<<` at `at` begins, and the place behind its name; None where it cannot be
    read."""
    found = _BEGIN_DOCUMENT.match(text, at)
    if found is None:
        return None
    bare = found["bare"]
    end = bare.removeprefix("\\") if bare else found["one"] or found["two"] or ""
    return HereDocument(end, bare is None or bare != end, bool(found["tabs"])), found.end()


class CommandLine:
    """Follows the quoting of a command line, and writes values into it: a
    `noetl.expressions.Quoting`."""

    def __init__(self) -> None:
        self._modes: list[Mode] = []
        #: The character before, where it may change what follows: a line break at the beginning.
        self._last = "\n"
        #: A number stands before that no quotes are around.
        self._number = False
        #: A backslash stands before, and nothing behind it.
        self._escaped = False
        #: Something was met that is not followed.
        self._lost = False
        self._documents: list[HereDocument] = []
        self._line = ""
        self._line_is_given = True

    @property
    def _mode(self) -> Mode:
        """What the place is within that was read last."""
        return self._modes[-1] if self._modes else ""

    def read(self, text: str) -> str:
        """Goes on with what the template says; returns how it is written."""
        at = 0
        while at < len(text):
            match self._mode:
                case "" | "(":
                    at = self._read_plain(text, at)
                case "#":
                    at = self._read_comment(text, at)
                case "<<":
                    at = self._read_document(text, at)
                case mode:
                    at = self._read_inside(mode, text, at)
        # Without the blank a number would be that of the file which is redirected.
        written = f" {text}" if self._number and text[:1] in ("<", ">") else text
        self._number = self._number and not text
        return written

    def value(self, text: str) -> str:
        """How `text` is written here. Raises Broken where it could be read as something else."""
        self._number = self._mode in ("", "(") and text.isascii() and text.isdigit()
        written = self._write(text)
        self._last, self._escaped = "", False
        return written

    def _write(self, text: str) -> str:
        if self._lost or self._escaped or self._last == "$" or not _UNSURE.isdisjoint(self._modes):
            fits = _NUMBER if "((" in self._modes else _HARMLESS
            if fits.fullmatch(text) is None:
                raise Broken(
                    "puts a value where a shell may read it as code (behind `$` or a backslash, "
                    "in backticks, `$'…'`, `${…}`, `$((…))`, `case`)",
                    hint="Hand the value over with env:, stdin: or argv:.",
                )
            return text
        match self._mode:
            case "'":
                return text.replace("'", "'\\''")
            case '"':
                return _SPECIAL.sub(r"\\\1", text)
            case "#":
                return " ".join(text.split())
            case "<<":
                return self._write_in_document(text)
            case _:
                return text if _NUMBER.fullmatch(text) else quote(text)

    def _write_in_document(self, text: str) -> str:
        document = self._documents[0]
        written = document.quote(text)
        first, *others = written.split("\n")
        lines = [self._line + first, *others]
        if any(map(document.is_ended_by, lines[:-1])):
            raise document.end_error()
        self._line, self._line_is_given = lines[-1], False
        return written

    def _enter(self, mode: Mode, levels: int = 1) -> None:
        self._modes += [mode] * levels
        self._last = "\n"

    def _leave(self) -> None:
        self._modes.pop()
        self._last = ""

    def _read_plain(self, text: str, at: int) -> int:
        char = text[at]
        match char:
            case "\\":
                return self._backslash(text, at)
            case "$":
                return self._dollar(text, at)
            case "<":
                return self._less(text, at)
            case "'" | '"' | "`":
                self._enter("$'" if char == "'" and self._last == "$" else _QUOTES[char])
            case "#" if self._last in _BEFORE_WORD:
                self._enter("#")
            case "(" | ")":
                return self._bracket(text, at)
            case _:
                self._word(text, at)
        return at + 1

    def _word(self, text: str, at: int) -> None:
        char = text[at]
        if self._modes and self._last in _BEFORE_WORD and _UNPAIRED.match(text, at):
            self._lost = True
        self._last = char
        if char == "\n" and self._documents:
            self._enter("<<")
            self._line, self._line_is_given = "", True

    def _bracket(self, text: str, at: int) -> int:
        if text.startswith("((", at):
            self._enter("((", 2)
            return at + 2
        if text[at] == "(":
            self._enter("(")
        elif self._modes:
            self._leave()
        self._last = text[at]
        return at + 1

    def _dollar(self, text: str, at: int) -> int:
        if text.startswith("$((", at):
            self._enter("((", 2)
            return at + 3
        match text[at + 1 : at + 2]:
            case "(":
                self._enter("(")
            case "{":
                self._enter("${")
            case "[":
                self._lost = True
            case name if name and name in "$#?!@*-0123456789":
                self._last = ""
            case _:
                self._last = "$"
                return at + 1
        return at + 2

    def _less(self, text: str, at: int) -> int:
        self._last = "<"
        if not text.startswith("<<", at):
            return at + 1
        if text.startswith("<<<", at):
            return at + 3
        found = _begin_document(text, at)
        if found is None:
            self._lost = True
            return at + 2
        self._documents.append(found[0])
        self._last = ""
        return found[1]

    def _backslash(self, text: str, at: int) -> int:
        if at + 1 == len(text):
            self._escaped = True
        elif text[at + 1] != "\n":  # a line that goes on begins no word
            self._last = ""
        return at + 2

    def _read_inside(self, mode: Mode, text: str, at: int) -> int:
        char = text[at]
        if char == "\\" and char in _MEANING[mode]:
            return self._backslash(text, at)
        if char == "$" and char in _MEANING[mode]:
            return self._dollar(text, at)
        if char == _ENDS[mode]:
            self._leave()
        elif char in _MEANING[mode]:
            self._enter(_QUOTES[char])
        else:
            self._lost = self._lost or char in _UNCLEAR.get(mode, "")
            self._last = ""
        return at + 1

    def _read_comment(self, text: str, at: int) -> int:
        end = text.find("\n", at)
        if end < 0:
            return len(text)
        self._modes.pop()
        return end

    def _read_document(self, text: str, at: int) -> int:
        end = text.find("\n", at)
        said = text[at:] if end < 0 else text[at:end]
        self._line += said
        document = self._documents[0]
        if not document.raw:
            goes_on = (len(self._line) - len(self._line.rstrip("\\"))) % 2 == 1
            self._lost = (
                self._lost or (goes_on and end >= 0) or _NESTED.search(_PAIR.sub("", said)) is not None
            )
            self._escaped = goes_on
            self._last = "$" if self._line.endswith("$") else ""
        if end < 0:
            return len(text)
        if document.is_ended_by(self._line):
            if not self._line_is_given:
                raise document.end_error()
            self._documents.pop(0)
            if not self._documents:
                self._leave()
        self._line, self._line_is_given, self._last, self._escaped = "", True, "\n", False
        return end + 1
