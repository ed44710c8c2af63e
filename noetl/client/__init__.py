"""The Python client of NoETL's REST API. It knows nothing but HTTP: `Client` sends with requests,
`AsyncClient` (in `noetl.client.aio`) with httpx, which the extra `async` installs; what they send
and how they read it is one core.

May import `facts` and `errors`, and nothing else of NoETL.
"""

from noetl.client.model import (
    BatchItem,
    Event,
    EventPage,
    ExecutionFailed,
    LogChunk,
    LogPage,
    Registered,
    Result,
    ResultPage,
    Started,
)
from noetl.client.sync import Client

__all__ = [
    "BatchItem",
    "Client",
    "Event",
    "EventPage",
    "ExecutionFailed",
    "LogChunk",
    "LogPage",
    "Registered",
    "Result",
    "ResultPage",
    "Started",
]
