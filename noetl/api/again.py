"""Running an execution again, and from an earlier moment on."""

from __future__ import annotations

from noetl.api.answers import Descendant, MigrationAnswer, RetryAnswer
from noetl.api.bodies import ForkBody, MigrateBody, RetryBody
from noetl.api.context import services
from noetl.api.executions import links
from noetl.api.groups import group
from noetl.api.permissions import check_text
from noetl.api.requests import ExecutionPath, RetryQuery
from noetl.api.starts import directories_of
from noetl.facts.json import Json
from noetl.usecases import catalog, fork, migrate, retry
from noetl.usecases.fork import ForkRequest
from noetl.usecases.migrate import MigrateRequest
from noetl.usecases.ports import ExecutionRow
from noetl.usecases.retry import NEWEST, RetryRequest
from noetl.usecases.runtime import Runtime

api = group("again", "/api/executions", "Executions that run others again, or go on from them")


@api.post(
    "/<execution_id>/retry", responses={200: RetryAnswer, 202: Descendant}, operation_id="execution_retry"
)
def retry_execution(path: ExecutionPath, query: RetryQuery, body: RetryBody) -> tuple[dict[str, Json], int]:
    """Run an ended execution again

    What it recorded stands in for calls that nothing has changed for: code, values read, and names
    of credentials. With `dry_run` the answer is the plan, and nothing is started. Where calls with
    effects would be made again that may have had one, `confirm` says that this is meant, else 409.
    """
    rt = services().rt
    wanted = retry_request(rt, path.execution_id, body, confirmed=query.confirm)
    if query.dry_run:
        return dict(retry.plan(rt, wanted).as_json()), 200
    return _descendant(retry.retry(rt, wanted)), 202


def retry_request(rt: Runtime, execution_id: str, body: RetryBody, *, confirmed: bool) -> RetryRequest:
    """What the body asks for; the text of a playbook in it is registered. Raises BadRequest,
    PlaybookInvalid."""
    version = NEWEST if body.version == "latest" else body.version
    path = None
    if body.playbook is not None:
        registered = catalog.register(rt, body.playbook, check=check_text)
        path, version = registered.path, registered.version
    return RetryRequest(
        execution_id,
        body.from_step,
        "" if body.iterations is None else body.iterations,
        body.payload,
        body.overrides,
        version,
        path,
        directories_of(body.directories),
        confirmed=confirmed,
    )


@api.post("/<execution_id>/fork", responses={202: Descendant}, operation_id="execution_fork")
def fork_execution(path: ExecutionPath, body: ForkBody) -> tuple[dict[str, Json], int]:
    """Go on from an earlier moment, as another execution

    Its log begins with that of this one up to the version `at`, or the moment before a step. Calls
    that were on their way are made anew, with keys of their own.
    """
    wanted = ForkRequest(path.execution_id, body.at, body.before, body.patch)
    return _descendant(fork.fork(services().rt, wanted)), 202


@api.post(
    "/<execution_id>/migrate",
    responses={200: MigrationAnswer, 202: Descendant},
    operation_id="execution_migrate",
)
def migrate_execution(
    path: ExecutionPath, query: RetryQuery, body: MigrateBody
) -> tuple[dict[str, Json], int]:
    """Let an open execution that waits go on under another version

    It ends, and another one goes on: what it recorded stands as for a retry, what was assigned in
    its ctx counts, and what it holds has to be the same in that version. With `dry_run` the answer
    is the plan with its `obstacles`; where there are some, it stays as it is (409).
    """
    rt = services().rt
    version, of_path = body.version if isinstance(body.version, int) else NEWEST, None
    if body.playbook is not None:
        registered = catalog.register(rt, body.playbook, check=check_text)
        of_path, version = registered.path, registered.version
    wanted = MigrateRequest(
        path.execution_id, version, of_path, directories_of(body.directories), confirmed=query.confirm
    )
    if query.dry_run:
        return dict(migrate.plan(rt, wanted).as_json()), 200
    return _descendant(migrate.migrate(rt, wanted)), 202


def _descendant(row: ExecutionRow) -> dict[str, Json]:
    return {
        "execution_id": row.execution_id,
        "status": row.status,
        "source_id": row.source_id,
        "descent": row.descent,
        "links": links(row.execution_id),
    }
