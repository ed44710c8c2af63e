"""Names of files in DuckDB's SQL: found, checked by the rule for files, and made absolute.

DuckDB knows neither the playbook's directory nor the rule. Names that stand in the text, or are
bound as parameters where a file is named, are checked here and granted one by one; what SQL
computes is left to DuckDB's own confinement, which holds with `allow_external`, too: what reaches
outward stands first and runs before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final

from noetl.facts.json import Json
from noetl.tools.duckdb.file_patterns import MAGIC, FilePattern, literal_pattern
from noetl.tools.duckdb.outward import refuse_files_of_its_own, refuse_outward
from noetl.tools.kit.files import FilePolicy, bad_path
from noetl.tools.sql.text import BoundStatement, SqlToken, tokens

#: Table functions whose first argument names files.
_READS: Final = re.compile(
    r"read_\w+|parquet_\w+|sniff_csv|glob|sqlite_\w+|st_read\w*|delta_scan|iceberg_\w+"
)
#: Those of extensions that open files by themselves, past DuckDB's confinement.
_PAST: Final = re.compile(r"sqlite_\w+|st_read\w*")
#: Functions that run text as SQL.
_RUNS: Final = frozenset({"query", "json_execute_serialized_sql"})
#: Words after which a text names a file, by the statement's first word.
_STATEMENTS: Final = {
    "copy": frozenset({"to", "from"}),
    "export": frozenset({"database", "to"}),
    "import": frozenset({"database"}),
    "attach": frozenset({"attach", "database", "exists", "replace"}),
    "load": frozenset({"load"}),
}
#: Of these the names that are written.
_WRITES: Final = (("copy", "to"), ("export", "database"), ("export", "to"))
#: What DuckDB reads where it stands in the place of a table.
_TABLE_FILE: Final = re.compile(r"\.[A-Za-z]\w{1,9}(\.(gz|zst))?$")
#: Functions with `FROM` between their arguments.
_FROM_INSIDE: Final = frozenset({"trim", "extract", "substring", "overlay", "position"})
#: Databases that are files, in the words of ATTACH.
_FILE_SCHEME: Final = re.compile(r"^((sqlite|duckdb|ducklake|file):(//)?)+", re.IGNORECASE)
_OTHER_SCHEME: Final = re.compile(r"^\w+:|=")
#: A host or bucket in the network, as DuckDB has it in `allowed_directories`.
_HOST: Final = re.compile(r"\b(?!file:)[A-Za-z][A-Za-z0-9+.-]*://[^/'\"\s]+")
#: A text between dollars, or one with escapes.
_DOLLARS: Final = re.compile(r"(\$\w*\$)(.*)\1", re.DOTALL)
#: Files of a directory or a pattern that are granted one by one.
_MOST_FILES: Final = 10_000
#: Characters of a text that may be the name of a file.
_LONGEST_NAME: Final = 4096
_WHAT: Final = "The file"


@dataclass(frozen=True, slots=True)
class AllowedFiles:
    """What DuckDB may reach: directories with all below them, single files, and hosts
    (`https://host/`)."""

    directories: list[Path] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)

    def add_file(self, path: Path) -> None:
        """A file that is read or written, or the directory of one that is written in parts."""
        # DuckDB writes a file under a `tmp_` name beside it first.
        self.files.extend((path, path.with_name(f"tmp_{path.name}"), Path(literal_pattern(path))))
        self.directories.append(path)

    def add_directory(self, path: Path, policy: FilePolicy) -> None:
        """All below `path` but what the engine keeps to itself."""
        if not policy.holds_private(path):
            self.directories.append(path)
            return
        for inner in islice(path.iterdir() if path.is_dir() else (), _MOST_FILES):
            if inner.is_dir() and not policy.holds_private(inner.resolve()):
                self.directories.append(inner)
            elif inner.is_file() and not policy.is_private(inner.resolve()):
                self.files.append(inner)


def locate_files(
    bounds: Sequence[BoundStatement], policy: FilePolicy, grants: AllowedFiles, *, external: bool = False
) -> list[BoundStatement]:
    """The statements with absolute names of files, which are added to `grants`.

    `external`: it may reach outward. Raises ToolError(client_error) for a name that the rule for
    files refuses, for one that SQL computes where it could not be held to the rule, and for a
    statement that needs `allow_external`."""
    refuse_files_of_its_own(bounds)
    if not external:
        refuse_outward(bounds)
    return [_Statement(bound, policy, grants, external).locate() for bound in bounds]


class _Statement:
    """One statement on its way to absolute names."""

    def __init__(
        self, bound: BoundStatement, policy: FilePolicy, grants: AllowedFiles, external: bool
    ) -> None:
        self._bound = bound
        self._text = bound.dollar()
        self._policy = policy
        self._grants = grants
        self._external = external
        self._values: dict[str, Json] = dict(bound.values)
        self._tokens = [one for one in tokens(self._text) if one.kind not in ("space", "comment")]
        # What stands before the first token, and behind the last one, is no word and no literal.
        self._words = [*("" if one.kind == "quoted" else one.text.lower() for one in self._tokens), ""]
        self._literals = [*(_literal_of(one, bound.values) for one in self._tokens), None]
        self._edits: list[tuple[SqlToken, str]] = []
        self._verb = self._find_verb()
        self._opens_one = self._verb in ("attach", "load", "import") or any(map(_PAST.match, self._words))

    def locate(self) -> BoundStatement:
        for at in list(self._find_names()):
            self._locate(at)
        if self._external:
            # The hosts that stand anywhere in the text, or are its parameters.
            hosts = (host for literal in self._literals for host in _HOST.findall(str(literal or "")))
            self._grants.hosts.extend(f"{host}/" for host in hosts)
        if not _sees_links():
            self._refuse_others()
        if not self._edits:
            return self._bound
        text, done = "", 0
        for token, name in sorted(self._edits, key=lambda edit: edit[0].start):
            text, done = text + self._text[done : token.start] + name, token.end
        text += self._text[done:]
        # DuckDB takes no value that the text does not name any more.
        used = {one.text.removeprefix("$") for one in tokens(text) if one.kind == "word"}
        values = {key: value for key, value in self._values.items() if key in used}
        return replace(self._bound, pieces=(text,), values=values)

    def _find_verb(self) -> str:
        """The statement's first word; of EXPLAIN and PREPARE that of the statement inside."""
        at = 0
        while self._words[at] in ("explain", "analyze"):
            at += 1
        if self._words[at] == "prepare" and "as" in self._words:
            at = self._words.index("as", at) + 1
        return self._words[at]

    def _find_names(self) -> Iterator[int]:
        """Where the tokens stand that name files."""
        words = _STATEMENTS.get(self._verb, frozenset[str]())
        opened: list[str] = []
        for at in range(len(self._tokens)):
            word = self._words[at]
            if word == "(":
                opened.append(self._words[at - 1])
                yield from self._arguments(at)
            elif word == ")":
                opened = opened[:-1]
            elif word in words and not opened:
                yield from self._operand(at + 1)
            elif self._is_table_file(at, opened):
                yield at + 1

    def _operand(self, at: int) -> Iterator[int]:
        if self._literals[at] is not None:
            yield at
        elif self._words[at] == "(" or (at < len(self._tokens) and self._tokens[at].kind == "quoted"):
            self._refuse_computed(self._verb.upper(), past=self._verb == "attach")

    def _arguments(self, at: int) -> Iterator[int]:
        """The names in the first argument of the function whose parenthesis stands at `at`."""
        function = self._words[at - 1] or str(self._literals[at - 1] or "").lower()
        if function not in _RUNS and not _READS.fullmatch(function):
            return
        inner = list(self._first_argument(at + 1))
        if inner and self._words[inner[0]] == "[" and self._words[inner[-1]] == "]":
            inner = [one for one in inner[1:-1] if self._words[one] != ","]
        elif len(inner) > 1:
            inner = []
        if not inner or any(self._literals[one] is None for one in inner):
            self._refuse_computed(f"{function}()", past=_PAST.fullmatch(function) is not None)
        elif function in _RUNS:
            # SQL in a text is read like any other; names in it have to be absolute.
            for one in inner:
                text = replace(self._bound, pieces=(str(self._literals[one]),), values={})
                _Statement(text, self._policy, self._grants, self._external).locate()
        else:
            yield from inner

    def _first_argument(self, at: int) -> Iterator[int]:
        depth = 0
        for here in range(at, len(self._tokens)):
            word = self._words[here]
            if depth == 0 and word in (",", ")"):
                return
            depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
            yield here

    def _refuse_computed(self, where: str, *, past: bool) -> None:
        """DuckDB itself holds what is computed to what it was granted, but not what opens files
        `past` it, and before 2.0 it does not see where links lead."""
        if past or not _sees_links():
            raise bad_path(
                f"{where} is given a name that SQL computes, and no one can see where that leads; write "
                "the name itself, or bind it as a parameter."
            )

    def _is_table_file(self, at: int, opened: Sequence[str]) -> bool:
        """Whether what follows the word at `at` is a file in the place of a table."""
        word, following = self._words[at], self._tokens[at + 1 : at + 2]
        if word not in ("from", "join", ",") or not following or following[0].kind != "quoted":
            return False
        if self._words[at - 1] == "distinct" or (opened and opened[-1] in _FROM_INSIDE):
            return False
        # Behind a comma it is a table where what stands before it is one.
        if word == "," and not (at >= 2 and self._is_table_file(at - 2, opened)):
            return False
        return _TABLE_FILE.search(str(self._literals[at + 1])) is not None

    def _locate(self, at: int) -> None:
        """Puts the absolute name in the place of the one at `at`, and grants it."""
        name, token = self._literals[at], self._tokens[at]
        if not isinstance(name, str) or not name or self._is_elsewhere(name):
            return
        scheme = _FILE_SCHEME.match(name)
        bare = name[scheme.end() :] if scheme else name
        if token.text.startswith('"') and not self._policy.path(bare, _WHAT).exists():
            return  # a table that is called like a file
        path = (scheme[0] if scheme else "") + self._grant(bare, (self._verb, self._words[at - 1]) in _WRITES)
        if token.text.startswith("$") and token.kind != "quoted":
            self._values[f"{token.text[1:]}_file"] = path
            self._edits.append((token, f"{token.text}_file"))
        else:
            quote = '"' if token.text.startswith('"') else "'"
            self._edits.append((token, quote + path.replace(quote, quote * 2) + quote))

    def _is_elsewhere(self, name: str) -> bool:
        """Whether a name means no file of this machine."""
        if _FILE_SCHEME.match(name):
            return False
        if "://" in name or name.startswith(":memory:"):
            return True
        return self._verb == "attach" and _OTHER_SCHEME.search(name) is not None and not Path(name).exists()

    def _grant(self, name: str, written: bool) -> str:
        path = self._policy.target(name, _WHAT) if written else self._policy.path(name, _WHAT)
        magic = None if written or path.is_file() else MAGIC.search(name)
        if magic is not None:
            return self._grant_pattern(name, name[: magic.start()].rpartition("/")[0])
        self._grants.add_file(path)
        return str(path) if written or self._opens_one else literal_pattern(path)

    def _grant_pattern(self, name: str, above: str) -> str:
        """The pattern below the first place that has a file of it."""
        magic = name[len(above) :].lstrip("/")
        above = above or ("/" if name.startswith("/") else ".")
        places = self._policy.candidates(above, _WHAT)
        directory = next((one for one in places if next(FilePattern(one, magic).files(), None)), places[0])
        self._policy.check(directory / "-", name, _WHAT)
        self._grants.files.append(directory / magic)
        for found in islice(FilePattern(directory, magic).files(), _MOST_FILES):
            # What is private there is not granted; a link that leads out is an error.
            real = found.resolve()
            if not self._policy.is_private(real) or (found != real and not _sees_links()):
                self._grants.files.extend((found, self._policy.check(real, name, _WHAT)))
        if _sees_links() and not self._policy.holds_private(directory):
            self._grants.directories.append(directory)
        return str(directory / magic)

    def _refuse_others(self) -> None:
        """Of what is not known to name a file: names that lead to one that may not be named."""
        for value in self._literals:
            if not isinstance(value, str) or not 0 < len(value) < _LONGEST_NAME or "\0" in value:
                continue
            name = value.removeprefix("file:").replace("//", "/")
            places = (Path("/"),) if name.startswith("/") else self._policy.places
            for place in places:
                for found in islice(FilePattern(place, name).files(), _MOST_FILES):
                    self._policy.check(found.resolve(), value, _WHAT)


def _literal_of(token: SqlToken, values: Mapping[str, Json]) -> Json:
    """What a literal or a parameter says; None for everything else."""
    text = token.text
    if text.startswith("$") and token.kind != "quoted":
        return values.get(text[1:])
    if token.kind != "quoted" or len(text) < 2:
        return None
    if dollars := _DOLLARS.fullmatch(text):
        return dollars[2]
    text = text if "\\" in text else text.removeprefix("e").removeprefix("E")
    return text[1:-1].replace(text[0] * 2, text[0]) if text[0] in "'\"" else None


def _sees_links() -> bool:
    """Whether DuckDB judges names by where links lead, as it does from 2.0 on."""
    import duckdb  # see `DatabaseSetup`

    return int(duckdb.__version__.partition(".")[0]) >= 2
