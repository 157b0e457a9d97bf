"""Make a cluster: its files, its locale, and who may come in."""

import asyncio
import contextlib
import os
import secrets
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from libs.common.child import command, kill
from libs.common.postgres_place import Account, Binaries, PostgresUnavailable

ROLE = "frontrow"
"""The role that owns the cluster: its superuser."""


def environment(account: Account) -> dict[str, str]:
    """Return an environment of PostgreSQL's own: the caller's LANG or PGDATA must change nothing."""
    return {"PATH": "/usr/bin:/bin", "HOME": account.home, "LC_ALL": "C", "TZ": "UTC"}


def _locale_flags(major: int) -> list[str]:
    """Return initdb's locale flags: order by bytes, letters of all scripts.

    Without a UTF-8 ``lc-ctype`` pg_trgm finds no letters in Chinese, and ``lower()`` knows ASCII alone.
    """
    ctype = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
    flags = ["--encoding=UTF8", "--locale=C", f"--lc-ctype={ctype}"]
    if major >= 18:
        return [*flags, "--locale-provider=builtin", "--builtin-locale=PG_UNICODE_FAST"]
    if major == 17:
        return [*flags, "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return flags


async def initialise(cluster: Path, binaries: Binaries, account: Account) -> None:
    """Make a new cluster beside its place and move it there, so that a half made one is never used."""
    draft = cluster.with_name(f"{cluster.name}.new-{secrets.token_hex(4)}")
    draft.mkdir(mode=0o700, parents=True)
    try:
        if account.switch is not None:
            os.chown(draft, account.uid, account.gid)
        await _run_initdb(draft, binaries, account)
        _move_into_place(draft, cluster)
    except BaseException:  # a stop that is asked for meanwhile leaves nothing behind, either
        shutil.rmtree(draft, ignore_errors=True)
        raise


async def _run_initdb(draft: Path, binaries: Binaries, account: Account) -> None:
    flags = [*_locale_flags(binaries.major), f"--username={ROLE}", "--auth=peer", "--no-instructions"]
    process = await asyncio.create_subprocess_exec(
        *command([binaries.program("initdb"), "-D", str(draft), *flags], user=account.switch),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={name: value for name, value in environment(account).items() if name != "LC_ALL"},
        cwd="/",
        start_new_session=True,
    )
    try:
        said, _ = await process.communicate()
    finally:
        await kill(process)
    if process.returncode != 0:
        text = said.decode("utf-8", errors="replace").strip()
        raise PostgresUnavailable(f"initdb failed for {draft.parent}: {text[-2000:]}")


def _move_into_place(draft: Path, cluster: Path) -> None:
    """Rename the finished cluster; an empty folder in its place is taken over, another is an error."""
    with contextlib.suppress(FileNotFoundError):
        cluster.rmdir()
    draft.rename(cluster)


def write_access_rules(cluster: Path, account: Account, roles: Sequence[str]) -> None:
    """Let exactly our user and PostgreSQL's own in, by the kernel's word on who connects; no passwords.

    They may come in as the owner of the cluster and as each of ``roles``.
    """
    callers = sorted({account.name, "root"}) if account.switch else [account.name]
    rules = {
        "pg_hba.conf": "local all all peer map=frontrow\n",
        "pg_ident.conf": "".join(
            f'frontrow "{name}" {role}\n' for name in callers for role in (ROLE, *roles)
        ),
    }
    for name, text in rules.items():
        (cluster / name).write_text(text)
