"""`noetl`: the commands, found by name and imported when they are used."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from noetl import __version__
from noetl.cli.complaints import INTERRUPTED, hush, report_error
from noetl.collector import pause_collector

#: Command → (module:attribute, what it does). Modules are imported only for the command that runs.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("noetl.cli.run:run", "Run a playbook here, without a server or a broker."),
    "up": ("noetl.cli.up:up", "Start the whole stack on this machine."),
    "down": ("noetl.cli.up:down", "Stop the stack that runs on this home."),
    "status": ("noetl.cli.status:status", "Say whether NoETL runs here, where, and how it is."),
    "validate": ("noetl.cli.check:validate", "Check playbooks and explain every problem."),
    "test": ("noetl.cli.trials:test", "Run the tests of playbooks, with stand-ins for their calls."),
    "plan": ("noetl.cli.plan:plan", "Show what a playbook would do and touch, without running it."),
    "migrate": ("noetl.cli.migrate:migrate", "Rewrite a playbook in the canonical form."),
    "graph": ("noetl.cli.check:graph", "Draw a playbook as Mermaid or DOT."),
    "schema": ("noetl.cli.check:schema", "Print the JSON Schema of playbooks."),
    "catalog": ("noetl.cli.catalog:catalog", "Register playbooks and look them up."),
    "open": ("noetl.cli.browse:open_page", "Show pages of executions in a browser."),
    "execution": ("noetl.cli.execution:execution", "Look at executions and steer them."),
    "approvals": ("noetl.cli.approvals:approvals", "List what people are asked to approve."),
    "signal": ("noetl.cli.execution_signal:signal_about", "Tell whoever waits for it something."),
    "operation": ("noetl.cli.operation:operation", "Follow what is done to many executions at once."),
    "sql": ("noetl.cli.sql:sql", "Ask the log in SQL."),
    "export": ("noetl.cli.sql:export", "Write the log as tables: Parquet, JSON lines, ClickHouse."),
    "result": ("noetl.cli.result:result", "Look into large results, and clear them away."),
    "limits": ("noetl.cli.limits:limits", "Show who has slots and who waits; pause keys and queues."),
    "cache": ("noetl.cli.cache:cache", "Look at results that stand in for equal calls."),
    "credential": ("noetl.cli.credential:credential", "Keep credentials, encrypted."),
    "token": ("noetl.cli.token:token", "Give people and programs tokens."),
    "whoami": ("noetl.cli.whoami:whoami", "Say who commands are to a server."),
    "audit": ("noetl.cli.audit:audit", "Show who did what, and when."),
    "tool": ("noetl.cli.tool:tool", "List the installed tools, explain one, try one."),
    "db": ("noetl.cli.db:db", "Create, upgrade and check the database."),
    "server": ("noetl.cli.services:server", "Run the REST API."),
    "scheduler": ("noetl.cli.services:scheduler", "Run the scheduler."),
    "worker": ("noetl.cli.services:worker", "Run a worker for some queues."),
    "sweeper": ("noetl.cli.services:sweeper", "Run the sweeper."),
    "doctor": ("noetl.cli.doctor:doctor", "Check what NoETL needs on this machine."),
}


class CommandGroup(click.Group):
    """A group that knows its commands before their modules are imported."""

    def __init__(self, **attributes: Any) -> None:
        # Click suggests the nearest of `commands` for a name that it does not find.
        super().__init__(commands={name: click.Command(name) for name in COMMANDS}, **attributes)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output (`head`, a pager) has seen enough: that is no failure.
            hush()
            return 0

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        with pause_collector():
            command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: noetl run examples/hello.yaml. The documentation is in docs/ of the source: "
    "quickstart.md to begin "
    "with, cli.md for the command, reference/README.md for the language, tools.md, operations.md; "
    "README.md lists every page. "
    "noetl tool show KIND and noetl validate --explain CODE print theirs.",
)
@click.version_option(__version__, prog_name="noetl")
def noetl() -> None:
    """Durable workflows from YAML playbooks: every step is in the log, every run can be resumed."""


def main(argv: Sequence[str] | None = None) -> None:
    """The console script. Exit codes: 0 fine, 1 failed, 2 wrong input, 3 waiting, 130
    interrupted."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal of another encoding, or a file's name that is no text, is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.exit(_run(None if argv is None else list(argv)))
    except (KeyboardInterrupt, click.exceptions.Abort):
        click.echo("Interrupted.", err=True)
        sys.exit(INTERRUPTED)
    finally:
        hush()
        if "duckdb" in sys.modules:
            # Its bindings complain on standard error of all that is left when they go.
            gc.unfreeze()
        else:
            # The interpreter collects all modules on its way out, which takes a fifth of a second:
            # the process ends, its memory is given back anyway.
            gc.freeze()


def _run(argv: list[str] | None) -> int:
    # Without NO_COLOR as the terminal can.
    color = False if os.environ.get("NO_COLOR") else None
    try:
        code = noetl.main(args=argv, prog_name="noetl", standalone_mode=False, color=color)
    except click.exceptions.Abort:
        raise
    except Exception as error:  # noqa: BLE001
        return report_error(error)
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
