"""Names in python code that nothing defines, and where templates stand in it."""

from __future__ import annotations

import pytest

from noetl.dsl.checks.code_names import find_undefined_names
from noetl.dsl.read.python_code import Fault, parse_python, templates_between

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
    "match given:\n    case {'a': q, **rest}:\n        result = q, rest\n    case [a, *b]:\n        "
    "result = a, b": [],
    "result = f'{given} {nobody}'": [("nobody", 1)],
    "def main(a, *b, c=other, **d):\n    return a, b, c, d": [("other", 1)],
    "return given + nothing": [("nothing", 1)],
    "lambda a: a + outer": [("outer", 1)],
    # Read too early, or no longer there.
    "def f():\n    print(n)\n    n = 1": [("n", 2)],
    "n = 1\ndef f():\n    print(n)\n    n = 2": [("n", 3)],
    "x = 1\ndel x\nresult = x": [("x", 3)],
    "del nothing": [("nothing", 1)],
    "x: int\nresult = x": [("x", 2)],
    "try:\n    pass\nexcept ValueError as e:\n    pass\nresult = e": [("e", 5)],
    "def f(a=late): pass\nlate = 1": [("late", 1)],
    # A loop binds for its next round.
    "for i in given:\n    if i:\n        print(last)\n    last = i": [],
    "while given:\n    if given > 1:\n        result = cursor\n    cursor = 1": [],
    "def f():\n    for i in given:\n        if i: print(last)\n        last = i": [],
    "for i in given:\n    print(lsat)\n    last = i": [("lsat", 2)],
    # What is expected to be missing, or is defined unseen.
    "try:\n    maybe\nexcept:\n    maybe = 1": [],
    "try:\n    maybe\nexcept (ImportError, NameError):\n    maybe = 1": [],
    "def f():\n    try:\n        return maybe\n    except NameError:\n        return 0": [],
    "globals()['a'] = 1\nresult = a": [],
    "result = a if 'a' in dir() else 0": [],
    # Types in texts are not evaluated.
    "def f(a: 'Nope', b: list['Nope']) -> 'Nope': return a": [],
    "from __future__ import annotations\ndef f(a: Nope) -> Nope: return a": [],
    "def f(a: Nope): return a": [("Nope", 1)],
    "result = __name__, __doc__, __builtins__, __debug__": [],
    # Scopes.
    "class A:\n    m = __module__, __qualname__\n    def f(self):\n        return __class__": [],
    "class A(Base): pass": [("Base", 1)],
    "def f():\n    def g(): return h()\n    def h(): return 1\n    return g()": [],
    "def f():\n    n = 1\n    def g():\n        nonlocal n\n        n += 1\n    return g": [],
    "result = [x for x in given]\nresult = x": [("x", 2)],
    "result = [last := x for x in given]\nresult = last": [],
    "result = [a for a in b for b in given]": [("b", 1)],
    "@deco\ndef f(): pass": [("deco", 1)],
    "match given:\n    case Nope(x=1): pass": [("Nope", 2)],
    "result = f'{given:>{width}}'": [("width", 1)],
    "def f():\n    yield from nowhere": [("nowhere", 2)],
    "raise Oops": [("Oops", 1)],
    "x = " + "-" * 900 + "1": [],
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
        tree = parse_python(code)
        assert not isinstance(tree, Fault), code
        found = [(one.name, one.line) for one in find_undefined_names(tree, {"given"})]
        if found != expected:
            wrong[code] = found
    assert wrong == {}


@pytest.mark.parametrize("code", TEMPLATES)
def test_templates_are_distinguished_from_literals_and_comments(code: str) -> None:
    assert len(templates_between(code).code) == TEMPLATES[code]
