"""A database of several hosts: the pool, the driver and PostgreSQL's programs get all of them."""

import pytest
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg

from libs.common import database_dump
from libs.common.db import async_url
from libs.common.settings import DatabaseSettings

_MORE = "target_session_attrs=primary&sslmode=verify-full"


@pytest.mark.parametrize(
    ("places", "hosts", "ports"),
    [
        ("db-1", "db-1", None),
        ("db-1:5433", "db-1", 5433),
        ("db-1:5433,db-2:5434", ["db-1", "db-2"], [5433, 5434]),
        ("db-1,db-2", ["db-1", "db-2"], [5432, 5432]),
    ],
)
def test_the_pool_is_told_each_host(places: str, hosts: object, ports: object) -> None:
    url = DatabaseSettings(url=f"postgresql://ann:se%2Fcret@{places}/frontrow?{_MORE}").url
    _, given = PGDialect_asyncpg().create_connect_args(async_url(url))
    assert (given["host"], given["user"], given["password"], given["database"]) == (
        hosts, "ann", "se/cret", "frontrow",
    )  # fmt: skip
    assert given.get("port") == ports
    assert (given["target_session_attrs"], given["ssl"]) == ("primary", "verify-full")


@pytest.mark.parametrize("places", ["db-1", "db-1:5433,db-2:5434", ""])
def test_programs_are_told_all_of_it_but_the_password_which_no_command_line_holds(places: str) -> None:
    url = f"postgresql+asyncpg://ann:se%2Fcret@{places}/frontrow?{_MORE}"
    assert database_dump._where(url) == (
        f"postgresql://ann@{places}/frontrow?{_MORE}", {"PGPASSWORD": "se/cret"},
    )  # fmt: skip
    assert database_dump._where("postgresql:///frontrow?host=/run")[1] == {}
