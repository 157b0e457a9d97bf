"""Media between the wire and the rules."""

from __future__ import annotations

from frontrow.review.v1 import media_pb2

from services.review.renditions import Info
from services.review.repository_media import NewMedia
from services.review.similarity import signed
from services.review.states import MediaState


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


def item_state(key: str, state: MediaState) -> media_pb2.MediaItemState:
    """Return where an announced object stands."""
    return media_pb2.MediaItemState(key=key, state=media_pb2.MediaState.Value(f"MEDIA_STATE_{state.name}"))
