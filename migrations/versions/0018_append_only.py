"""The database refuses to change or delete events.

Revision 0018, after 0017. Expands only: programs of the revision before only append as well.
"""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

REFUSAL = "events are append-only: a row of the log is neither changed nor deleted"
TRIGGERS = {"UPDATE": "event_refuses_update", "DELETE": "event_refuses_delete"}
FUNCTION = f"""\
CREATE OR REPLACE FUNCTION refuse_change_of_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'integrity_constraint_violation';
END $$"""


def upgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        body = f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    else:
        body = "FOR EACH ROW EXECUTE FUNCTION refuse_change_of_event()"
        op.execute(FUNCTION)
    for word, name in TRIGGERS.items():
        op.execute(f"CREATE TRIGGER {name} BEFORE {word} ON event {body}")


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
