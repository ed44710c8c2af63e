"""What every check is asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypeVar

from noetl.dsl.compile.context import Notes
from noetl.dsl.document import Document, DocumentPart
from noetl.dsl.document.base import Parts, parts_of
from noetl.dsl.problems import Finding, Path
from noetl.dsl.read.report import DottedNames
from noetl.dsl.read.source import Source
from noetl.facts.json import JsonMap
from noetl.net.checks import dominators
from noetl.net.graphs import Dominators
from noetl.net.model import KindInfo, Net
from noetl.net.soundness import SoundnessBounds

_Part = TypeVar("_Part", bound=DocumentPart)


@dataclass(frozen=True)
class Subject:
    """A playbook: its document in the canonical form, and once it is compiled the net with the
    compiler's notes."""

    document: Document
    source: Source
    kinds: Mapping[str, KindInfo]
    #: Suggests names for those that are not known.
    names: DottedNames = field(default_factory=DottedNames)
    #: Yields the text of a file that a task names, or raises NoetlError; None: such files are not
    #: read.
    files: Callable[[str], str] | None = None
    #: Whether SQL is parsed, whose parsers are slow to load.
    parse_sql: bool = False
    #: How far is looked for runs that come to no proper end.
    bounds: SoundnessBounds = field(default_factory=SoundnessBounds)
    net: Net | None = None
    notes: Notes = field(default_factory=Notes)

    def raw(self, path: Path) -> JsonMap:
        """The mapping at `path` as it was read; empty where there is none."""
        return self.source.raw(path)

    @cached_property
    def parts(self) -> Parts:
        """All parts of the document, outer ones first."""
        return parts_of(self.document)

    def parts_that_are(self, model: type[_Part]) -> Iterator[tuple[_Part, Path]]:
        """Those of one model."""
        for part, path in self.parts:
            if isinstance(part, model):
                yield part, path

    @cached_property
    def graph(self) -> Dominators | None:
        """What comes before what; None where steps or arcs were left out because of errors."""
        return None if self.net is None or not self.notes.is_whole else dominators(self.net)


#: Says what it finds wrong, and nothing else: it can be asked by itself, and taken out of the list.
Check: TypeAlias = Callable[[Subject], Iterable[Finding]]
