"""The examples of the reference of the language as documents: which keys of which parts they
use."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml
from pages import HEADER, LANGUAGE, language

from noetl.dsl import document as parts
from noetl.dsl.document import Document, DocumentPart, classic
from noetl.dsl.read.source import read

#: Section of the reference → the parts of the document whose keys its tables list, all of them.
REFERENCE: dict[str, tuple[type[parts.DocumentPart], ...]] = {
    "Document": (parts.Document,),
    "Inputs": (parts.InputDeclaration,),
    "Key": (parts.BusinessKey,),
    "Provides": (parts.Provides,),
    "Metadata": (parts.Metadata,),
    "Executor": (parts.Executor, parts.Requires, parts.ExecutorSpec),
    "Step": (parts.Step, parts.StepSpec),
    "Milestones": (parts.MilestoneSpec,),
    "Compensation": (parts.CompensateSpec,),
    "Regions": (parts.RegionSpec,),
    "Task": (parts.Tool, parts.TaskSpec, parts.CallSpec),
    "Pagination": (parts.Pagination,),
    "Repeat": (parts.Repeat, parts.NextCall, parts.Collect),
    "Loops of tasks": (parts.TaskLoop,),
    "Results": (parts.ResultSpec, parts.SelectSpec),
    "Tests": (parts.PlaybookTest,),
    "Stand-ins": (parts.StandIn, parts.StandInError),
    "Expectations": (parts.Expectation, parts.ExpectedCall),
    "Workbook": (parts.NamedTask,),
    "Cache": (parts.CacheSpec,),
    "Assert": (parts.Assert,),
    "Policy": (parts.Policy,),
    "Rules": (parts.PolicyRule, parts.Then),
    "Retry": (parts.TaskRetry,),
    "Admission": (parts.Admit, parts.Allow),
    "Failure": (parts.FailurePolicy, parts.Tolerate),
    "Retry of the execution": (parts.ExecutionRetry,),
    "Loop": (parts.Loop, parts.LoopSpec),
    "Enough": (parts.Enough,),
    "Cursor": (parts.Cursor, parts.ClaimSpec, parts.FrameSpec),
    "Next": (parts.Router, parts.NextSpec, parts.Arc),
    "Arcs that wait": (parts.ArcWait, parts.ArcSignal),
    "Join": (parts.JoinSpec,),
    "Limits": (parts.ConcurrencySpec, parts.RateSpec),
}

#: The same, of the page about dialects.
OF_DIALECTS: dict[str, tuple[type[parts.DocumentPart], ...]] = {
    "Cases": (classic.CaseRule, classic.CaseThen, classic.Target),
    "Sinks": (classic.Sink,),
    "Retries": (
        classic.Retry,
        classic.RetryThen,
        classic.RetryCall,
        classic.RetryCollect,
        classic.PerIteration,
    ),
    "Tasks of the playbook": (parts.NamedActions,),
    "Rules of steps": (parts.Rule, parts.Destination),
}
OF_RULES = {parts.NamedActions, parts.Rule, parts.Destination}
#: Parts that hold nothing but what another one is wrapped in.
WRAPPERS = {
    *(parts.DocumentPart, parts.Classic, parts.Sink, parts.ElseThen, parts.ElseAllow, parts.AdmitRule),
    *(parts.Defaults, parts.SizeThreshold),
    # A test is in the file what it is in the playbook.
    parts.TrialFile,
}

_ROOT = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "workflow": [{"step": "start"}]}
_FENCE = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def as_playbook(example: str) -> str:
    """A whole playbook of an example: of one that is whole, of a list of steps, or of root keys."""
    if re.search(r"^workflow:", example, re.MULTILINE):
        return example
    if example.startswith("- "):
        return HEADER + example
    return yaml.safe_dump({**_ROOT, **yaml.safe_load(example)})


def examples(title: str) -> list[str]:
    """The whole playbooks of the examples of a section."""
    return [as_playbook(text) for text in _FENCE.findall(language()[title] + "\n")]


def used(part: type[DocumentPart], title: str) -> set[str]:
    """The keys of `part`, as documents write them, that examples of the section use."""
    found: set[str] = set()
    for text in examples(title):
        document = Document.model_validate(read(text, LANGUAGE).data)
        for one in _parts(document):
            if isinstance(one, part):
                fields = type(one).model_fields
                found |= {fields[name].alias or name for name in one.model_fields_set if name in fields}
    return found


def _parts(value: object) -> Iterator[DocumentPart]:
    """Every part in `value`, itself included."""
    match value:
        case DocumentPart():
            yield value
            for name in type(value).model_fields:
                yield from _parts(getattr(value, name))
        case dict():
            for inner in value.values():
                yield from _parts(inner)
        case list():
            for inner in value:
                yield from _parts(inner)
