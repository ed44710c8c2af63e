"""`noetl` and `python -m noetl`: the command, from the first moment on."""

from __future__ import annotations

import signal


def main() -> None:
    """The console script. Whoever presses Ctrl-C while modules are still imported is shown no
    traceback of theirs."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from noetl.collector import pause_collector

    with pause_collector():
        from noetl.cli.main import main as command

    signal.signal(signal.SIGINT, usual)
    command()


if __name__ == "__main__":
    main()
