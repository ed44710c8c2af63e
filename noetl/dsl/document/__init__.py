"""The document model: what a playbook may look like, before it means anything.

Types only. Everything that must be there or must fit together is the compiler's business, so that
one wrong value never hides the other faults. Unknown keys are kept (`model_extra`).
"""

from __future__ import annotations

from noetl.dsl.document.arcs import Arc, Destination, Router
from noetl.dsl.document.base import (
    DocumentPart,
    Names,
    Template,
    canonical_keys,
    is_older,
    known_keys,
    spellings_of,
)
from noetl.dsl.document.classic import Classic, Sink
from noetl.dsl.document.inputs import InputDeclaration
from noetl.dsl.document.policies import (
    Admit,
    AdmitRule,
    Allow,
    Defaults,
    ElseAllow,
    ElseThen,
    FailurePolicy,
    Policy,
    PolicyRule,
    Then,
    Tolerate,
)
from noetl.dsl.document.root import Cursor, Document, Executor, Loop, Metadata, NamedTask, Requires, Step
from noetl.dsl.document.rules import Action, NamedActions, Rule
from noetl.dsl.document.specs import (
    CallSpec,
    ClaimSpec,
    ExecutorSpec,
    FrameSpec,
    JoinSpec,
    LoopSpec,
    NextSpec,
    ResultSpec,
    SelectSpec,
    SizeThreshold,
    StepSpec,
    TaskSpec,
    is_result,
)
from noetl.dsl.document.tools import Assert, Collect, NextCall, Pagination, Repeat, TaskLoop, Tool
from noetl.dsl.document.trials import (
    Expectation,
    ExpectedCall,
    PlaybookTest,
    StandIn,
    StandInError,
    TrialFile,
)

__all__ = [
    "Action",
    "Admit",
    "AdmitRule",
    "Allow",
    "Arc",
    "Assert",
    "CallSpec",
    "ClaimSpec",
    "Classic",
    "Collect",
    "Cursor",
    "Defaults",
    "Destination",
    "Document",
    "DocumentPart",
    "ElseAllow",
    "ElseThen",
    "Executor",
    "ExecutorSpec",
    "Expectation",
    "ExpectedCall",
    "FailurePolicy",
    "FrameSpec",
    "InputDeclaration",
    "JoinSpec",
    "Loop",
    "LoopSpec",
    "Metadata",
    "NamedActions",
    "NamedTask",
    "Names",
    "NextCall",
    "NextSpec",
    "Pagination",
    "PlaybookTest",
    "Policy",
    "PolicyRule",
    "Repeat",
    "Requires",
    "ResultSpec",
    "Router",
    "Rule",
    "SelectSpec",
    "Sink",
    "SizeThreshold",
    "StandIn",
    "StandInError",
    "Step",
    "StepSpec",
    "TaskLoop",
    "TaskSpec",
    "Template",
    "Then",
    "Tolerate",
    "Tool",
    "TrialFile",
    "canonical_keys",
    "is_older",
    "is_result",
    "known_keys",
    "spellings_of",
]
