"""The queue of a run: what the step's says, rendered once, when it is scheduled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from noetl.engine.inputs import Inputs
from noetl.engine.run_state import Run
from noetl.errors import TemplateError
from noetl.expressions import evaluate
from noetl.net.model import Transition

#: Names that can be handed to workers: a comma would be two of them.
_NAME: Final = re.compile(r"[^\s,{}]{1,200}")


def render_queue(step: Transition, names: Mapping[str, Any], inputs: Inputs) -> str:
    """What the template of its queue comes to; empty where that is no template. Raises
    TemplateError."""
    queue = evaluate(step.queue, names, load=inputs.load) if step.calls else step.queue
    if queue == step.queue:
        return ""
    if not isinstance(queue, str) or _NAME.fullmatch(queue) is None:
        raise TemplateError(
            f"spec.queue: `{step.queue}` comes to {queue!r:.60}, which is no name of a queue; "
            "write one without blanks and commas, such as python or quantum.sim.",
            step.queue,
        )
    return queue


def queue_of(step: Transition, run: Run) -> str:
    """Where the commands of the run go."""
    return run.queue or step.queue
