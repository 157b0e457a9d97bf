"""Run PostgreSQL as a child of this process: started in a moment, gone with us, data kept.

Only the programs ``initdb`` and ``postgres`` of whatever PostgreSQL is there are used. The server listens on
a Unix socket alone, knows one role that only our own user can take, and is told to stop by the kernel when
this process dies, ``kill -9`` included.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import asyncpg

from libs.common.child import command, kill
from libs.common.postgres_pidfile import pid_file_lines, wait_for_predecessor
from libs.common.postgres_place import (
    Account,
    Binaries,
    PostgresUnavailable,
    choose_account,
    find_binaries,
    place_data,
    readable_binaries,
)

__all__ = ["EmbeddedPostgres", "PostgresUnavailable", "find_binaries"]

ROLE = "frontrow"
DATABASE = "frontrow"
_PORT = 5432
_SOCKET_PREFIX = "frontrow-pg-"
_SOCKET_PATH_BYTES = 107  # sun_path's limit, less its closing NUL
_POLL_SECONDS = 0.02
_STOP_SECONDS = 20.0
_LOG_BYTES = 10 << 20


class EmbeddedPostgres:
    """One PostgreSQL cluster in ``data_dir``, made when it isn't there yet.

    ``options`` are server settings (``{"fsync": "off"}`` for throw-away tests).
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        options: Mapping[str, str] | None = None,
        start_timeout_seconds: float = 30.0,
    ) -> None:
        self._data_dir = data_dir
        self._options = dict(options or {})
        self._start_timeout_seconds = start_timeout_seconds
        self._process: asyncio.subprocess.Process | None = None
        self._sockets: Path | None = None

    async def start(self) -> str:
        """Start the server and return its URL (``postgresql://frontrow@/frontrow?host=…``).

        Called again after the server ended by itself, it starts on the same socket: the URL stays.

        Must be called in the main thread: the death signal belongs to the thread that starts the child.
        Raises PostgresUnavailable with what to do about it.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("start PostgreSQL from the main thread: it would stop with the calling thread")
        account = choose_account(self._data_dir)
        cluster = place_data(self._data_dir, account)
        version_file = cluster / "PG_VERSION"
        major = int(version_file.read_text()) if version_file.exists() else None
        binaries = readable_binaries(find_binaries(major), account)
        if major is None:
            await _initialise(cluster, binaries, account)
        _write_access_rules(cluster, account)
        if self._sockets is None:
            _remove_old_socket_folder(cluster)
            self._sockets = _make_socket_folder(account)
        (cluster / "socket_folder").write_text(str(self._sockets))
        await self._launch(cluster, binaries, account)
        await self._ensure_database()
        return self.url(DATABASE)

    def url(self, database: str) -> str:
        """Return the URL of one database of the running server."""
        if self._sockets is None:
            raise RuntimeError("PostgreSQL isn't started")
        return f"postgresql://{ROLE}@/{database}?host={quote(str(self._sockets))}&port={_PORT}"

    async def wait(self) -> int:
        """Wait till the server ends by itself, for a supervisor that must notice; return its code."""
        if self._process is None:
            raise RuntimeError("PostgreSQL isn't started")
        return await self._process.wait()

    async def stop(self) -> None:
        """Stop the server cleanly (open transactions are rolled back) and remove its socket folder."""
        process, self._process = self._process, None
        if process is not None:
            for stop_signal in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, stop_signal)  # not send_signal(): it would reap
                try:
                    await asyncio.wait_for(asyncio.shield(process.wait()), _STOP_SECONDS)
                    break
                except TimeoutError:
                    continue
        if self._sockets is not None:
            shutil.rmtree(self._sockets, ignore_errors=True)
            self._sockets = None

    async def _launch(self, cluster: Path, binaries: Binaries, account: Account) -> None:
        """Start ``postgres`` until it is ready; try again while a predecessor is still on its way out."""
        deadline = time.monotonic() + self._start_timeout_seconds
        log_path = cluster / "server.log"
        while True:
            await wait_for_predecessor(cluster, deadline)
            log_start = _rotate(log_path)
            with log_path.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *command(self._server_argv(cluster, binaries), signal=signal.SIGINT, user=account.switch),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=_environment(account),
                    cwd="/",
                    start_new_session=True,  # Ctrl-C is for the supervisor, which stops us last
                )
            if await self._became_ready(cluster, deadline):
                return
            with log_path.open("rb") as log:
                log.seek(log_start)
                said = log.read().decode("utf-8", errors="replace")
            if not _is_passing(said) or time.monotonic() > deadline:
                raise PostgresUnavailable(f"PostgreSQL in {cluster} did not start: {said.strip()[-2000:]}")
            await asyncio.sleep(_POLL_SECONDS * 5)

    def _server_argv(self, cluster: Path, binaries: Binaries) -> list[str]:
        """Return the server's command line."""
        settings = {
            "listen_addresses": "",
            "port": str(_PORT),
            "unix_socket_directories": str(self._sockets),
            "unix_socket_permissions": "0700",
            "dynamic_shared_memory_type": "mmap",  # a small /dev/shm must not matter
            "max_connections": "200",
            "jit": "off",  # it costs more than it saves on short queries
            "timezone": "UTC",
            "log_timezone": "UTC",
            **self._options,
        }
        argv = [binaries.program("postgres"), "-D", str(cluster)]
        for name, value in settings.items():
            argv += ["-c", f"{name}={value}"]
        return argv

    async def _became_ready(self, cluster: Path, deadline: float) -> bool:
        """Poll the server's pid file for ``ready``; False when the server ended or time is up."""
        process = self._process
        while process is not None and process.returncode is None and time.monotonic() < deadline:
            lines = pid_file_lines(cluster)
            if len(lines) >= 8 and lines[0] == str(process.pid) and lines[7].strip() == "ready":
                return True
            await asyncio.sleep(_POLL_SECONDS)
        if process is not None and process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
        return False

    async def _ensure_database(self) -> None:
        """Create the database unless it is there."""
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE):
                await connection.execute(f"CREATE DATABASE {DATABASE}")
        finally:
            await connection.close()


