"""`noetl doctor`: is everything here that NoETL needs, and does it answer?"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import distributions, packages_distributions

import click

from noetl import __version__, bootstrap
from noetl.cli.access import describe_tokens
from noetl.cli.callbacks import describe_callbacks
from noetl.cli.console import as_json_option, json_out
from noetl.cli.stack_settings import find_redis
from noetl.config import Settings, find_meant
from noetl.dispatch.deployer import read as read_deployed
from noetl.errors import ConfigError, NoetlError
from noetl.facts.distribution import DISTRIBUTION
from noetl.facts.json import JsonMap
from noetl.store import migrate
from noetl.store.installation import show_database
from noetl.tools.code.runner.sandbox import trouble
from noetl.tools.kit.registry import kinds as installed_kinds
from noetl.tools.kit.registry import load_errors
from noetl.usecases.health import SEEN
from noetl.usecases.work.leases import measure_skew

_BROKER_ADVICE = "Check NOETL_BROKER_URL, and that the broker runs; or unset it: `noetl up` brings its own."
#: Dead letters that are looked at.
LETTERS = 100

#: Clocks may disagree by a lease divided by this.
CLOCK_PART = 10

_DATABASE_ADVICE = "Check NOETL_DATABASE_URL (or the file in NOETL_HOME), and that the server runs."


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing that was looked at. `advice` says what to do where it is not fine."""

    name: str
    ok: bool
    detail: str
    advice: str = ""


def _python(_: Settings) -> DoctorFinding:
    is_new_enough = sys.version_info >= (3, 11)
    detail = f"{platform.python_version()}, noetl {__version__}"
    return DoctorFinding("python", is_new_enough, detail, "Use Python 3.11 or newer.")


def _package(_: Settings) -> DoctorFinding:
    """Another distribution that brings a package `noetl` has written over files of this one, or
    will."""
    owners = {
        *packages_distributions().get("noetl", ()),
        *(one.name for one in distributions(name="noetl")),
    } - {DISTRIBUTION}
    if not owners:
        return DoctorFinding("package", True, "noetl belongs to noetl-celery alone")
    names = " ".join(sorted(owners))
    return DoctorFinding(
        "package",
        False,
        f"{names} brings a package noetl as well, and files of one may lie over those of the other",
        f"Run `pip uninstall {names}`, then install NoETL again with --force-reinstall, from where it came.",
    )


def _home(settings: Settings) -> DoctorFinding:
    home = settings.home_dir
    place = next(one for one in (home, *home.parents) if one.exists())
    ok = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    detail = str(home) if place.is_dir() else f"{home} (where {place} is a file)"
    return DoctorFinding("home", ok, detail, "Set NOETL_HOME to a directory that can be written.")


def _database(settings: Settings) -> DoctorFinding:
    shown = show_database(settings.database, settings.database_schema)
    try:
        with bootstrap.read_database(settings) as tx:
            if tx is None:
                is_named = bool(settings.database_url)
                detail = f"{shown} ({'does not exist' if is_named else 'made on first use'})"
                return DoctorFinding("database", not is_named, detail, "Run `noetl db upgrade`.")
            tx.playbooks.newest()
        pending = migrate.check(settings.database, settings.database_schema)
    except NoetlError as error:
        return DoctorFinding("database", False, error.message, _DATABASE_ADVICE)
    return DoctorFinding("database", not pending, "; ".join(pending) or shown, "Run `noetl db upgrade`.")


def dead_letters(settings: Settings) -> list[JsonMap]:
    """Messages that were refused, newest first. Raises NoetlError where the database cannot be
    read."""
    with bootstrap.read_database(settings) as tx:
        return [] if tx is None else tx.dead_letters.newest(LETTERS)


def _messages(settings: Settings) -> DoctorFinding:
    """Refused messages are no fault of this machine: they are reported, and nothing is missing."""
    try:
        letters = dead_letters(settings)
    except NoetlError:
        return DoctorFinding("messages", True, "what was refused is in the database, which cannot be read")
    if not letters:
        return DoctorFinding("messages", True, "none was refused")
    count = f"{LETTERS} or more" if len(letters) == LETTERS else str(len(letters))
    last = f"the last at {letters[0]['recorded_at']} from {letters[0]['source']}"
    return DoctorFinding("messages", True, f"{count} refused, {last} (`noetl doctor --letters`)")


def _settings(settings: Settings) -> DoctorFinding:
    """About names: values that cannot be used were reported before."""
    unknown = settings.unread()
    if not unknown:
        return DoctorFinding("settings", True, "as in docs/operations.md, all names known")
    near = find_meant(unknown[0])
    hint = f" Did you mean {near}?" if near else ""
    return DoctorFinding(
        "settings", False, f"nothing reads {', '.join(unknown)}", f"Unset what is not needed.{hint}"
    )


def _celery(settings: Settings) -> DoctorFinding:
    """The deployer's settings of Celery, and whether they contradict NoETL's."""
    try:
        bootstrap.check_celery(settings)
        deployed = read_deployed()
    except ConfigError as error:
        return DoctorFinding("celery", False, error.message, "See celeryconfig.py in docs/operations.md.")
    if not deployed.path:
        return DoctorFinding("celery", True, "NoETL's own settings")
    return DoctorFinding("celery", True, f"{deployed.path} lies over NoETL's settings, and contradicts none")


