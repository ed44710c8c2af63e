"""Front ends: YAML text to a document with positions, to a Net; problems; JSON Schema.

Imports `net`, `expressions`, `facts` and `errors`. The only package that knows a dialect: dialects
are rewritten to the canonical form (`lowering`), which alone is turned into a Net (`canonical`).
"""

from __future__ import annotations

from noetl.dsl.compiler import Compiled, compile_playbook, load_playbook, net_of
from noetl.dsl.document.schema import json_schema, schema_of_tests
from noetl.dsl.problems import MEANING, Code, Problem

__all__ = [
    "MEANING",
    "Code",
    "Compiled",
    "Problem",
    "compile_playbook",
    "json_schema",
    "load_playbook",
    "net_of",
    "schema_of_tests",
]
