"""Where the database and the objects of this place are: given by settings, else in the data folder."""

from pathlib import Path

from libs.common.postgres import EmbeddedPostgres
from libs.common.settings import role_of
from services.migrate import CONTEXTS


def embedded_postgres(data_dir: Path) -> EmbeddedPostgres:
    """Return the PostgreSQL of a data folder, which lets us in as the role of each context."""
    return EmbeddedPostgres(data_dir / "postgres", roles=[role_of(name) for name in CONTEXTS])
