"""Where the database and the objects of this place are: given by settings, else in the data folder."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from libs.common import database_roles
from libs.common.objects import ObjectStore, open_url
from libs.common.objects.address import object_address
from libs.common.postgres import EmbeddedPostgres, PostgresUnavailable, url_of_running
from libs.common.settings import DatabaseSettings, role_of
from services.migrate import CONTEXTS
from services.settings import ProcessSettings, common_settings
from services.state import DataFolderInUse, lock, read_state


class Refused(Exception):
    """Say what a person asked for and can't have, and what to do about it."""


@dataclass(frozen=True)
class Place:
    """One Frontrow's data. The database's URL is its owner's, who may look into every schema."""

    database: DatabaseSettings
    store: ObjectStore
    store_url: str

    @property
    def store_address(self) -> str:
        """Return where the objects lie, without keys or options."""
        return object_address(self.store_url, "")

    async def hand_over(self) -> None:
        """Give every schema and what is in it to its role, where contexts have roles."""
        if self.database.roles:
            await database_roles.apply(self.database.url, CONTEXTS)


def embedded_postgres(data_dir: Path) -> EmbeddedPostgres:
    """Return the PostgreSQL of a data folder, which lets us in as the role of each context."""
    return EmbeddedPostgres(data_dir / "postgres", roles=[role_of(name) for name in CONTEXTS])


@asynccontextmanager
async def opened(process: ProcessSettings, *, make: bool = False) -> AsyncIterator[Place]:
    """Give the place for a `with` block, whether Frontrow runs there or not.

    The embedded PostgreSQL is started for so long when it doesn't run. With `make` there may be nothing yet,
    and Frontrow mustn't run.

    Raises:
        DataFolderInUse: `make`, and it runs.
        PostgresUnavailable: there is no database.
    """
    async with AsyncExitStack() as stack:
        if process.database_url:
            yield _place(process)
            return
        if not make and not (process.data_dir / "postgres").exists():
            raise PostgresUnavailable(
                f"there is no database in {process.data_dir}: name its folder (--data-dir, "
                "FRONTROW_DATA_DIR) or a PostgreSQL of yours (FRONTROW_DATABASE_URL)"
            )
        try:
            stack.enter_context(lock(process.data_dir))
        except DataFolderInUse:
            if make:
                raise
            yield _running(process)
            return
        postgres = embedded_postgres(process.data_dir)
        stack.push_async_callback(postgres.stop)
        url = await postgres.start()
        place = _place(process, url)
        await place.hand_over()
        yield place


def _running(process: ProcessSettings) -> Place:
    """Return the place of the instance that runs on the data folder; it knows best where its objects are."""
    url = url_of_running(process.data_dir / "postgres")
    state = read_state(process.data_dir)
    return _place(process, url, state.object_store if state is not None else "")


def _place(process: ProcessSettings, embedded_url: str = "", store: str = "") -> Place:
    common = common_settings(process, embedded_url)
    store_url = store or common.store.object_store
    return Place(common.database, open_url(store_url), store_url)
