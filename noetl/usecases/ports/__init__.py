"""What the use cases need of the world: a store, a dispatcher, a result store, tools, a clock.

A store is a set of small ports, one for each table, that share a transaction. Every port has one
contract suite in `tests/contract` that all its implementations pass.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from noetl.usecases.ports.audit import Audit, AuditEntry, AuditFilter
from noetl.usecases.ports.business_keys import BusinessKeys, NamedKey
from noetl.usecases.ports.cached import CachedResults, CachedRow, CallLock, CallSite
from noetl.usecases.ports.commands import CommandRow, Commands, CommandStanding
from noetl.usecases.ports.conditions import Condition
from noetl.usecases.ports.correlations import (
    REMEMBERED,
    CorrelatedWait,
    Correlation,
    Correlations,
    KeptSignal,
)
from noetl.usecases.ports.credentials import CredentialRow, Credentials, CredentialScope, credential_key
from noetl.usecases.ports.dead_letters import DeadLetters
from noetl.usecases.ports.dispatcher import Dispatcher
from noetl.usecases.ports.events import EventFilter, Events
from noetl.usecases.ports.executions import (
    ENDED,
    Descent,
    DueExecutions,
    ExecutionRow,
    Executions,
    ExecutionStatus,
    Mark,
    RunRow,
    Tally,
)
from noetl.usecases.ports.idempotency import IdempotencyKeys, KeyOwner
from noetl.usecases.ports.library import Library, PlaybookFile
from noetl.usecases.ports.logs import Logs
from noetl.usecases.ports.loops import LoopRow, Loops
from noetl.usecases.ports.nets import Nets
from noetl.usecases.ports.operations import (
    ItemState,
    OperationItem,
    OperationKind,
    OperationRow,
    Operations,
    OperationStatus,
)
from noetl.usecases.ports.playbooks import PlaybookHead, PlaybookRow, Playbooks
from noetl.usecases.ports.queues import QueuedCommand, QueueDepth, Queues
from noetl.usecases.ports.results import Results
from noetl.usecases.ports.slots import HeldSlots, Pause, PausedKind, paused_step
from noetl.usecases.ports.snapshots import Snapshot, Snapshots
from noetl.usecases.ports.store import Store, Transaction, Watch
from noetl.usecases.ports.tokens import TokenRow, Tokens
from noetl.usecases.ports.workers import WorkerRow, Workers

#: Aware, UTC.
Clock = Callable[[], datetime]

__all__ = [
    "ENDED",
    "REMEMBERED",
    "Audit",
    "AuditEntry",
    "AuditFilter",
    "BusinessKeys",
    "CachedResults",
    "CachedRow",
    "CallLock",
    "CallSite",
    "Clock",
    "CommandRow",
    "CommandStanding",
    "Commands",
    "Condition",
    "CorrelatedWait",
    "Correlation",
    "Correlations",
    "CredentialRow",
    "CredentialScope",
    "Credentials",
    "DeadLetters",
    "Descent",
    "Dispatcher",
    "DueExecutions",
    "EventFilter",
    "Events",
    "ExecutionRow",
    "ExecutionStatus",
    "Executions",
    "HeldSlots",
    "IdempotencyKeys",
    "ItemState",
    "KeptSignal",
    "KeyOwner",
    "Library",
    "Logs",
    "LoopRow",
    "Loops",
    "Mark",
    "NamedKey",
    "Nets",
    "OperationItem",
    "OperationKind",
    "OperationRow",
    "OperationStatus",
    "Operations",
    "Pause",
    "PausedKind",
    "PlaybookFile",
    "PlaybookHead",
    "PlaybookRow",
    "Playbooks",
    "QueueDepth",
    "QueuedCommand",
    "Queues",
    "Results",
    "RunRow",
    "Snapshot",
    "Snapshots",
    "Store",
    "Tally",
    "TokenRow",
    "Tokens",
    "Transaction",
    "Watch",
    "WorkerRow",
    "Workers",
    "credential_key",
    "paused_step",
]
