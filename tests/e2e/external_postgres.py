"""A PostgreSQL as operations run one: reached over TCP, and by password alone."""

import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from libs.common.postgres import EmbeddedPostgres
from libs.common.postgres_place import remove_data
from libs.common.settings import role_of

_OWNER, _DATABASE = "olga", "frontrow"
_RULES = "local all all peer map=frontrow\nhost all all 127.0.0.0/8 scram-sha-256\n"


_TABLES = {"task": "tasks", "review": "media", "asr": "live_materials", "ingest": "jobs"}


@dataclass(frozen=True)
class ExternalPostgres:
    """Its address, and the password of who owns its one, empty database.

    That is `olga`, and the superuser `frontrow`, too, where an image of PostgreSQL makes one.
    """

    host: str
    password: str
    admin_url: str

    @property
    def owner_url(self) -> str:
        """Return the database's URL with its owner's password."""
        return self.url(f"{_OWNER}:{self.password}@")

    def url(self, login: str = "") -> str:
        """Return the database's URL."""
        return f"postgresql://{login}{self.host}/{_DATABASE}"

    async def want_contexts_apart(self, passfiles: Mapping[str, Path]) -> None:
        """See that each context's server is its own role and can be no other, nor read another's tables."""
        admin = await asyncpg.connect(self.admin_url)
        rows = await admin.fetch(
            "SELECT DISTINCT split_part(application_name, '-', 2) AS context, usename FROM pg_stat_activity"
            " WHERE application_name LIKE 'frontrow-%'"
        )
        await admin.close()
        assert {(row["context"], row["usename"]) for row in rows} == {
            (one, role_of(one)) for one in passfiles
        }
        for context, passfile in passfiles.items():
            connection = await self._as_role(context, passfile)
            for owner, table in _TABLES.items():
                reading = connection.fetchval(f"SELECT count(*) FROM {owner}.{table}")
                if owner == context:
                    assert await reading >= 0
                else:
                    with pytest.raises(asyncpg.InsufficientPrivilegeError):
                        await reading
                    with pytest.raises(asyncpg.InvalidPasswordError):
                        await self._as_role(owner, passfile)
            await connection.close()

    async def _as_role(self, context: str, passfile: Path) -> "asyncpg.Connection[asyncpg.Record]":
        connection: asyncpg.Connection[asyncpg.Record]
        connection = await asyncpg.connect(self.url(f"{role_of(context)}@"), passfile=str(passfile))
        return connection


@asynccontextmanager
async def external_postgres() -> AsyncIterator[ExternalPostgres]:
    """Run one whose database's owner may make roles and is no superuser, as a managed service gives it."""
    host = f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
    with _folder() as folder:
        options = {"fsync": "off", "listen_addresses": host, "hba_file": str(folder / "hba")}
        server = EmbeddedPostgres(folder / "data", options=options)
        try:
            admin_url = await server.start()
            password = secrets.token_urlsafe(16)
            made = ExternalPostgres(host, password, admin_url)
            admin = await asyncpg.connect(admin_url)
            await admin.execute(f"CREATE ROLE {_OWNER} LOGIN CREATEROLE PASSWORD '{password}'")
            await admin.execute(f"ALTER ROLE frontrow PASSWORD '{password}'")
            await admin.execute(f"ALTER DATABASE {_DATABASE} OWNER TO {_OWNER}")
            await admin.close()
            yield made
        finally:
            await server.stop()


@contextmanager
def _folder() -> Iterator[Path]:
    """Give a folder with the rules of who may come in."""
    folder = Path(tempfile.mkdtemp(prefix="frontrow-test-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user when we are root
    (folder / "hba").write_text(_RULES)
    try:
        yield folder
    finally:
        remove_data(folder / "data")
        shutil.rmtree(folder)
