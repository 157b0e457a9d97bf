"""`frontrow certificates`: an authority of one's own, and certificates of processes by it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cli.output import json_option, print_json, print_table
from libs.common.certificates import RENEW_BEFORE, Made, Unusable, held, make

_folder = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


@click.group()
def certificates() -> None:
    """Make the certificates of servers beyond this machine and of the processes that call them.

    One folder holds an authority and a folder for each process with all that it needs: certificate.pem,
    key.pem, authority.pem (FRONTROW_TLS_CERT, FRONTROW_TLS_KEY, FRONTROW_TLS_CA). Bring each to its machine;
    the authority's key, authority/key.pem, goes to none. Needs no running server.

    \b
    Examples:
      frontrow certificates init pki task review=review.internal,10.0.0.7 ingest-worker
      frontrow certificates list pki
    """


@certificates.command()
@_folder
@click.argument("processes", metavar="NAME[=HOST,HOST…]…", nargs=-1)
@click.option("--trusting", multiple=True, metavar="NAME", help="Gets the authority alone. Repeatable.")
@json_option
def init(folder: Path, processes: tuple[str, ...], trusting: tuple[str, ...], as_json: bool) -> None:
    """Make what is missing in FOLDER: the authority once, a certificate for each NAME.

    A certificate is good for its NAME, the HOSTs given and this machine (localhost). Run it again at any
    time, e.g. at each start: certificates that end within 90 days or whose hosts changed are made anew, the
    others stay, and an authority is never replaced.

    \b
    Examples:
      frontrow certificates init pki task review asr ingest asr-worker --trusting people
      frontrow certificates init pki task=task.internal,10.0.0.4
    """
    wanted = dict(_process(text) for text in processes)
    try:
        made = make(folder, wanted, trusting)
    except (Unusable, OSError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json([_data(one) for one in made])
        return
    for one in made:
        said = f"made, since {one.why}" if one.why else "stays as it is"
        click.echo(f"{one.name}: {said}; good until {one.expires:%Y-%m-%d}")
    _warn_of_the_authority(made)


@certificates.command("list")
@_folder
@json_option
def list_certificates(folder: Path, as_json: bool) -> None:
    """List the certificates in FOLDER and when they end; exit status 1 when one ends within 30 days.

    \b
    Example:
      frontrow certificates list pki
    """
    try:
        found = held(folder)
    except (Unusable, OSError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json([_data(one) for one in found])
    else:
        print_table(
            ["name", "good until (UTC)", "hosts"],
            [(one.name, f"{one.expires:%Y-%m-%d}", ", ".join(one.hosts)) for one in found],
            empty="No certificates. `frontrow certificates init FOLDER NAME…` makes them.",
        )
        _warn_of_the_authority(found)
    soon = datetime.now(UTC) + RENEW_BEFORE / 3
    if any(one.expires <= soon for one in found):
        raise SystemExit(1)


def _process(text: str) -> tuple[str, list[str]]:
    """Return a process's name and its hosts from NAME=HOST,HOST."""
    name, _, hosts = text.partition("=")
    return name, [host for host in hosts.split(",") if host]


def _warn_of_the_authority(made: list[Made]) -> None:
    if made and made[0].expires <= datetime.now(UTC) + 4 * RENEW_BEFORE:
        click.echo("The authority ends within a year: make another one in a new folder in time.", err=True)


def _data(one: Made) -> dict[str, Any]:
    return {"name": one.name, "hosts": one.hosts, "expires": one.expires.isoformat(), "made_since": one.why}
