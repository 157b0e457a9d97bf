"""Official rows and names on their way to the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontrow.review.v1 import catalog_pb2, key_pb2


def runway_message(row: Any, images: Sequence[catalog_pb2.OfficialImage] = ()) -> catalog_pb2.Runway:
    """Return a runway show; without images as lists show it."""
    message = catalog_pb2.Runway(
        runway_id=str(row.id),
        title=row.title,
        brand=row.brand_name,
        season_code=row.season_code,
        season=row.season_name,
        collection=row.collection,
        cover_key=row.cover_key or "",
        image_count=row.image_count,
        images=images,
    )
    message.create_time.FromDatetime(row.created_at)
    message.update_time.FromDatetime(row.updated_at)
    return message


def street_snap_message(row: Any, images: Sequence[catalog_pb2.OfficialImage] = ()) -> catalog_pb2.StreetSnap:
    """Return a street-snap album: neither year, month, city nor source leaves the house (domain.md 4.8)."""
    return catalog_pb2.StreetSnap(
        street_snap_id=str(row.id),
        title=row.title,
        cover_key=row.cover_key or "",
        image_count=row.image_count,
        images=images,
    )


def image_message(row: Any) -> catalog_pb2.OfficialImage:
    """Return an image of an official row."""
    return catalog_pb2.OfficialImage(
        media_key=row.key,
        caption=row.caption,
        width=row.width,
        height=row.height,
        content_type=row.content_type,
    )


def brand_message(row: Any) -> key_pb2.Brand:
    """Return a brand with its spellings."""
    return key_pb2.Brand(
        brand_id=str(row.id), name=row.name, aliases=row.aliases or (), canonical_id=_text(row.canonical_id)
    )


def city_message(row: Any) -> key_pb2.City:
    """Return a city with its spellings."""
    return key_pb2.City(
        city_id=str(row.id),
        name=row.name,
        aliases=row.aliases or (),
        canonical_id=_text(row.canonical_id),
        known=row.known,
    )


def season_message(row: Any, spellings: Sequence[Any]) -> key_pb2.Season:
    """Return a season; `spellings` may hold those of other seasons too."""
    return key_pb2.Season(
        season_code=row.code,
        name=row.name,
        known=row.known,
        canonical_code=row.canonical_code or "",
        aliases=[
            key_pb2.SeasonAlias(alias=spelling.alias, line=spelling.line)
            for spelling in spellings
            if spelling.season_code == row.code
        ],
    )


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
