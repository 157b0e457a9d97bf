"""Which pg_dump is taken: the newest, and one that knows TLS where the database demands it."""

from pathlib import Path

import pytest

from libs.common import postgres_place
from libs.common.postgres_client import find_client
from libs.common.postgres_place import PostgresUnavailable

_WITHOUT_TLS = 'psql: error: sslmode value "require" invalid when SSL support is not compiled in'
_WITH_TLS = 'psql: error: connection to server on socket "/nowhere/.s.PGSQL.5432" failed'


def install(folder: Path, major: int, says: str) -> None:
    """Put programs into a folder that say their release, and what they know of TLS."""
    folder.mkdir()
    for program in ("pg_dump", "pg_restore", "psql"):
        script = folder / program
        script.write_text(
            f"#!/bin/sh\nif [ \"$1\" = --version ]; then echo '{program} (PostgreSQL) {major}.1'; exit; fi\n"
            f"echo '{says}' >&2; exit 2\n"
        )
        script.chmod(0o755)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the machine have the programs of a folder alone."""
    monkeypatch.setattr(postgres_place, "_WHEELS", ())
    monkeypatch.setattr(postgres_place, "_SYSTEM_GLOBS", (f"{tmp_path}/*",))
    monkeypatch.setattr(postgres_place.shutil, "which", lambda program: None)
    return tmp_path


def test_the_newest_is_taken_unless_the_database_demands_what_it_does_not_know(here: Path) -> None:
    install(here / "newest", 19, _WITHOUT_TLS)
    install(here / "newer", 18, _WITH_TLS)
    install(here / "old", 17, _WITH_TLS)
    assert find_client(15, tls=False).major == 19
    assert find_client(15, tls=True).major == 18


def test_where_none_knows_tls_it_is_said_what_to_install(here: Path) -> None:
    install(here / "newest", 19, _WITHOUT_TLS)
    with pytest.raises(PostgresUnavailable, match=r"built with TLS .*there is none.*client programs"):
        find_client(15, tls=True)
    install(here / "old", 17, _WITH_TLS)
    with pytest.raises(PostgresUnavailable, match="the newest here is 17"):
        find_client(18, tls=True)
