"""Recordings on the web: what their addresses must be, and what a run fetches of them."""

from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit
from uuid import UUID

from frontrow.asr.v1 import transcription_service_pb2 as pb

from libs.common.db import Database
from libs.common.errors import InvalidArgument
from services.asr import convert, repository_fetch, repository_material
from services.asr.repository_fetch import Piece, Source

_LONGEST_NAME = 255


def checked_url(text: str) -> str:
    """Return a recording's address if it can be one; whether it may be fetched is for the run to see.

    Raises:
        InvalidArgument: it is no http or https address of a host, or holds a user name.
    """
    try:
        parts = urlsplit(text)
        port_is_one = parts.port is None or parts.port > 0
    except ValueError:
        raise InvalidArgument.of_field("media_url", "is malformed") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_is_one:
        raise InvalidArgument.of_field("media_url", "must be an http:// or https:// address")
    if parts.username is not None or parts.password is not None:
        raise InvalidArgument.of_field("media_url", "must hold no user name or password")
    if any(letter.isspace() or not letter.isprintable() for letter in text):
        raise InvalidArgument.of_field("media_url", "must hold no blanks and no control characters")
    return text


def file_name_of(url: str) -> str:
    """Return the name of the file that an address ends with; `recording` when it ends with none."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    return "".join(letter for letter in name if letter.isprintable())[:_LONGEST_NAME] or "recording"


class Fetches:
    """What a run says about the recording that it fetches."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save_piece(self, request: pb.SaveFetchedPieceRequest) -> int:
        """Keep a piece; returns where the pieces end."""
        material_id = convert.parse_id(request.material_id, "material_id")
        await self._check_place(material_id, "piece.object_key", request.piece.object_key, "uploads")
        piece = Piece(request.offset, request.piece.object_key, request.piece.size_bytes)
        source = Source(request.validator, request.total_bytes)
        async with self._database.begin() as session:
            return await repository_fetch.save_piece(session, material_id, request.asr_version, piece, source)

    async def finish(self, request: pb.FinishFetchRequest) -> None:
        """Give the material its recording."""
        material_id = convert.parse_id(request.material_id, "material_id")
        await self._check_place(material_id, "media_key", request.media_key, "recordings")
        whole = {
            "media_key": request.media_key,
            "size_bytes": request.size_bytes,
            "sha1": request.sha1,
        }
        async with self._database.begin() as session:
            await repository_fetch.finish(session, material_id, request.asr_version, whole)

    async def _check_place(self, material_id: UUID, field: str, key: str, root: str) -> None:
        """Refuse an object elsewhere: what is kept here is removed with the material."""
        async with self._database.begin() as session:
            row = await repository_material.get(session, material_id)
        if not key.startswith(f"{root}/{row.upload_id}/"):
            raise InvalidArgument.of_field(field, f"must lie below {root}/{row.upload_id}/")
