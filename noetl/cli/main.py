"""`noetl`: the commands, found by name and imported when they are used."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from noetl import __version__
from noetl.cli.complaints import complain
from noetl.errors import NoetlError

#: Command → (module:attribute, what it does). Modules are imported only for the command that runs.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("noetl.cli.run:run", "Run a playbook here, without a server or a broker."),
    "up": ("noetl.cli.up:up", "Start the whole stack on this machine."),
    "validate": ("noetl.cli.check:validate", "Check playbooks and explain every problem."),
    "graph": ("noetl.cli.check:graph", "Draw a playbook as Mermaid or DOT."),
    "schema": ("noetl.cli.check:schema", "Print the JSON Schema of playbooks."),
    "catalog": ("noetl.cli.catalog:catalog", "Register playbooks and look them up."),
    "execution": ("noetl.cli.execution:execution", "Look at executions and steer them."),
    "credential": ("noetl.cli.credential:credential", "Keep credentials, encrypted."),
    "db": ("noetl.cli.db:db", "Create, upgrade and check the database."),
    "server": ("noetl.cli.services:server", "Run the REST API."),
    "scheduler": ("noetl.cli.services:scheduler", "Run the scheduler."),
    "worker": ("noetl.cli.services:worker", "Run a worker for some queues."),
    "sweeper": ("noetl.cli.services:sweeper", "Run the sweeper."),
    "doctor": ("noetl.cli.doctor:doctor", "Check what NoETL needs on this machine."),
}


class Commands(click.Group):
    """A group that knows its commands before their modules are imported."""

    def __init__(self, **attributes: Any) -> None:
        # Click suggests the nearest of `commands` for a name that it does not find.
        super().__init__(commands={name: click.Command(name) for name in COMMANDS}, **attributes)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: noetl run examples/hello.yaml",
)
@click.version_option(__version__, prog_name="noetl")
def noetl() -> None:
    """Durable workflows from YAML playbooks: every step is in the log, every run can be resumed."""


def main(argv: Sequence[str] | None = None) -> None:
    """The console script. Exit codes: 0 fine, 1 failed, 2 wrong input, 3 waiting, 130 interrupted."""
    try:
        code = noetl.main(args=None if argv is None else list(argv), prog_name="noetl", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Interrupted.", err=True)
        code = 130
    except KeyboardInterrupt:
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except BrokenPipeError:
        # The reader of our output (`head`, a pager) has gone: nothing is left to say, and to nobody.
        sys.stderr.close()
        code = 0
    except NoetlError as error:
        code = complain(error)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
