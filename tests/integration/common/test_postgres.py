"""The embedded PostgreSQL: text in all scripts, data kept, nothing left behind."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from libs.common.postgres import EmbeddedPostgres, PostgresUnavailable, find_binaries
from libs.common.postgres_pidfile import pid_file_lines
from libs.common.postgres_place import choose_account, place_data, readable_binaries, remove_data

OWNER = """
import asyncio, sys
from pathlib import Path
from libs.common.postgres import EmbeddedPostgres

async def main() -> None:
    print(await EmbeddedPostgres(Path(sys.argv[1])).start(), flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Give a place that any user can enter (pytest's own tmp_path is closed to PostgreSQL's user)."""
    folder = Path("/tmp") / f"frontrow-test-{os.getpid()}-{time.monotonic_ns()}"
    folder.mkdir(mode=0o755)
    yield folder / "postgres"
    remove_data(folder / "postgres")
    shutil.rmtree(folder)


async def ask(url: str, query: str, *arguments: object) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query, *arguments)
    finally:
        await connection.close()


def alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def start_owner(data_dir: Path) -> tuple[subprocess.Popen[str], str]:
    """Start another process that owns a PostgreSQL; return it and the database's URL."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(data_dir)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LANG": "C", "LC_ALL": "C"},
    )
    assert owner.stdout is not None
    with owner.stdout:
        return owner, owner.stdout.readline().strip()


async def test_text_of_all_scripts_is_folded_and_searched_whatever_the_callers_locale(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "C")
    monkeypatch.setenv("LC_ALL", "C")
    server = EmbeddedPostgres(data_dir)
    url = await server.start()
    try:
        assert await ask(url, "SELECT lower('KØBENHAVN')") == "københavn"
        await ask(url, "CREATE EXTENSION pg_trgm")
        assert await ask(url, "SELECT cardinality(show_trgm('红色连衣裙')) > 0")
        assert await ask(url, "SELECT similarity('红色连衣裙', '红色连衣裙搭配') > 0.4")
        assert await ask(url, "SHOW listen_addresses") == ""
    finally:
        await server.stop()


async def test_the_socket_is_private_and_goes_with_the_server(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    url = await server.start()
    folder = url.partition("host=")[2].partition("&")[0]
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert len(os.fsencode(f"{folder}/.s.PGSQL.5432.lock")) <= 107
    await server.stop()
    assert not os.access(folder, os.F_OK)


async def test_kill_9_of_the_owner_leaves_no_postgres_and_all_committed_rows(data_dir: Path) -> None:
    owner, url = start_owner(data_dir)
    await ask(url, "CREATE TABLE kept (n int)")
    await ask(url, "INSERT INTO kept SELECT generate_series(1, 1000)")
    postmaster = int(pid_file_lines(place_data(data_dir, choose_account(data_dir)))[0])
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    # The next start comes at once: it must wait for the old server, not trip over its pid file.
    began = time.monotonic()
    server = EmbeddedPostgres(data_dir)
    url = await server.start()
    took = time.monotonic() - began
    try:
        assert not alive(postmaster)
        assert await ask(url, "SELECT count(*) FROM kept") == 1000
        assert took < 5
    finally:
        await server.stop()


async def test_a_killed_postgres_that_nobody_reaped_does_not_block_the_next_start(data_dir: Path) -> None:
    owner, _ = start_owner(data_dir)
    postmaster = int(pid_file_lines(place_data(data_dir, choose_account(data_dir)))[0])
    os.kill(owner.pid, signal.SIGSTOP)  # it can't reap its child now
    os.kill(postmaster, signal.SIGKILL)
    server = EmbeddedPostgres(data_dir)
    try:
        url = await server.start()
        assert await ask(url, "SELECT 1") == 1
    finally:
        await server.stop()
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()


async def test_a_pid_file_that_names_another_program_is_dropped(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    await server.start()
    cluster = place_data(data_dir, choose_account(data_dir))
    lines = pid_file_lines(cluster)
    await server.stop()
    (cluster / "postmaster.pid").write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    url = await server.start()
    assert await ask(url, "SELECT 1") == 1
    await server.stop()


async def test_a_second_server_on_the_same_data_is_refused_with_what_to_do(data_dir: Path) -> None:
    first = EmbeddedPostgres(data_dir)
    await first.start()
    try:
        with pytest.raises(PostgresUnavailable, match="FRONTROW_DATA_DIR"):
            await EmbeddedPostgres(data_dir, start_timeout_seconds=0.3).start()
    finally:
        await first.stop()


async def test_data_below_a_closed_home_folder_works_and_is_removed_with_its_link(tmp_path: Path) -> None:
    closed = tmp_path / "home"
    closed.mkdir(mode=0o700)
    data_dir = closed / "project" / "postgres"
    for expected in (None, 1):
        server = EmbeddedPostgres(data_dir)
        url = await server.start()
        if expected is None:
            await ask(url, "CREATE TABLE kept AS SELECT 1 AS n")
        else:
            assert await ask(url, "SELECT n FROM kept") == expected
        await server.stop()
    target = data_dir.resolve()
    remove_data(data_dir)
    assert not data_dir.exists()
    assert not target.exists()


def test_programs_below_a_closed_folder_are_copied_to_where_their_user_can_run_them(
    tmp_path: Path, data_dir: Path
) -> None:
    found = find_binaries()
    closed = tmp_path / "venv"
    closed.mkdir(mode=0o700)
    shutil.copytree(found.folder.parent, closed / "package" / "pginstall", symlinks=True)
    account = choose_account(data_dir)
    hidden = type(found)(closed / "package" / "pginstall" / "bin", found.major, found.libraries)
    usable = readable_binaries(hidden, account)
    if account.switch is None:
        assert usable == hidden
    else:
        assert not usable.folder.is_relative_to(closed)
        assert readable_binaries(hidden, account) == usable
    answer = subprocess.run(
        [usable.program("postgres"), "--version"], capture_output=True, text=True, check=True
    )
    assert str(found.major) in answer.stdout
    if account.switch is not None:
        shutil.rmtree(usable.folder.parents[2])


def test_a_release_that_is_not_here_is_named_with_what_is() -> None:
    with pytest.raises(PostgresUnavailable, match=r"no PostgreSQL 9 here .*FRONTROW_DATABASE_URL"):
        find_binaries(9)
