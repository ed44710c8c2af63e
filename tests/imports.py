"""Who imports whom, among the files of NoETL, of its benchmarks, and of its tests.

Grimp reads the imports of NoETL, a few lines those of the rest, where conftests are imported by all
beside and below them. What is imported by its name counts as well: a module that a text names, and
what setup.cfg lists under the group of entry points that a text names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from configparser import ConfigParser
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

PRODUCT = "noetl"
READ_HERE = ("benchmarks", "tests")
#: Who imports one of these may start, import or read whatever there is of the product.
REACHES_ALL = ("subprocess", "tests/zygote.py", "runpy", "importlib", "pkgutil", "ast")
#: Folders whose tests do so by fixtures of theirs.
REACH_ALL = ("tests/acceptance/", "tests/browser/", "tests/docs/")
#: What these start, or read, is not the product.
PREPARE = ("tests/conftest.py", "tests/services.py", "tests/remains.py", "tests/house/")
#: Stands for all prose.
PROSE = "docs/"

_NAMES = re.compile(rf"""["']({PRODUCT}(?:\.\w+)+)\b""")
_READS_PROSE = re.compile(r"""["'/]docs["'/].*\.(?:md|json)\b""")


@dataclass(frozen=True)
class Imports:
    """By file: what it imports. Files go by their path below the root."""

    of: Mapping[str, set[str]]
    #: Modules that are found by their names.
    by_name: set[str] = field(default_factory=set)

    def reaching(self, files: set[str]) -> set[str]:
        """The files themselves, and whatever imports one of them, directly or not."""
        importers = dict[str, set[str]]()
        for file, imported in self.of.items():
            for one in imported:
                importers.setdefault(one, set()).add(file)
        return _follow(files, importers)

    def reached_from(self, file: str) -> set[str]:
        """The file itself, and whatever it imports, directly or not."""
        return _follow({file}, self.of)


def _follow(files: set[str], edges: Mapping[str, set[str]]) -> set[str]:
    found, todo = set(files), list(files)
    while todo:
        new = edges.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return found


def read(root: Path) -> Imports:
    """The imports of all files below a root."""
    modules = _modules(root)
    of = _product(modules)
    files = {
        path.relative_to(root).as_posix(): path for top in READ_HERE for path in (root / top).rglob("*.py")
    }
    known = of.keys() | files.keys()
    fixtures = _fixtures(files["tests/conftest.py"])
    for file, path in files.items():
        of[file] = _imported(file, path.read_text(encoding="utf-8"), known, fixtures)
    points, by_name = _entry_points(root / "setup.cfg"), set[str]()
    for file in known:
        named = _NAMES.findall((root / file).read_text(encoding="utf-8"))
        found = {modules[one] for name in named for one in points.get(name, {name}) if one in modules}
        of[file] |= found
        by_name |= found if file in modules.values() else set()
    everything = {file for file in known if not file.startswith("tests/")}
    of |= {name: of.get(name, set()) | everything for name in REACHES_ALL}
    by_name |= {modules[name] for names in points.values() for name in names}
    return Imports(of, by_name)


def _modules(root: Path) -> dict[str, str]:
    """The modules of the product, and their files."""
    found = {}
    for path in (root / PRODUCT).rglob("*.py"):
        file = path.relative_to(root)
        parts = file.parent.parts if file.name == "__init__.py" else file.with_suffix("").parts
        found[".".join(parts)] = file.as_posix()
    return found


def _product(modules: Mapping[str, str]) -> dict[str, set[str]]:
    # Installed for the tests, and of no use to a run of all of them.
    import grimp

    graph = grimp.build_graph(PRODUCT, cache_dir=None, exclude_type_checking_imports=True)
    found = {}
    for module, file in modules.items():
        imported = graph.find_modules_directly_imported_by(module) if module in graph.modules else set()
        found[file] = {modules[one] for one in imported | {module.rpartition(".")[0]} if one in modules}
    return found


def _entry_points(config: Path) -> dict[str, set[str]]:
    """The modules of each group."""
    setup = ConfigParser()
    setup.read(config, encoding="utf-8")
    return {
        group: set(re.findall(r"=\s*([\w.]+):?", lines))
        for group, lines in setup["options.entry_points"].items()
    }


def _fixtures(conftest: Path) -> set[str]:
    """Names of what the conftest of all tests hands out."""
    tree = ast.parse(conftest.read_text(encoding="utf-8"))
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef) and one.decorator_list}


def _imported(file: str, text: str, known: set[str], fixtures: set[str]) -> set[str]:
    nodes = list(ast.walk(ast.parse(text)))
    folders = ["" if str(folder) == "." else f"{folder}/" for folder in PurePosixPath(file).parents]
    found = {one for name, level in _names(nodes) for one in _resolve(name, level, folders, known)}
    conftests = {f"{folder}conftest.py" for folder in folders} & known
    if not any(isinstance(node, ast.arg) and node.arg in fixtures for node in nodes):
        # The one of all tests matters to those that use what it hands out.
        conftests.discard("tests/conftest.py")
    found |= conftests
    if file.startswith(REACH_ALL):
        found.add("subprocess")
    if file.startswith("tests/docs/") or _READS_PROSE.search(text):
        found.add(PROSE)
    return found - {file} - (set(REACHES_ALL) if file.startswith(PREPARE) else set())


def _names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """What is imported, and the number of dots before it. `from a import b` may mean `a.b`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((one.name, 0) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = f"{node.module}." if node.module else ""
            yield from ((f"{start}{one.name}", node.level) for one in node.names)
            yield start.rstrip("."), node.level


def _resolve(name: str, level: int, folders: Sequence[str], known: set[str]) -> Iterator[str]:
    """The files that a name may mean. One without dots before it is looked for beside the file and
    in the folders above, which conftests put on the path."""
    if not level and (top := name.split(".")[0]) in REACHES_ALL:
        yield top
    path = name.replace(".", "/")
    for folder in folders[level - 1 : level] if level else folders:
        yield from {f"{folder}{path}.py", f"{folder}{path}/__init__.py"} & known
