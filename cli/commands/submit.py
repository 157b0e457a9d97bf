"""`frontrow submit`: submit a gallery as a spider does, signed."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import click
from frontrow.client import AsyncSpiderClient, Refused
from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2
from google.protobuf.json_format import ParseDict, ParseError

from cli.commands.jobs import advice, outcome
from cli.connection import Connection, told
from cli.output import as_dict, console, json_option, print_json, word
from libs.common.errors import FieldViolation
from libs.common.statuses import ErrorDetail

_POLL_SECONDS = 0.3
_RUNNING = {ingest_job_pb2.INGEST_JOB_STATUS_PENDING, ingest_job_pb2.INGEST_JOB_STATUS_PROCESSING}

EXAMPLES: dict[str, dict[str, Any]] = {
    "runway": {
        "kind": "GALLERY_KIND_RUNWAY",
        "title": "Acne Studios Fall 2026 Ready-to-Wear",
        "source": "vogue",
        "source_url": "https://www.vogue.com/fashion-shows/fall-2026-ready-to-wear/acne-studios",
        "brand": "Acne Studios",
        "season_code": "Fall 2026 Ready-to-Wear",
        "images": [{"url": "https://assets.example/look-1.jpg", "caption": "Look 1", "position": 1}],
    },
    "street": {
        "kind": "GALLERY_KIND_STREET_SNAP",
        "title": "Street style, day one",
        "source": "vogue",
        "source_url": "https://www.vogue.com/slideshow/copenhagen-street-style",
        "city": "Copenhagen",
        "year": 2026,
        "month": 2,
        "images": [{"url": "https://assets.example/street-1.jpg", "position": 1}],
    },
}


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--key-id", envvar="FRONTROW_SPIDER_KEY_ID", help="Key of the spider [env FRONTROW_SPIDER_KEY_ID]."
)
@click.option("--secret", envvar="FRONTROW_SPIDER_SECRET", help="Its secret [env FRONTROW_SPIDER_SECRET].")
@click.option("--wait", is_flag=True, help="Stay until the job is done, and say what came of it.")
@click.option("--example", type=click.Choice(list(EXAMPLES)), help="Print a file to start from.")
@json_option
@click.pass_obj
def submit(
    connection: Connection,
    *,
    file: Path | None,
    key_id: str | None,
    secret: str | None,
    wait: bool,
    example: str | None,
    as_json: bool,
) -> None:
    """Submit the gallery in a JSON FILE, signed with a spider's key.

    \b
    Examples:
      eval "$(frontrow spiders add me)"           a key, once
      frontrow submit --example runway > show.json
      frontrow submit show.json --wait
    """
    if example:
        print_json(EXAMPLES[example])
        return
    if file is None:
        raise click.UsageError("name a FILE, or see one: frontrow submit --example runway")
    if not key_id or not secret:
        raise click.UsageError('a spider\'s key is needed to sign: eval "$(frontrow spiders add NAME)"')
    logging.basicConfig(format="%(message)s")  # on stderr: that a submission is tried again, and why
    work = _submit(connection, read_gallery(file), (key_id, secret), wait=wait)
    job = connection.run("ingest", work)
    if as_json:
        print_json(as_dict(job))
    elif job.status in _RUNNING:
        console.print(f"job [bold]{job.job_id}[/]\n  frontrow jobs {job.job_id}   shows what came of it")
    elif job.status == ingest_job_pb2.INGEST_JOB_STATUS_FAILED:
        raise click.ClickException("\n  ".join([f"job {job.job_id} failed: {outcome(job)}", *advice([job])]))
    else:
        status = word(ingest_job_pb2.IngestJobStatus, job.status, "INGEST_JOB_STATUS_")
        console.print(f"[green]{status}[/]: {outcome(job)}")


def read_gallery(file: Path) -> gallery_pb2.Gallery:
    """Read a gallery from JSON. Raises ClickException naming what is wrong in the file."""
    try:
        return ParseDict(json.loads(file.read_text(encoding="utf-8")), gallery_pb2.Gallery())
    except (json.JSONDecodeError, ParseError, UnicodeDecodeError) as error:
        raise click.ClickException(
            f"{file} is no gallery: {error}\n  frontrow submit --example runway   shows one"
        ) from error


async def _submit(
    connection: Connection, gallery: gallery_pb2.Gallery, key: tuple[str, str], *, wait: bool
) -> ingest_job_pb2.IngestJob:
    """Submit, and read the job until it has ended when asked to wait."""
    try:
        address = connection.address("ingest")
        async with connection.channel("ingest") as channel:
            client = AsyncSpiderClient(address, key_id=key[0], secret=key[1], channel=channel)
            submission = await client.submit(gallery)
            job = await client.get_job(submission.job_id)
            while wait and job.status in _RUNNING:
                await asyncio.sleep(_POLL_SECONDS)
                job = await client.get_job(submission.job_id)
            return job
    except Refused as error:
        raise click.ClickException(refusal(error, connection.address("ingest"))) from error


def refusal(error: Refused, address: str) -> str:
    """Return why a submission was refused, and what to do, as every other command says it."""
    violations = tuple(FieldViolation(*violation) for violation in error.violations)
    detail = ErrorDetail(error.code, error.reason, error.message, error.metadata, violations)
    return told(detail, "ingest", address)
