"""Names of files in DuckDB's SQL: found, checked by the rule for files, and made absolute.

DuckDB knows neither the playbook's directory nor the rule. Names that stand in the text, or are
bound as parameters where a file is named, are checked here and granted one by one; what SQL
computes is left to DuckDB's own confinement, which holds with `allow_external`, too: what reaches
outward stands first and runs before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final

from noetl.facts.json import Json
from noetl.tools.duckdb.file_patterns import MAGIC, FilePattern
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
        self.files.extend((path, path.with_name(f"tmp_{path.name}")))
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
    files refuses, for one that SQL computes where nobody could hold it to the rule, and for a
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
        self._tokens = [one for one in tokens(self._text) if one.kind not in ("space", "comment")]
        self._values: dict[str, Json] = dict(bound.values)
        self._edits: list[tuple[SqlToken, str]] = []
        self._verb = self._found_verb()

    def locate(self) -> BoundStatement:
        for at in list(self._names()):
            self._locate(at)
        if self._external:
            self._grant_hosts()
        if not _sees_links():
            self._refuse_others()
        if not self._edits:
            return self._bound
        text, done = "", 0
        for token, name in sorted(self._edits, key=lambda edit: edit[0].start):
            text, done = text + self._text[done : token.start] + name, token.end
        text += self._text[done:]
        # DuckDB takes no value that nothing names any more.
        used = {text[one.start + 1 : one.end] for one in tokens(text) if one.kind == "word"}
        values = {key: value for key, value in self._values.items() if key in used}
        return replace(self._bound, pieces=(text,), values=values)

    # --- where names stand
    # ---------------------------------------------------------------------------------

    def _names(self) -> Iterator[int]:
        """Where the tokens stand that name files."""
        words = _STATEMENTS.get(self._verb, frozenset[str]())
        opened: list[str] = []
        for at in range(len(self._tokens)):
            word = self._word(at)
            if word == "(":
                opened.append(self._word(at - 1))
                yield from self._arguments(at)
            elif word == ")":
                opened = opened[:-1]
            elif word in words and not opened:
                yield from self._operand(at + 1)
            elif self._is_table_file(at, opened):
                yield at + 1

    def _operand(self, at: int) -> Iterator[int]:
        if self._is_value(at):
            yield at
        elif self._word(at) == "(" or self._is_quoted(at):
            self._refuse_computed(self._verb.upper(), past=self._verb == "attach")

    def _arguments(self, at: int) -> Iterator[int]:
        """The names in the first argument of the function whose parenthesis stands at `at`."""
        function = self._word(at - 1) or str(self._value(at - 1) or "").lower()
        if function not in _RUNS and not _READS.fullmatch(function):
            return
        inner = list(self._first_argument(at + 1))
        if inner and self._word(inner[0]) == "[" and self._word(inner[-1]) == "]":
            inner = [one for one in inner[1:-1] if self._word(one) != ","]
        elif len(inner) > 1:
            inner = []
        if not inner or not all(map(self._is_value, inner)):
            self._refuse_computed(f"{function}()", past=_PAST.fullmatch(function) is not None)
        elif function in _RUNS:
            self._look_into(inner)
        else:
            yield from inner

    def _first_argument(self, at: int) -> Iterator[int]:
        depth = 0
        while at < len(self._tokens):
            word = self._word(at)
            if depth == 0 and word in (",", ")"):
                return
            depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
            yield at
            at += 1

    def _look_into(self, texts: Sequence[int]) -> None:
        """SQL in a text is read like any other; names in it have to be absolute."""
        for at in texts:
            inner = replace(self._bound, pieces=(str(self._value(at)),), values={})
            _Statement(inner, self._policy, self._grants, self._external).locate()

    def _refuse_computed(self, where: str, *, past: bool) -> None:
        """DuckDB itself holds what is computed to what it was granted, but not what opens files
        `past` it, and before 2.0 it does not see where links lead."""
        if past or not _sees_links():
            raise bad_path(
                f"{where} is given a name that SQL computes, and nobody can see where that "
                "leads; write the name itself, or "
                "bind it as a parameter."
            )

    def _is_table_file(self, at: int, opened: Sequence[str]) -> bool:
        """Whether what follows the word at `at` is a file in the place of a table."""
        following = self._tokens[at + 1 : at + 2]
        if self._word(at) not in ("from", "join", ",") or not following or following[0].kind != "quoted":
            return False
        if self._word(at - 1) == "distinct" or (opened and opened[-1] in _FROM_INSIDE):
            return False
        # Behind a comma it is a table where what stands before it is one.
        if self._word(at) == "," and not (at >= 2 and self._is_table_file(at - 2, opened)):
            return False
        return _TABLE_FILE.search(str(self._value(at + 1))) is not None

    # --- what becomes of them
    # ------------------------------------------------------------------------------

    def _locate(self, at: int) -> None:
        name, text = self._value(at), self._source(at)
        if not isinstance(name, str) or not name or self._is_elsewhere(name):
            return
        scheme = _FILE_SCHEME.match(name)
        bare = name[scheme.end() :] if scheme else name
        if text.startswith('"') and not self._policy.path(bare, _WHAT).exists():
            return  # a table that is called like a file
        path = (scheme[0] if scheme else "") + self._grant(bare, self._is_written(at))
        if text.startswith("$") and not self._is_quoted(at):
            self._values[f"{text[1:]}_file"] = path
            self._edits.append((self._tokens[at], f"{text}_file"))
        else:
            quote = '"' if text.startswith('"') else "'"
            self._edits.append((self._tokens[at], quote + path.replace(quote, quote * 2) + quote))

    def _is_elsewhere(self, name: str) -> bool:
        """Whether a name means no file of this machine."""
        if _FILE_SCHEME.match(name):
            return False
        if "://" in name or name.startswith(":memory:"):
            return True
        return self._verb == "attach" and _OTHER_SCHEME.search(name) is not None and not Path(name).exists()

    def _is_written(self, at: int) -> bool:
        return (self._verb, self._word(at - 1)) in (("copy", "to"), ("export", "database"), ("export", "to"))

    def _grant(self, name: str, written: bool) -> str:
        magic = MAGIC.search(name)
        if magic is not None and not written:
            return self._grant_pattern(name, name[: magic.start()].rpartition("/")[0])
        path = self._policy.target(name, _WHAT) if written else self._policy.path(name, _WHAT)
        self._grants.add_file(path)
        return str(path)

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

    def _grant_hosts(self) -> None:
        """Where the network is reached, by the names that stand anywhere in the text or are its
        parameters."""
        for at in range(len(self._tokens)):
            self._grants.hosts.extend(f"{host}/" for host in _HOST.findall(str(self._value(at) or "")))

    def _refuse_others(self) -> None:
        """Of what is not known to name a file: names that lead to one that may not be named."""
        for at in range(len(self._tokens)):
            value = self._value(at)
            if not isinstance(value, str) or not 0 < len(value) < _LONGEST_NAME or "\0" in value:
                continue
            name = value.removeprefix("file:").replace("//", "/")
            places = (Path("/"),) if name.startswith("/") else self._policy.places
            for found in (
                one for place in places for one in islice(FilePattern(place, name).files(), _MOST_FILES)
            ):
                self._policy.check(found.resolve(), value, _WHAT)

    # --- tokens
    # --------------------------------------------------------------------------------------------

    def _source(self, at: int) -> str:
        token = self._tokens[at]
        return self._text[token.start : token.end]

    def _value(self, at: int) -> Json:
        """What a literal or a parameter says; None for everything else."""
        if at >= len(self._tokens):
            return None
        text = self._source(at)
        if text.startswith("$") and self._tokens[at].kind != "quoted":
            return self._values.get(text[1:])
        if self._tokens[at].kind != "quoted" or len(text) < 2:
            return None
        if dollars := _DOLLARS.fullmatch(text):
            return dollars[2]
        text = text if "\\" in text else text.removeprefix("e").removeprefix("E")
        return text[1:-1].replace(text[0] * 2, text[0]) if text[0] in "'\"" else None

    def _is_quoted(self, at: int) -> bool:
        return at < len(self._tokens) and self._tokens[at].kind == "quoted"

    def _is_value(self, at: int) -> bool:
        return self._value(at) is not None

    def _word(self, at: int) -> str:
        if not 0 <= at < len(self._tokens) or self._tokens[at].kind == "quoted":
            return ""
        return self._source(at).lower()

    def _found_verb(self) -> str:
        """The statement's first word; of EXPLAIN and PREPARE that of the statement inside."""
        at = 0
        while self._word(at) in ("explain", "analyze"):
            at += 1
        if self._word(at) == "prepare":
            at = next((one + 1 for one in range(at, len(self._tokens)) if self._word(one) == "as"), at)
        return self._word(at)


def _sees_links() -> bool:
    """Whether DuckDB judges names by where links lead, as it does from 2.0 on."""
    import duckdb  # see `DatabaseSetup`

    return int(duckdb.__version__.partition(".")[0]) >= 2
