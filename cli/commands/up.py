"""`frontrow up`: run everything here."""

import os
import sys
from pathlib import Path

import click

from cli.connection import Connection


@click.command()
@click.option("--logs", is_flag=True, help="Log to this terminal instead of DATA_DIR/frontrow.log.")
@click.option("--ephemeral-ports", is_flag=True, help="Listen on free ports instead of 7101–7104.")
@click.option("--no-workers", is_flag=True, help="Run the servers alone; workers run elsewhere.")
@click.pass_obj
def up(connection: Connection, logs: bool, ephemeral_ports: bool, no_workers: bool) -> None:
    """Start PostgreSQL, the four servers and all workers in one process.

    Prints one line with the addresses when it is ready. Ctrl-C and SIGTERM stop it cleanly; after a crash
    or kill -9 the next start finds all data. FRONTROW_DATABASE_URL uses a PostgreSQL of yours instead.

    \b
    Examples:
      frontrow up
      frontrow up --logs
      frontrow --data-dir /srv/frontrow up
      FRONTROW_OBJECT_STORE='s3://bucket/prefix' frontrow up
    """
    environment = {**os.environ, "FRONTROW_DATA_DIR": str(connection.data_dir)}
    if not logs and "FRONTROW_LOG_FILE" not in environment:
        environment["FRONTROW_LOG_FILE"] = str(connection.data_dir / "frontrow.log")
    if ephemeral_ports:
        environment["FRONTROW_EPHEMERAL_PORTS"] = "true"
    if no_workers:
        environment["FRONTROW_WORKERS"] = "false"
    root = str(Path(__file__).resolve().parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))
    sys.stdout.flush()
    # Become that process: signals and kill -9 reach it itself.
    os.execve(sys.executable, [sys.executable, "-m", "services"], environment)  # noqa: S606
