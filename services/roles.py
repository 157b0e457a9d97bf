"""The database roles of the contexts, for `frontrow db roles`."""

from collections.abc import Mapping
from pathlib import Path

import asyncpg

from libs.common import database_passwords, database_roles
from services.migrate import CONTEXTS
from services.place import Refused
from services.settings import ProcessSettings


class RolesRefused(Refused):
    """Say why the roles weren't made."""


def passwords(path: Path) -> dict[str, str]:
    """Return the roles' passwords in a file (`passwords_in`). Raises RolesRefused, OSError."""
    try:
        return database_passwords.passwords_in(path, CONTEXTS)
    except database_passwords.UnusablePasswords as error:
        raise RolesRefused(str(error)) from error


def hand_out(folder: Path, known: Mapping[str, str]) -> None:
    """Write each context's password alone to `folder/<context>/database.pgpass`. Raises OSError."""
    database_passwords.hand_out(folder, CONTEXTS, known)


def script(known: Mapping[str, str] | None) -> str:
    """Return the statements that make the roles."""
    return database_roles.script(CONTEXTS, known)


async def apply(known: Mapping[str, str] | None) -> None:
    """Make the roles in the database of FRONTROW_DATABASE_URL. Raises RolesRefused, OSError."""
    url = ProcessSettings().database_url
    if not url:
        raise RolesRefused(
            "the embedded PostgreSQL has its roles by itself; for another one set FRONTROW_DATABASE_URL to "
            "its database, as the role that owns it"
        )
    try:
        await database_roles.apply(url, CONTEXTS, known)
    except asyncpg.PostgresError as error:
        hint = getattr(error, "hint", None)
        raise RolesRefused(f"PostgreSQL refused: {error}" + (f"\n{hint}" if hint else "")) from error
