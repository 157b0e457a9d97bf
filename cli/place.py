"""Work on the database and the objects of this place directly; say in plain words what went wrong."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from pydantic import ValidationError

from libs.common import settings_error

if TYPE_CHECKING:
    from services.place import Place
    from services.settings import ProcessSettings

T = TypeVar("T")


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run one command's work; turn failures into a message with what to do."""
    import asyncpg
    import sqlalchemy.exc

    from libs.common.credentials import InsecureTransport
    from libs.common.database_dump import DumpFailed
    from libs.common.objects import ObjectStoreError
    from libs.common.postgres import PostgresUnavailable
    from libs.common.telemetry import configure_logging
    from services.place import Refused
    from services.state import DataFolderInUse

    configure_logging("WARNING")
    try:
        return asyncio.run(work())
    except ValidationError as error:
        raise click.ClickException(f"settings are wrong:\n{settings_error.explain(error)}") from error
    except (
        Refused, DataFolderInUse, PostgresUnavailable, DumpFailed, ObjectStoreError, InsecureTransport
    ) as error:  # fmt: skip
        raise click.ClickException(str(error)) from error
    except (asyncpg.PostgresError, sqlalchemy.exc.DBAPIError) as error:
        said = getattr(error, "orig", None) or error
        raise click.ClickException(f"the database (FRONTROW_DATABASE_URL) refused: {said}") from error
    except OSError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.Abort from None


def at(data_dir: Path, work: "Callable[[Place], Coroutine[Any, Any, T]]", *, make: bool = False) -> T:
    """Run work on the place of a data folder, or of FRONTROW_DATABASE_URL; see `services.place.opened`."""
    from services.place import opened

    async def on_it() -> T:
        async with opened(settings(data_dir), make=make) as place:
            return await work(place)

    return run(on_it)


def settings(data_dir: Path) -> "ProcessSettings":
    """Return the settings of the instance of a data folder."""
    from services.settings import ProcessSettings

    return ProcessSettings(data_dir=data_dir)
