"""The database as a whole: the tables of all subjects, and the revision that has them.

`metadata` knows a table when its module has been imported. Whoever creates, compares or empties all
tables imports it from here; whoever reads or writes one imports that one from where it stands.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

from noetl.store.schema import access, catalog, executions, operations, results, waiting, work
from noetl.store.schema.columns import metadata

__all__ = ["HEAD", "SUBJECTS", "metadata"]

#: The newest revision in `noetl.migrations`.
HEAD: Final = "0018"
#: The modules in which the tables stand.
SUBJECTS: Final[tuple[ModuleType, ...]] = (
    access,
    catalog,
    executions,
    operations,
    results,
    waiting,
    work,
)
