"""Sandboxed, deterministic Jinja: evaluate, names_used, limits.

Imports nothing of NoETL but `facts` and `errors`. Jinja's lexer and parser read the templates; what
they mean is ours (`compiler`, `statements`), so that every step, character and attribute is counted
and checked, and nothing is executed that was not written here.
"""

from __future__ import annotations

from noetl.expressions.absences import describe_absence, evaluate_at, sentence
from noetl.expressions.comparisons import texts_compared
from noetl.expressions.evaluate import Absence, TemplateFault, Warn, check, evaluate, truth
from noetl.expressions.follow import part_of, path_of, path_text, select_parts
from noetl.expressions.limits import Broken
from noetl.expressions.names import names_optional, names_used, value_at, values_read
from noetl.expressions.output import BeginQuoting, NoQuoting, QuotedText, Quoting
from noetl.expressions.places import inside, pieces, place_of_name, rename_chain

__all__ = [
    "Absence",
    "BeginQuoting",
    "Broken",
    "NoQuoting",
    "QuotedText",
    "Quoting",
    "TemplateFault",
    "Warn",
    "check",
    "describe_absence",
    "evaluate",
    "evaluate_at",
    "inside",
    "names_optional",
    "names_used",
    "part_of",
    "path_of",
    "path_text",
    "pieces",
    "place_of_name",
    "rename_chain",
    "select_parts",
    "sentence",
    "texts_compared",
    "truth",
    "value_at",
    "values_read",
]