def _broker(settings: Settings) -> DoctorFinding:
    if not settings.broker_url:
        server = find_redis()
        none = "none: `noetl up` uses the filesystem (slower); a redis-server on PATH is better"
        return DoctorFinding("broker", True, f"{server}, started by `noetl up`" if server else none)
    shown = settings.broker_url.rsplit("@", 1)[-1]
    if not _celery(settings).ok:
        advice = "Mend first what stands at celery, above."
        return DoctorFinding("broker", False, f"{shown} was not asked", advice)
    try:
        bootstrap.ping_broker(settings)
    except NoetlError as error:
        return DoctorFinding("broker", False, f"{shown}: {error.message}", _BROKER_ADVICE)
    return DoctorFinding("broker", True, f"{shown} answers")


def _tools(_: Settings) -> DoctorFinding:
    kinds = sorted(installed_kinds())
    if faults := load_errors():
        return DoctorFinding("tools", False, " ".join(faults), "Mend that package, or uninstall it.")
    return DoctorFinding(
        "tools", bool(kinds), ", ".join(kinds), "Install noetl so that its entry points are found."
    )


def _clocks(settings: Settings) -> DoctorFinding:
    """Leases, timers and schedules go by the database's clock. What code of tasks reads, and what
    services outside compare (tokens, certificates), is the machine's."""
    if not settings.database_url:
        return DoctorFinding("clocks", True, "the database is a file of this machine")
    try:
        skews = _measure_skews(settings)
    except NoetlError:
        return DoctorFinding("clocks", True, "not compared: the database cannot be read")
    most = settings.lease_s / CLOCK_PART
    wrong = [
        f"{name} {abs(skew):.1f} s {'ahead' if skew > 0 else 'behind'}"
        for name, skew in skews
        if abs(skew) > most
    ]
    if not wrong:
        return DoctorFinding("clocks", True, f"within {most:g} s of the database's, {len(skews)} compared")
    return DoctorFinding(
        "clocks",
        False,
        f"beside the database's clock: {', '.join(wrong)} (at most {most:g} s, a tenth of NOETL_LEASE_S)",
        "Let NTP set the clocks of these hosts, and of the database's.",
    )


def _measure_skews(settings: Settings) -> list[tuple[str, float]]:
    """By how many seconds the clocks of this machine and of the workers are ahead. Raises
    NoetlError."""
    with bootstrap.read_database(settings) as tx:
        if tx is None:
            return []
        here = measure_skew(tx, bootstrap.now)
        seen = tx.workers.alive((tx.now() or bootstrap.now()) - SEEN)
    found = [("this machine", here), *((row.name, row.skew_s) for row in seen)]
    return [(name, skew) for name, skew in found if skew is not None]


def _sandbox(settings: Settings) -> DoctorFinding:
    """It is missing only where user code has to run in one."""
    why = trouble()
    if not why:
        return DoctorFinding(
            "sandbox", True, "bubblewrap works: python and shell tasks may ask for spec.isolation: sandbox"
        )
    needed = settings.python_isolation == "sandbox"
    advice = "Install bubblewrap where user namespaces are allowed, or set NOETL_PYTHON_ISOLATION=process."
    return DoctorFinding("sandbox", not needed, f"none ({why})", advice)


def _files(settings: Settings) -> DoctorFinding:
    """Roots say little where code in a process of the same user reads what it likes."""
    if not settings.file_roots:
        return DoctorFinding(
            "files", True, "no roots: see Files in docs/operations.md for what tasks may name"
        )
    if missing := [root for root in settings.file_roots if not root.is_dir()]:
        return DoctorFinding(
            "files", False, f"there is no directory {missing[0]}", "Make it, or change NOETL_FILE_ROOTS."
        )
    below = f"below {', '.join(map(str, settings.file_roots))}"
    if settings.python_isolation == "sandbox":
        return DoctorFinding("files", True, below)
    return DoctorFinding(
        "files",
        False,
        f"{below}, but python and shell tasks run in a process and read all that this user can",
        "Set NOETL_PYTHON_ISOLATION=sandbox: roots hold the tools that name files, and code is held "
        "by a sandbox alone.",
    )


def _tokens(settings: Settings) -> DoctorFinding:
    return DoctorFinding("tokens", *describe_tokens(settings))


def _callbacks(settings: Settings) -> DoctorFinding:
    return DoctorFinding("callbacks", *describe_callbacks(settings))


CHECKS: tuple[Callable[[Settings], DoctorFinding], ...] = (
    _python,
    _package,
    _settings,
    _home,
    _database,
    _celery,
    _broker,
    _clocks,
    _messages,
    _tools,
    _tokens,
    _callbacks,
    _sandbox,
    _files,
)


@click.command(epilog="Example: noetl doctor")
@as_json_option
@click.option("--letters", is_flag=True, help="List the messages that were refused, newest first.")
@click.pass_context
def doctor(ctx: click.Context, as_json: bool, letters: bool) -> None:
    """Check what NoETL needs on this machine. Exit code 1 where something is missing."""
    settings = Settings.from_env()
    if letters:
        _show_letters(dead_letters(settings), as_json=as_json)
        return
    found = [check(settings) for check in CHECKS]
    findings = [replace(one, advice="") if one.ok else one for one in found]
    if as_json:
        json_out([asdict(one) for one in findings])
        findings = []
    for one in findings:
        mark = click.style("ok  ", fg="green") if one.ok else click.style("miss", fg="red")
        click.echo(f"{mark} {one.name}: {one.detail}")
        if one.advice:
            click.echo(f"     {one.advice}")
    ctx.exit(0 if all(one.ok for one in found) else 1)


def _show_letters(letters: list[JsonMap], *, as_json: bool) -> None:
    if as_json:
        json_out(letters)
        return
    for letter in letters:
        click.echo(f"{letter['recorded_at']} {letter['source']}: {letter['reason']}\n    {letter['body']}")
