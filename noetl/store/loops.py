"""The `loop_run` table: which indices of a loop were handed out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Column, bindparam, case, delete, exists, false, not_, select, true, update

from noetl.errors import Conflict, NoetlError
from noetl.store import codec
from noetl.store.commands import CLOSED
from noetl.store.schema.executions import execution
from noetl.store.schema.work import command, loop_run
from noetl.store.session import SqlTable, text_or_none, upserts, value_or_none
from noetl.usecases.ports import LoopRow

_c = loop_run.c
_its = (_c.execution_id == bindparam("id"), _c.run_id == bindparam("run"))

_columns: Final[Sequence[Column[Any]]] = (
    _c.generation,
    _c.next_index,
    _c["count"],
    _c.open,
    _c["items"],
    _c.indices,
    _c.size,
)
_one = select(*_columns).where(*_its)
_taken: Final[Sequence[Column[Any]]] = (_c.next_index, _c.size, _c.indices)
#: One blind update: whoever holds the row gets the indices that end at the new `next_index`.
_take = (
    update(loop_run)
    .where(*_its, _c.generation == bindparam("its_generation"), _c.open == true(), _c.next_index < _c.size)
    .values(next_index=_c.next_index + bindparam("wanted"))
    .returning(*_taken)
)
#: Whoever took the last indices may have moved `next_index` beyond them: new ones begin where it
#: should be.
_extend = (
    update(loop_run)
    .where(*_its, _c.generation == bindparam("its_generation"))
    .values(
        next_index=case((_c.next_index > _c.size, _c.size), else_=_c.next_index),
        size=_c.size + bindparam("more"),
        count=_c["count"] + bindparam("more"),
    )
)
_listed = update(loop_run).where(*_its).values(indices=bindparam("all_indices"))
_close = update(loop_run).where(*_its).values(open=false())
_close_all = (
    update(loop_run).where(_c.execution_id == bindparam("id"), _c.open == true()).values(open=false())
)
_left_behind = (
    select(_c.execution_id)
    .distinct()
    .join_from(loop_run, execution, execution.c.execution_id == _c.execution_id)
    .where(
        execution.c.ended_at.is_not(None),
        not_(exists().where(command.c.execution_id == _c.execution_id, command.c.state != CLOSED)),
    )
    .order_by(_c.execution_id)
    .limit(bindparam("limit"))
)
_delete_of = delete(loop_run).where(_c.execution_id == bindparam("id"))


def _is_of_later_generation(new: Any) -> Any:
    return _c.generation < new.generation


_save = upserts(loop_run, [one.name for one in loop_run.c if not one.primary_key], _is_of_later_generation)


class SqlLoops(SqlTable):
    """`noetl.usecases.ports.Loops`."""

    def save(self, row: LoopRow) -> None:
        """Raises Conflict where the generation is not a later one."""
        values = {column.name: getattr(row, column.name) for column in loop_run.c}
        values["execution_id"] = codec.number(row.execution_id)
        values |= {"indices": text_or_none(row.indices), "items": text_or_none(row.items)}
        self._session.sure(_save[self._session.dialect], values, lambda: self._not_later(row))

    def _not_later(self, row: LoopRow) -> NoetlError | None:
        known = self.get(row.execution_id, row.run_id)
        if known is None or known.generation < row.generation:
            return None
        return Conflict(
            f"The loop of {row.run_id} in execution {row.execution_id} is at generation {row.generation} or "
            "later."
        )

    def get(self, execution_id: str, run_id: str) -> LoopRow | None:
        values = {"id": codec.number(execution_id), "run": run_id}
        found = self._session.read(_one, values).first()
        if found is None:
            return None
        generation, next_index, count, is_open, items, indices, size = found
        handed_out = min(next_index, size)
        left = None if indices is None else tuple(codec.loads(indices))
        return LoopRow(
            execution_id, run_id, generation, handed_out, count, is_open, value_or_none(items), left
        )

    def take(self, execution_id: str, run_id: str, generation: int, count: int) -> tuple[int, ...]:
        if count < 1:
            return ()
        values = {
            "id": codec.number(execution_id),
            "run": run_id,
            "its_generation": generation,
            "wanted": count,
        }
        found = self._session.write(_take, values).first()
        if found is None:
            return ()
        end, size, indices = found
        taken = range(end - count, min(end, size))
        return tuple(taken) if indices is None else tuple(codec.loads(indices)[taken.start : taken.stop])

    def extend(self, execution_id: str, run_id: str, generation: int, more: int) -> LoopRow:
        its = {"id": codec.number(execution_id), "run": run_id}
        self._session.sure(
            _extend,
            {**its, "its_generation": generation, "more": more},
            lambda: Conflict(
                f"The loop of {run_id} in execution {execution_id} is not at generation {generation}."
            ),
        )
        row = self.get(execution_id, run_id)
        assert row is not None, "it was just changed"
        if row.indices is None:
            return row
        row = replace(row, indices=(*row.indices, *range(row.count - more, row.count)))
        self._session.later(_listed, {**its, "all_indices": text_or_none(row.indices)})
        return row

    def close(self, execution_id: str, run_id: str) -> None:
        self._session.later(_close, {"id": codec.number(execution_id), "run": run_id})

    def close_all(self, execution_id: str) -> None:
        self._session.later(_close_all, {"id": codec.number(execution_id)})

    def left_behind(self, limit: int) -> list[str]:
        return [str(number) for number in self._session.read(_left_behind, {"limit": limit}).scalars()]

    def delete_of(self, execution_id: str) -> None:
        self._session.later(_delete_of, {"id": codec.number(execution_id)})
