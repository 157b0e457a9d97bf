"""`frontrow tokens`: who may call servers that others can reach; the file that FRONTROW_TOKENS_FILE names."""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from cli.output import console, json_option, print_json, print_table
from libs.common import private_file
from libs.common.access import Principal, read_tokens
from services.access import ROLES

_TOKEN_BYTES = 32

_file_option = click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="FRONTROW_TOKENS_FILE",
    required=True,
    help="The servers' file of tokens (or FRONTROW_TOKENS_FILE). They read it again when it changes.",
)


@click.group()
def tokens() -> None:
    """Give tokens to people and processes, list them, take them away. Needs no running server.

    The file holds hashes: who reads it can't call anything with it. To replace a token, add the new one,
    bring it to its owner, then remove the old one.

    \b
    Examples:
      frontrow tokens add ann --role editor --days 90
      frontrow tokens add asr-worker --role worker > asr-worker.token
      frontrow tokens init pki task=service asr-worker=worker
      frontrow tokens list
      frontrow tokens remove 3f2a9c1b
    """


@tokens.command()
@click.argument("subject")
@click.option("--role", "roles", type=click.Choice(ROLES), multiple=True, required=True, help="Repeatable.")
@click.option("--days", type=click.IntRange(1, 3650), help="Valid for so long; without it until removed.")
@_file_option
@json_option
def add(subject: str, roles: tuple[str, ...], days: int | None, path: Path, as_json: bool) -> None:
    """Make a token and print it, this once.

    \b
    Example:
      frontrow tokens add ann --role editor --role ops --days 90 --file tokens.toml
    """
    if not subject.isprintable():
        raise click.UsageError("SUBJECT must have no control characters")
    token = _new_token()
    expires = None if days is None else datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
    try:
        made = Principal(subject=subject, roles=frozenset(roles), sha256=_digest(token), expires=expires)
    except ValueError as error:
        raise click.UsageError("SUBJECT is a name of 1 to 200 characters") from error
    _change(path, lambda known: [*known, made])
    if as_json:
        print_json({**_as_dict(made), "token": token})
        return
    click.echo(token)
    click.echo(f"{subject} has it from now on: {path}", err=True)  # stdout may go into a file


@tokens.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("processes", metavar="NAME=ROLE[,ROLE]…", nargs=-1, required=True)
@_file_option
@json_option
def init(folder: Path, processes: tuple[str, ...], path: Path, as_json: bool) -> None:
    """Give each process NAME a token of its own, in FOLDER/NAME/token, where it has none.

    Run it again at any time, e.g. at each start: tokens that are there stay, and the servers' file learns
    those that it lacks. The folders are those of `frontrow certificates init`.

    \b
    Example:
      frontrow tokens init pki task=service asr-worker=worker cli=admin --file pki/tokens.toml
    """
    wanted = [_process(text) for text in processes]
    done: list[dict[str, str]] = []
    for name, roles in wanted:
        try:
            done.append({"name": name, "done": _bring(folder / name / "token", name, roles, path)})
        except OSError as error:
            raise click.ClickException(f"{folder / name}: {error.strerror}") from error
    if as_json:
        print_json(done)
        return
    for one in done:
        console.print(f"{one['name']}: {one['done']}", highlight=False)


@tokens.command("list")
@_file_option
@json_option
def list_tokens(path: Path, as_json: bool) -> None:
    """List who has tokens.

    \b
    Example:
      frontrow tokens list --file tokens.toml
    """
    known = _known(path)
    if as_json:
        print_json([_as_dict(one) for one in known])
        return
    rows = [(_id(one), one.subject, ", ".join(sorted(one.roles)), one.expires or "") for one in known]
    print_table(["id", "subject", "roles", "valid until (UTC)"], rows, empty="Nobody has a token.")


@tokens.command()
@click.argument("token_id", metavar="ID")
@_file_option
@json_option
def remove(token_id: str, path: Path, as_json: bool) -> None:
    """Take a token away; servers refuse it, and end what it began, within some seconds.

    \b
    Example:
      frontrow tokens remove 3f2a9c1b --file tokens.toml
    """
    found = [one for one in _known(path) if _id(one) == token_id]
    if not found:
        raise click.ClickException(f"no token {token_id}: `frontrow tokens list` shows the ids")
    _change(path, lambda known: [one for one in known if _id(one) != token_id])
    if as_json:
        print_json(_as_dict(found[0]))
        return
    console.print(f"{found[0].subject}'s token {token_id} is gone", markup=False, highlight=False)


def _process(text: str) -> tuple[str, frozenset[str]]:
    """Return a process's name and roles from NAME=ROLE,ROLE."""
    name, _, listed = text.partition("=")
    roles = frozenset(listed.split(","))
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", name) or not roles <= set(ROLES):
        raise click.UsageError(f"{text!r} must be NAME=ROLE[,ROLE], with roles of {', '.join(ROLES)}")
    return name, roles


def _bring(own: Path, name: str, roles: frozenset[str], path: Path) -> str:
    """See to it that a process has a token and that the servers' file knows it; return what was done."""
    there = own.exists()
    token = own.read_text(encoding="ascii").strip() if there else _new_token()
    made = Principal(subject=name, roles=roles, sha256=_digest(token))
    before = {one.sha256: one for one in _known(path)}
    if before.get(made.sha256) != made:
        _change(path, lambda known: [*(one for one in known if one.sha256 != made.sha256), made])
    if not there:
        own.parent.mkdir(parents=True, exist_ok=True)
        private_file.write(own, token + "\n")
        return f"a new token in {own}"
    return "the token it has" if before.get(made.sha256) == made else f"the token it has, now in {path}"


def _new_token() -> str:
    return f"ft_{secrets.token_urlsafe(_TOKEN_BYTES)}"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _as_dict(principal: Principal) -> dict[str, Any]:
    """Return what may be told of a token."""
    return {"id": _id(principal), **principal.model_dump(mode="json", exclude={"sha256"})}


def _id(principal: Principal) -> str:
    """Return the first characters of the hash: enough to tell tokens apart."""
    return principal.sha256[:8]


def _known(path: Path) -> tuple[Principal, ...]:
    try:
        return read_tokens(path) if path.exists() else ()
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def _change(path: Path, change: Callable[[Sequence[Principal]], Sequence[Principal]]) -> None:
    """Write the file anew; two at once would undo each other's change, a removal among them."""
    try:
        with private_file.alone(path.absolute().parent):
            private_file.write(path, "\n".join(map(_entry, change(_known(path)))))
    except OSError as error:
        raise click.ClickException(f"{path} can't be written: {error.strerror}") from error


def _entry(principal: Principal) -> str:
    """Return a token's part of the file."""
    roles = ", ".join(f'"{role}"' for role in sorted(principal.roles))
    lines = ["[[tokens]]", f"subject = {_quoted(principal.subject)}", f"roles = [{roles}]"]
    lines.append(f'sha256 = "{principal.sha256}"')
    if principal.expires is not None:
        lines.append(f"expires = {principal.expires.isoformat()}")
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    """Return a TOML string; JSON's are that, control characters aside."""
    return json.dumps(text, ensure_ascii=False)
