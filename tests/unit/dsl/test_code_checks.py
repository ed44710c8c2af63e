"""Names in python code that nothing defines, and where templates stand in it."""

from __future__ import annotations

import pytest

from noetl.dsl.code_names import undefined_names
from noetl.dsl.code_templates import templates_between
from noetl.dsl.python_syntax import Fault, parsed

#: Code, and the names in it that nothing defines with the input `given`, each with its line.
NAMES = {
    "result = given + missing": [("missing", 1)],
    "x = 1\nresult = x": [],
    "result = later\nlater = 1": [("later", 1)],
    "x = x + 1": [("x", 1)],
    "x += 1": [("x", 1)],
    "given = given + 1": [],
    "def f():\n    return later\nlater = 1\nresult = f()": [],
    "def f():\n    return g()\nresult = f()": [("g", 2)],
    "def f():\n    global made\n    made = 1\nf()\nresult = made": [],
    "result = [x for x in range(3) if x > y]": [("y", 1)],
    "result = {k: v for k, v in given.items()}": [],
    "class A:\n    n = 1\n    def f(self):\n        return n": [("n", 4)],
    "try:\n    maybe\nexcept NameError:\n    maybe = 1": [],
    "try:\n    maybe\nexcept ValueError:\n    pass": [("maybe", 2)],
    "from math import *\nresult = sqrt(4)": [],
    "exec('a = 1')\nresult = a": [],
    "import os.path as p, csv\nresult = [p, csv, os]": [("os", 2)],
    "for i in range(3):\n    pass\nresult = i": [],
    "if (n := 3) and n:\n    result = n": [],
    "with open(__name__) as f, g() as h:\n    result = f, h": [("g", 1)],
    "match given:\n    case {'a': q, **rest}:\n        result = q, rest\n    case [a, *b]:\n        result = a, b": [],
    "result = f'{given} {nobody}'": [("nobody", 1)],
    "def main(a, *b, c=other, **d):\n    return a, b, c, d": [("other", 1)],
    "return given + nothing": [("nothing", 1)],
    "lambda a: a + outer": [("outer", 1)],
}

#: Code, and how many templates in it stand outside of literals and comments.
TEMPLATES = {
    "result = list(range({{ n }}))": 1,
    "{% for x in y %}\na(x)\n{% endfor %}": 2,
    "result = '{{ n }}'": 0,
    "result = '''\n{{ n }}\n''' + f'{{ n }}' + \"{% x %}\"": 0,
    "# {{ n }} and {% if x %}\nresult = {'a': {'b': 1}}": 0,
    "result = {{ n | default('x') }}": 1,
    "result = {k: {v: 1} for k, v in {}.items()}": 0,
    "result = '{{ a }}' + {{ b }}": 1,
    "{{ whole }}": 1,
    "result = ({{ a }}": 1,
}


def test_names_that_nothing_defines_are_found_and_no_others() -> None:
    wrong = {}
    for code, expected in NAMES.items():
        tree = parsed(code)
        assert not isinstance(tree, Fault), code
        found = [(one.name, one.line) for one in undefined_names(code, tree, {"given"})]
        if found != expected:
            wrong[code] = found
    assert wrong == {}


@pytest.mark.parametrize("code", TEMPLATES)
def test_templates_are_told_from_literals_and_comments(code: str) -> None:
    assert len(templates_between(code).code) == TEMPLATES[code]
