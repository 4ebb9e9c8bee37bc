"""${message}

There is no way back: an older program finds the copy that was made before the upgrade.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    op.execute("INSERT INTO schema_release (revision, release) VALUES ('${up_revision}', '<OLDEST_RELEASE of tables.py>')")
    ${upgrades if upgrades else "pass"}
