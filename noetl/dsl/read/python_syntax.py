"""Python code to its syntax tree, or why it has none."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Fault:
    """Why code is no python: `line` and `column` count from 1."""

    line: int
    column: int
    message: str


@lru_cache(maxsize=32)
def parsed(code: str) -> ast.Module | Fault:
    """The syntax tree of python code, which nobody changes."""
    try:
        with warnings.catch_warnings():
            # Invalid escapes in strings warn; they are the author's business, not a problem.
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except SyntaxError as error:
        return Fault(max(error.lineno or 1, 1), max(error.offset or 1, 1), error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        return Fault(1, 1, str(error) or "nested too deeply")
