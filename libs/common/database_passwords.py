"""The passwords of the contexts' database roles: files of PGPASSFILE's form, which every client reads."""

import fcntl
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from libs.common import private_file
from libs.common.settings import role_of

OWN_FILE = "database.pgpass"
"""What a process's folder of identity calls the file with the one password that it needs."""


class UnusablePasswords(ValueError):
    """Say why a file of passwords can't be used."""


def passwords_in(path: Path, schemas: Sequence[str]) -> dict[str, str]:
    """Return the roles' passwords in a file of PGPASSFILE's form; those that it lacks are made and added.

    The file is made when there is none, readable by its owner alone.

    Raises:
        UnusablePasswords: others can read it, or a password has what clients read differently.
        OSError: it can't be read or written.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(handle, "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two at once would each make passwords of their own
        if os.fstat(handle).st_mode & 0o077:
            raise UnusablePasswords(f"others can read {path}: chmod 600 it, as PostgreSQL's clients demand")
        text = file.read()
        found = dict(filter(None, map(_entry, text.splitlines())))
        roles = [role_of(schema) for schema in schemas]
        made = {role: secrets.token_urlsafe(32) for role in roles if role not in found}
        if text and not text.endswith("\n"):
            file.write("\n")
        file.writelines(_line(role, password) for role, password in made.items())
    for role in roles:
        # libpq takes a backslash for an escape, asyncpg for itself
        if role in found and not re.fullmatch(r"[!-\[\]-~]+", found[role]):
            raise UnusablePasswords(
                f"the password of {role} in {path} must be printable ASCII without spaces and backslashes"
            )
    return {role: (found | made)[role] for role in roles}


def hand_out(folder: Path, schemas: Sequence[str], passwords: Mapping[str, str]) -> None:
    """Write each role's password to ``folder/<schema>/database.pgpass``. Raises OSError."""
    for schema in schemas:
        role = role_of(schema)
        own = folder / schema / OWN_FILE
        own.parent.mkdir(parents=True, exist_ok=True)
        private_file.write(own, _line(role, passwords[role]))


def _line(role: str, password: str) -> str:
    return f"*:*:*:{role}:{password}\n"


def _entry(line: str) -> tuple[str, str] | None:
    """Return role and password of a line ``host:port:database:role:password``; None for another line."""
    if line.startswith("#"):
        return None
    fields = re.split(r"(?<!\\):", line.strip(), maxsplit=4)
    return (fields[3], fields[4]) if len(fields) == 5 else None
