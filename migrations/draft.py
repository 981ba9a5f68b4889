"""Drafts a revision: `python -m migrations.draft "what it does"`.

Compares the registry's tables with a database at the newest revision, writes the difference as a new file, and copies
the views, triggers and audiences beside it, so that the revision never reads files that later change.
"""

import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

HERE = Path(__file__).parent


def draft(message: str) -> None:
    """Writes `versions/<date>_<slug>.py`, `views/<revision>/`, `triggers/<revision>/` and `audiences/<revision>.sql`."""
    import registry.schema.audiences
    import registry.schema.triggers
    import registry.schema.views
    import registry.tables

    now = datetime.now(UTC)
    slug = "_".join(message.lower().split())
    revision = f"{now:%Y%m%d%H%M}"
    config = Config()
    config.set_main_option("script_location", str(HERE))
    config.set_main_option("path_separator", "os")
    config.set_main_option("file_template", f"{now:%Y%m%d_%H%M}_{slug}")
    with tempfile.TemporaryDirectory() as folder:
        engine = create_engine(f"sqlite:///{folder}/draft.db")
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            config.attributes["target_metadata"] = registry.tables.Base.metadata
            command.revision(config, message=message, rev_id=revision, autogenerate=True)
    frozen = HERE / "views" / revision
    frozen.mkdir(parents=True)
    for file in Path(registry.schema.views.__file__).parent.glob("*.sql"):
        shutil.copy(file, frozen)
    triggers = HERE / "triggers" / revision
    triggers.mkdir(parents=True)
    for file in Path(registry.schema.triggers.__file__).parent.glob("*.sql"):
        shutil.copy(file, triggers)
    (frozen / "order.txt").write_text("\n".join(registry.schema.views.VIEWS) + "\n")
    audiences = HERE / "audiences" / f"{revision}.sql"
    audiences.parent.mkdir(exist_ok=True)
    audiences.write_text("\n;\n".join(registry.schema.audiences.postgresql_statements()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    draft(" ".join(sys.argv[1:]))
