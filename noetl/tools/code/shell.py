"""kind: shell - runs commands in a separate process group; a status other than zero is an error."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator, model_validator

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo, Outcome, failed, succeeded
from noetl.net.model import Spelling
from noetl.pipeline.model import Call
from noetl.tools.code import user_code
from noetl.tools.code.runner.requests import RunnerReply, ShellRequest
from noetl.tools.kit import effects
from noetl.tools.kit.base import Services, Tool
from noetl.tools.kit.declaration import ToolConfig, ToolDeclaration

#: Bytes of stdout and of stderr that a result keeps.
KEPT = 1024 * 1024
_BASH: Final = "/bin/bash"
#: A text ends at the first command in it that fails, also where that stands in a pipe.
_STOPS: Final = ("-e", "-o", "pipefail")
#: Longest line of stderr that an error message repeats, in characters.
LONGEST_LINE = 500


class ShellConfig(ToolConfig):
    """Configuration of a shell task: one of `command`, `argv`, `commands`."""

    command: str | None = Field(default=None, description="A line or script for the shell.")
    argv: list[str] | None = Field(
        default=None, description="A program with its arguments, run as they are: nothing in them is special."
    )
    commands: list[str | list[str]] | None = Field(
        default=None, description="Commands (lines, or programs with arguments) run in order until one fails."
    )
    env: dict[str, user_code.EnvValue] = Field(
        default_factory=dict,
        description="Environment variables beside PATH, HOME, the locale, and those of "
        "NOETL_PYTHON_ENV_ALLOW.",
    )
    cwd: str | None = Field(
        default=None, description="Working directory; relative ones start at the playbook's directory."
    )
    stdin: str | None = Field(default=None, description="Text that the commands read as standard input.")

    @field_validator("command", mode="before")
    @classmethod
    def _is_a_line(cls, value: object) -> object:
        if isinstance(value, list):
            raise ValueError("a list of words is `argv`, a list of commands is `commands`")
        return value

    @model_validator(mode="after")
    def _one_of(self) -> ShellConfig:
        given = [name for name in ("command", "argv", "commands") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"only one of {' and '.join(given)} may be given")
        return self


class Shell(Tool):
    """Runs commands in a separate process group; what is still running when they have ended is
    ended too. Texts are read by bash, or by sh where there is no bash.

    What a template puts into `command` or `commands` is quoted: the shell reads it as the text that
    it is, whatever stands in it. By itself a value is one word; between quotes, single or double,
    it goes on with them, so that `echo "{{ name }}"` and `echo {{ name }}` print the same. Null is
    no word, an empty text is one. A value where a shell may read it as code whatever the quotes
    (behind `$`, in backticks, in `$((…))`) fails the task unless it is harmless. `{{ options | safe
    }}` puts in a value as a part of the command, `spec.quote: false` all of them, and a `command`
    that is one template is used as it is. What a command hands to another shell (`bash -c "…"`,
    `ssh`, `eval`) is read there again, unquoted: use `argv`, `env` or `stdin`.

    A text fails at the first command in it that does (`set -e`), and a pipe where any of its
    commands does (`set -o pipefail`, of bash). Behind `|| true`, and in the condition of an `if`,
    a command may fail; so may one that writes to a reader that has seen enough (`… | head -1`) with
    `|| [ $? = 141 ]` behind it. `spec.errexit: false` runs a text to its end, whose last command
    then counts.

    Bash's `${#list[@]}` is read as bash reads it: `${#` begins no comment of a template.

    Commands start in the playbook's directory ([files](../operations.md#files)); `$SCRATCH` and
    `$TMPDIR` are a directory of the call. `spec.isolation: sandbox` is that of
    [python](python.md) tasks: there the playbook's directory can only be read.

    A command that is cancelled gets SIGTERM, with all that it runs, and is killed 5 seconds later
    (sooner, where `NOETL_CANCEL_GRACE_S` is less) if it has not ended: a `trap` can tidy up. At its
    deadline it is killed at once."""

    declaration = ToolDeclaration(
        kind="shell",
        queue="shell",
        sections=("shell",),
        effects="external",
        error_kind="shell",
        description="Runs shell commands in separate processes, with a deadline.",
        result="`{exit_code, stdout, stderr}`, with `truncated: true` where more than 1 MiB was written.",
        errors="""
            A status other than 0 is an error of kind `shell`; `error.status` is the status, and
            `outcome.shell` the result as above.
        """,
        example="""
            - step: count
              tool:
                kind: shell
                command: printf '%s' {{ workload.text }} | wc -w
              next: end
            - step: end
              tool: {kind: noop, input: {words: "{{ count.stdout | trim | int }}"}}
        """,
        config_model=ShellConfig,
        spellings={"cmds": Spelling("commands")},
        required=(("command", "argv", "commands"),),
        quoted=("command", "commands"),
        # Nets that were stored before do not say it: there a text ends with its last command.
        defaults={"errexit": True},
    )

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._runners = user_code.Runners(services)

    def run(self, call: Call, config: ShellConfig) -> Outcome:
        isolation = user_code.isolation(self.services, call.spec)
        if isolation == "inline":
            raise ToolError(
                "client_error", "A command runs in a separate process: spec.isolation cannot be inline."
            )
        request = ShellRequest(
            commands=_commands(config, stops=call.spec.get("errexit") is True),
            env=user_code.environment(config.env),
            cwd=self._directory(call, config.cwd),
            stdin=config.stdin,
            owner=call.where.owner,
            limits=user_code.limits(self.services, call.spec, KEPT),
        )
        reply = user_code.ask(
            self._runners.of(isolation, self.services.files_of(call)),
            request,
            self.deadline(call),
            token=call,
        )
        if reply.status != "ok":
            return user_code.failure(reply, "shell", "The command")
        return _outcome(reply, several=len(request.commands) > 1)

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:
        program = effects.first(config, "argv")
        lines = effects.as_list(effects.first(config, "command", "commands"))
        commands = lines if program is None else [program]
        return tuple(
            effects.one_line(" ".join(map(str, one)) if isinstance(one, list | tuple) else one)
            for one in commands
        )

    def _directory(self, call: Call, cwd: str | None) -> str | None:
        start = self.services.files_of(call).start
        if cwd is None:
            return None if start is None else str(start)
        # Not held to the rule for files: commands may go wherever the sandbox, or the user, lets
        # them.
        path = Path(cwd)
        if not path.is_absolute() and start is None:
            raise ToolError("client_error", f"cwd '{cwd}' is relative, and this playbook has no directory.")
        return str(path if start is None else start / path)

    def interrupt(self, call: Call) -> None:
        self._runners.interrupt(call)

    def close(self) -> None:
        self._runners.close()


def _commands(config: ShellConfig, *, stops: bool) -> list[list[str]]:
    given = config.commands or [config.argv or config.command or ""]
    for number, one in enumerate(given, 1):
        if not one or not one[0]:
            raise ToolError("client_error", f"Command {number} of the shell task is empty.")
        if any("\0" in argument for argument in one):
            raise ToolError("client_error", f"Command {number} of the shell task contains a NUL character.")
    # Not every sh knows `pipefail`.
    shell = [_BASH, *_STOPS] if stops else [_BASH]
    if not Path(_BASH).exists():
        shell = ["/bin/sh", "-e"] if stops else ["/bin/sh"]
    return [[*shell, "-c", one] if isinstance(one, str) else one for one in given]


def _outcome(reply: RunnerReply, *, several: bool) -> Outcome:
    code = reply.value["exit_code"]
    status = code if code >= 0 else 128 - code
    stdout, stderr = user_code.shown_text(reply.stdout), user_code.shown_text(reply.stderr)
    result = {"exit_code": status, "stdout": stdout, "stderr": stderr}
    meta: dict[str, Json] = {
        k: v for k, v in user_code.printed_text(reply).items() if k not in ("stdout", "stderr")
    }
    if "truncated" in meta:
        result["truncated"] = True
    if reply.stdout.truncated:
        meta["warnings"] = [
            f"`stdout` is cut: the task wrote {reply.stdout.size:,} bytes, more than a result holds; let it "
            "write them into a file."
        ]
    if status == 0:
        return succeeded(result, meta)
    which = f"Command {reply.value['command'] + 1}" if several else "The command"
    lines = stderr.strip().splitlines()
    last = f": {lines[-1].strip()[:LONGEST_LINE]}" if lines else "."
    message = f"{which} {_ending(status)}{last}"
    # Killed from outside, mostly because the machine's memory ran out: another attempt may help.
    killed = status == 128 + signal.SIGKILL
    error = ErrorInfo("shell", message, type="ExitStatus", status=status, retryable=killed)
    return failed(error, meta, shell=result)


def _ending(status: int) -> str:
    if status > 128:
        try:
            return f"ended with exit status {status} ({signal.Signals(status - 128).name})"
        except ValueError:
            pass  # a status that it chose, and no signal's
    return f"ended with exit status {status}"