def _environment(account: Account) -> dict[str, str]:
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


async def _initialise(cluster: Path, binaries: Binaries, account: Account) -> None:
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
        env={name: value for name, value in _environment(account).items() if name != "LC_ALL"},
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


def _write_access_rules(cluster: Path, account: Account) -> None:
    """Let exactly our user and PostgreSQL's own in, by the kernel's word on who connects; no passwords."""
    callers: Sequence[str] = sorted({account.name, "root"}) if account.switch else [account.name]
    rules = {
        "pg_hba.conf": "local all all peer map=frontrow\n",
        "pg_ident.conf": "".join(f'frontrow "{name}" {ROLE}\n' for name in callers),
    }
    for name, text in rules.items():
        (cluster / name).write_text(text)


def _make_socket_folder(account: Account) -> Path:
    """Make a private folder for the socket, short enough for a socket address."""
    for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108  (mkdtemp below is safe in a shared folder)
        if len(os.fsencode(parent)) + len(_SOCKET_PREFIX) + 30 <= _SOCKET_PATH_BYTES:
            folder = Path(tempfile.mkdtemp(prefix=_SOCKET_PREFIX, dir=parent))
            if account.switch is not None:
                os.chown(folder, account.uid, account.gid)
            return folder
    raise PostgresUnavailable(
        "the temporary folder's path is too long for a socket: set TMPDIR to a short one"
    )


def _remove_old_socket_folder(cluster: Path) -> None:
    """Remove the socket folder of a run that was killed; its server removed the socket itself."""
    with contextlib.suppress(OSError):
        folder = Path((cluster / "socket_folder").read_text())
        if folder.name.startswith(_SOCKET_PREFIX):
            folder.rmdir()  # only when empty: a server that still runs keeps its own


def _is_passing(said: str) -> bool:
    """Tell whether the server's last words mean that a predecessor isn't quite gone."""
    return any(
        text in said for text in ("already exists", "pre-existing shared memory", "is another postmaster")
    )


def _rotate(log_path: Path) -> int:
    """Move a large server log aside; return the size of the one to append to."""
    size = log_path.stat().st_size if log_path.exists() else 0
    if size > _LOG_BYTES:
        log_path.replace(log_path.with_suffix(".log.old"))
        return 0
    return size
