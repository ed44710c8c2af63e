"""The passes that rewrite a document to its canonical form, in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from noetl.dsl.dialects.canonical import choices, forms, implied, keys, names
from noetl.dsl.dialects.canonical.shapes import Rewritten
from noetl.dsl.dialects.classic import rewrite as classic
from noetl.dsl.dialects.rules import rewrite as rules
from noetl.dsl.document import Document
from noetl.dsl.document.base import Parts, parts_of
from noetl.dsl.document.forms import parts_of_forms
from noetl.dsl.document.validation import to_document
from noetl.dsl.read.report import ProblemReport
from noetl.facts.json import Json
from noetl.net.model import KindInfo

#: Rewrites the data of a document, in which nothing is of the wrong type; None where there is
#: nothing to rewrite.
Pass: TypeAlias = Callable[[Parts, dict[str, Json], ProblemReport], Rewritten]


def lower(
    document: Document, data: dict[str, Json], kinds: Mapping[str, KindInfo], report: ProblemReport
) -> tuple[Document, dict[str, Json]] | None:
    """The canonical form of `document`, whose data (without its faulty parts) is `data`, and the
    data of that. From here on the report's source is that form; problems still point at the text.
    Of `kinds` those are asked that the document names."""
    parts = _all_parts(document, data, kinds)
    spelled = partial(keys.rewrite, kinds)
    passes: tuple[Pass, ...] = (
        *(rules.rewrite, keys.rewrite_older, forms.rewrite_frames, spelled, forms.rewrite),
        # What the classic pass makes tasks of may be spelled in other ways, too.
        *(partial(classic.rewrite, kinds), keys.rewrite_older, spelled, forms.rewrite),
        *(partial(names.rewrite, kinds), implied.rewrite_ends, partial(implied.rewrite_results, kinds)),
    )
    for rewrite in passes:
        rewritten = rewrite(parts, data, report)
        if rewritten is None:
            continue
        report.source = report.source.rewritten(*rewritten)
        read_as = to_document(rewritten[0], report)
        if read_as is None:
            return None
        document, data = read_as
        parts = _all_parts(document, data, kinds)
    return document, data


def _all_parts(document: Document, data: dict[str, Json], kinds: Mapping[str, KindInfo]) -> Parts:
    """Those of the document, and the declarations of forms in the configuration of tools."""
    parts = parts_of(document)
    return (*parts, *parts_of_forms(kinds, parts, data))


def expand(document: Document, data: dict[str, Json], report: ProblemReport) -> Document | None:
    """The canonical form `document`, made of `data`, with a step for each choice that waits. From
    here on the report's source is what is compiled, which nobody writes."""
    rewritten = choices.rewrite(data, report)
    if rewritten is None:
        return document
    report.source = report.source.rewritten(*rewritten)
    read_as = to_document(rewritten[0], report)
    return None if read_as is None else read_as[0]
