"""${message}.

Revision ${up_revision}, after ${down_revision or "nothing"}.

The rules: expand - migrate - contract.
1. Expand: add tables, nullable columns, indexes. The code of the release before must keep working on it.
2. Migrate: fill in batches that commit by themselves; never one statement over a whole large table.
3. Contract: drop or tighten only what no release that may still run reads or writes, one release later.
On PostgreSQL, build indexes on `event`, `execution` and `command` CONCURRENTLY, in an autocommit block.
Every constraint and index has a name. `event` rows are never changed: old payloads are upcast when read.
After adding a revision, change `HEAD` in `noetl/store/schema/database.py` and the tables beside it likewise.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}

revision = "${up_revision}"
down_revision = ${f'"{down_revision}"' if down_revision else None}
branch_labels = None
depends_on = None


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
