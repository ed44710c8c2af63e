"""What a vendor's machine can be asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime

from noetl.errors import ToolError
from noetl.quantum.model import Capabilities, CircuitRun, Estimate, JobState, Samples


class MaybeSubmitted(ToolError):
    """An order was sent and its answer never came: there may be a job, and there may be none."""


class RemoteBackend(ABC):
    """A vendor's machine. One job is one order. Every method is one or a few short requests and
    none of them waits for the job or tries again by itself: the task is called again
    (`noetl.pipeline.model.Later`). Raises ToolError, retryable where another try may help."""

    #: Whether `find` can tell what was submitted. Where it cannot, an order whose answer got lost
    #: is not sent again, unless the author would rather pay twice (`resubmits`).
    finds: bool = True
    resubmits: bool = False
    #: How long after a submission, in seconds, `find` may still miss its job.
    settle_s: float = 10.0

    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @abstractmethod
    def estimate(self, orders: Sequence[CircuitRun]) -> Estimate: ...

    @abstractmethod
    def submit(self, order: CircuitRun, token: str) -> JobState:
        """Sends the order with `token`, by which `find` finds it again. Raises MaybeSubmitted where
        it is not known whether there is a job now; any other error means that there is no job."""

    @abstractmethod
    def find(self, tokens: Sequence[str], since: datetime) -> Mapping[str, Sequence[JobState]]:
        """The jobs that were submitted with these tokens since then, by token, the oldest first."""

    @abstractmethod
    def poll(self, job_id: str) -> JobState: ...

    def look(self, job_ids: Sequence[str]) -> Mapping[str, JobState]:
        """How some jobs stand, by id: those that could be asked for in a few requests."""
        return {one: self.poll(one) for one in job_ids[:8]}

    @abstractmethod
    def fetch(self, job_id: str, order: CircuitRun) -> Samples:
        """What a job that is done measured."""

    @abstractmethod
    def cancel(self, job_id: str) -> JobState:
        """Cancels a job that has not ended; of one that has, says how it stands."""


def answer_error(name: str, what: str) -> ToolError:
    """An answer that the vendor's documentation does not know: a later one may be right."""
    return ToolError("server_error", f"{name}: {what}.", retryable=True, type="UnexpectedAnswer")
