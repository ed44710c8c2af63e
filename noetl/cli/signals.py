"""Which signals a command reacts to."""

from __future__ import annotations

import signal


def not_ignored(*numbers: signal.Signals) -> tuple[signal.Signals, ...]:
    """Those of `numbers` that this process was not started to ignore.

    `nohup` has its command ignore SIGHUP, and a script's `&` SIGINT: a handler of ours would undo
    that.
    """
    return tuple(number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN)
