"""Media between the wire and the rules."""

from __future__ import annotations

from collections.abc import Sequence

from frontrow.review.v1 import media_pb2

from libs.common.errors import InvalidArgument
from services.review.renditions import Info
from services.review.repository_media import NewMedia, Reservation
from services.review.similarity import signed


def min_width_of(size: media_pb2.MediaSize.ValueType, min_width: int) -> int | None:
    """Return the least width of the wanted thumbnail, None when the original is wanted."""
    return min_width if size == media_pb2.MEDIA_SIZE_THUMBNAIL else None


def info_message(info: Info) -> media_pb2.MediaInfo:
    """Return what precedes the bytes of a rendition."""
    return media_pb2.MediaInfo(**vars(info))


def new_media(item: media_pb2.MediaItem) -> NewMedia:
    """Return an announced object."""
    return NewMedia(
        key=item.key,
        sha256=item.sha256,
        size_bytes=item.size_bytes,
        content_type=item.content_type,
        width=item.width,
        height=item.height,
        parent_key=item.parent_key,
        dhash=signed(item.dhash) if item.dhash else None,
    )


def item_state(key: str, reservation: Reservation) -> media_pb2.MediaItemState:
    """Return where an announced object stands."""
    state = media_pb2.MediaState.Value(f"MEDIA_STATE_{reservation.state.name}")
    return media_pb2.MediaItemState(key=key, state=state, reservation=str(reservation.row_id))


def row_ids(keys: Sequence[str], reservations: Sequence[str]) -> dict[str, int]:
    """Return the reservations that were given back, by key; empty when none were.

    Raises:
        InvalidArgument: there are fewer or more than keys, or one isn't ours.
    """
    if len(reservations) not in {0, len(keys)}:
        raise InvalidArgument.of_field(
            "reservations", f"must be one for each of the {len(keys)} keys, or none"
        )
    strange = [text for text in reservations if not (text.isascii() and text.isdigit() and len(text) < 19)]
    if strange:
        raise InvalidArgument.of_field("reservations", f"{strange[0]!r} was never given by ReserveMedia")
    return dict(zip(keys, map(int, reservations), strict=False))
