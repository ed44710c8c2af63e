"""Sandboxed, deterministic Jinja: evaluate, names_used, limits.

Imports nothing of NoETL but `facts` and `errors`. Jinja's lexer and parser read the templates; what
they mean is ours (`compiler`, `statements`), so that every step, character and attribute is counted
and checked, and nothing is executed that was not written here.
"""

from __future__ import annotations

from noetl.expressions.audit import values_read
from noetl.expressions.chains import path_of, path_text
from noetl.expressions.check import TemplateFault, check
from noetl.expressions.evaluate import Warn, evaluate, evaluate_at, sentence, truth
from noetl.expressions.follow import part_of, selected
from noetl.expressions.grammar import inside, pieces
from noetl.expressions.names import names_optional, names_used
from noetl.expressions.places import place_of_name, renamed
from noetl.expressions.quoting import BeginQuoting, NoQuoting, QuotedText, Quoting
from noetl.expressions.refusals import Broken

__all__ = [
    "BeginQuoting",
    "Broken",
    "NoQuoting",
    "QuotedText",
    "Quoting",
    "TemplateFault",
    "Warn",
    "check",
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
    "renamed",
    "selected",
    "sentence",
    "truth",
    "values_read",
]
