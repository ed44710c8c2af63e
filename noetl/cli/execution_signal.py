"""`noetl execution signal` and `noetl signal`: telling executions what they wait for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from noetl.cli.address import execution_argument
from noetl.cli.console import as_json_option, complete_file, json_out, read_text
from noetl.cli.execution_control import report
from noetl.cli.process import open_runtime
from noetl.errors import BadRequest
from noetl.facts import json
from noetl.facts.durations import seconds
from noetl.facts.json import Json
from noetl.usecases import signals
from noetl.usecases.signals import SentSignal, SignalRequest


def _signal_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        as_json_option,
        click.option("--all", "everyone", is_flag=True, help="For all that wait for it now, not the oldest."),
        click.option("--expires", metavar="DURATION", help="How long it is kept for a later wait."),
        click.option("--id", "signal_id", metavar="ID", help="Of two with one id the second is nothing."),
        click.option(
            "--payload",
            metavar="JSON|TEXT|@FILE",
            shell_complete=complete_file,
            help="What is said besides the name.",
        ),
    ):
        command = option(command)
    return command


def _request(
    name: str, payload: str | None, signal_id: str | None, expires: str | None, *, everyone: bool
) -> SignalRequest:
    try:
        lifetime = None if expires is None else seconds(expires)
    except ValueError as error:
        raise BadRequest(f"--expires: {error}") from error
    return SignalRequest(name, _payload_of(payload), signal_id, lifetime, everyone)


def _payload_of(given: str | None) -> Json:
    """JSON, or what is none as text. Raises BadRequest for a file that holds none."""
    if given is None:
        return None
    is_file = given.startswith("@")
    text = read_text(Path(given[1:])) if is_file else given
    try:
        found: Json = json.loads_exactly(text)
    except (ValueError, RecursionError) as error:
        if is_file or given.lstrip()[:1] in ("{", "["):
            raise BadRequest(f"--payload is no JSON: {error}.") from error
        return given
    return found


def _view(sent: SentSignal) -> dict[str, Any]:
    return {
        "execution_id": sent.execution_id,
        "id": sent.id,
        "version": sent.version,
        "existing": sent.existing,
    }


@click.command(
    name="signal",
    short_help="Tell an execution what it waits for.",
    epilog='Example: noetl execution signal 1234567890123 payment --payload \'{"order": 7, "amount": 120}\'',
)
@execution_argument()
@click.argument("name")
@_signal_options
def signal(
    execution_id: str,
    name: str,
    payload: str | None,
    signal_id: str | None,
    expires: str | None,
    everyone: bool,
    as_json: bool,
) -> None:
    """Tell an execution NAME, which a task of `kind: wait` takes. Whether it waits yet does not
    matter."""
    request = _request(name, payload, signal_id, expires, everyone=everyone)
    with open_runtime() as rt:
        sent = signals.send_signal(rt, execution_id, request)
        if as_json:
            json_out(_view(sent))
            return
        verb = "had been sent before" if sent.existing else "is sent"
        report(rt, execution_id, f"signal {name!r} {verb}")


@click.command(
    name="signal",
    short_help="Tell whoever waits for it something about a value.",
    epilog="Example: noetl signal payment --about order-7 --payload '{\"amount\": 120}'",
)
@click.argument("name")
@click.option("--about", required=True, metavar="VALUE", help="What the waits say with `correlate`.")
@_signal_options
def signal_about(
    name: str,
    about: str,
    payload: str | None,
    signal_id: str | None,
    expires: str | None,
    everyone: bool,
    as_json: bool,
) -> None:
    """Tell NAME to the execution that waits for it about a value. Where none does it is kept for
    the first that will."""
    request = _request(name, payload, signal_id, expires, everyone=everyone)
    with open_runtime() as rt:
        own_id, sent = signals.send_about(rt, about, request)
    if as_json:
        json_out({"id": own_id, "sent": [_view(one) for one in sent]})
    elif sent:
        click.echo(f"Signal {name!r} is sent to {', '.join(one.execution_id for one in sent)}.")
    else:
        click.echo(f"Nobody waits for a signal {name!r} about {about!r} yet; it is kept for whoever will.")
