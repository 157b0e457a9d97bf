"""Run PostgreSQL as a child of this process: started in a moment, gone with us, data kept.

Only the programs ``initdb`` and ``postgres`` of whatever PostgreSQL is there are used. The server listens on
a Unix socket alone, knows roles that only our own user can take, and is told to stop by the kernel when
this process dies, ``kill -9`` included.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import asyncpg

from libs.common.child import command
from libs.common.postgres_cluster import ROLE, environment, initialise, write_access_rules
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

DATABASE = "frontrow"
_PORT = 5432
_SOCKET_PREFIX = "frontrow-pg-"
_SOCKET_PATH_BYTES = 107  # sun_path's limit, less its closing NUL
_POLL_SECONDS = 0.02
_STOP_SECONDS = 20.0
_LOG_BYTES = 10 << 20


class EmbeddedPostgres:
    """One PostgreSQL cluster in ``data_dir``, made when it isn't there yet.

    ``options`` are server settings (``{"fsync": "off"}`` for throw-away tests). ``roles`` are those that our
    user may log in as beside the cluster's owner, once somebody has made them (``database_roles.py``).
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        options: Mapping[str, str] | None = None,
        roles: Sequence[str] = (),
        start_timeout_seconds: float = 30.0,
    ) -> None:
        self._data_dir = data_dir
        self._options = dict(options or {})
        self._roles = tuple(roles)
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
            await initialise(cluster, binaries, account)
        write_access_rules(cluster, account, self._roles)
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
        return _url(database, self._sockets)

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
                    env=environment(account),
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


def url_of_running(data_dir: Path) -> str:
    """Return the URL of the server that another process of ours runs on ``data_dir``.

    Raises PostgresUnavailable when none was ever started there.
    """
    try:
        cluster = place_data(data_dir, choose_account(data_dir))
        return _url(DATABASE, Path((cluster / "socket_folder").read_text()))
    except OSError as error:
        raise PostgresUnavailable(f"no PostgreSQL of ours runs on {data_dir}") from error


def _url(database: str, sockets: Path) -> str:
    return f"postgresql://{ROLE}@/{database}?host={quote(str(sockets))}&port={_PORT}"


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
