"""A public class has a name of its own: a reader who meets it knows which package it is of."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import noetl

ROOT = Path(noetl.__file__).parent
#: The public classes of a module, told by their first lines.
CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
#: What a document says and what the net has of it are the same thing twice.
DOCUMENT_AND_NET = {"AdmitRule", "Arc", "Loop", "Repeat", "Rule"}
#: What the API answers, what its client reads, and what both show.
ON_THE_WIRE = {"BatchItem", "Event", "EventPage", "LogChunk", "LogPage", "Problem"}
#: A task in a document; and the class that packages of others import, as they do the messages of
#: `noetl.testing`, beside which the tool of that name is found by its own.
KEPT_FOR_PACKAGES_OF_OTHERS = {"Message", "Tool"}


def test_no_public_class_has_the_name_of_one_in_another_package() -> None:
    packages = defaultdict[str, set[str]](set)
    for file in ROOT.rglob("*.py"):
        for name in CLASS.findall(file.read_text(encoding="utf-8")):
            packages[name].add(str(file.parent.relative_to(ROOT)))
    several = {name for name, found in packages.items() if len(found) > 1}
    assert several - DOCUMENT_AND_NET - ON_THE_WIRE - KEPT_FOR_PACKAGES_OF_OTHERS == set()
    assert several >= DOCUMENT_AND_NET | ON_THE_WIRE | KEPT_FOR_PACKAGES_OF_OTHERS
