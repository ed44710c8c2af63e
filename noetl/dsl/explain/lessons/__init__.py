"""What each code means, why it matters, and how to do better: `docs/diagnostics.md` and `noetl
validate --explain`.

Imports the rest of `dsl`, which does not import it.
"""

from __future__ import annotations

from collections.abc import Mapping

from noetl.dsl.explain.lessons import flow, names, structure, text
from noetl.dsl.explain.lessons.lesson import Lesson, whole
from noetl.dsl.problems import Code

LESSONS: Mapping[Code, Lesson] = {**text.LESSONS, **structure.LESSONS, **names.LESSONS, **flow.LESSONS}

__all__ = ["LESSONS", "Lesson", "whole"]
