"""What stands in the review schema, read by plain SQL that shares nothing with the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import asyncpg

GRACE_HOURS = 24
# vocabulary: (table, identity, pointer, end of the chain)
VOCABULARIES = {
    "city": ("cities", "id", "canonical_id", "root_id"),
    "brand": ("brands", "id", "canonical_id", "root_id"),
    "season": ("seasons", "code", "canonical_code", "root_code"),
}
_DRAFTS = {"runway": "brand_runway_draft", "street_snap": "street_snap_draft"}
_OFFICIALS = {"runway": "brand_runway", "street_snap": "street_snap"}
# own parts of a key: (vocabulary or None, column)
_PARTS: dict[str, tuple[tuple[str | None, str], ...]] = {
    "runway": (("brand", "brand_id"), ("season", "season_code"), (None, "collection_key")),
    "street_snap": (("city", "city_id"), (None, "year"), (None, "month")),
}
Id = int | str
Key = tuple[object, ...]


@dataclass(frozen=True)
class Image:
    """An image of a draft."""

    media_id: int
    caption: str
    hidden: bool
    id: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Draft:
    """A draft. `parts` are those of its own key, before canonical names; None and year 0 are missing ones."""

    kind: str
    id: int
    job_id: str
    source_url: str
    title: str
    parts: Key
    status: str
    deleted: bool
    revision: int
    cover: int | None
    images: tuple[Image, ...]

    @property
    def etag(self) -> str:
        """Return what the service must call this revision."""
        return f"{self.kind[0]}{self.id}-{self.revision}"

    @property
    def complete(self) -> bool:
        """Tell whether no part of the key is missing."""
        needed = self.parts[:2]
        return None not in needed and 0 not in needed

    @property
    def shown(self) -> bool:
        """Tell whether an official row shows it."""
        return self.status == "approved" and not self.deleted

    @property
    def visible(self) -> list[int]:
        """Return the media ids of what isn't hidden, in order."""
        return [image.media_id for image in self.images if not image.hidden]


@dataclass(frozen=True)
class Media:
    """A media row; times in whole hours ago."""

    key: str
    state: str
    touched: int
    marked: int | None
    parent_key: str
    sha256: str
    id: int = field(compare=False)


@dataclass(frozen=True)
class Official:
    """An official row and its images as (media id, caption, draft id)."""

    id: int
    title: str
    cover: int | None
    image_count: int
    hidden: bool
    images: tuple[tuple[int, str, int], ...]


@dataclass(frozen=True)
class Picture:
    """All of it at one moment. Keys of official rows are (kind, parts)."""

    drafts: Mapping[tuple[str, int], Draft]
    officials: Mapping[Key, Official]
    media: Mapping[str, Media]
    pointers: Mapping[str, Mapping[Id, Id | None]]
    roots: Mapping[str, Mapping[Id, Id]]
    last_revisions: Mapping[tuple[str, int], int]

    def root(self, vocabulary: str, identity: Id) -> Id:
        """Return where the pointers of a name end."""
        while (further := self.pointers[vocabulary][identity]) is not None:
            identity = further
        return identity

    def key_of(self, draft: Draft) -> Key | None:
        """Return the key that the draft is promoted under, None while it lacks a part."""
        if not draft.complete:
            return None
        named = zip(_PARTS[draft.kind], draft.parts, strict=True)
        return (
            draft.kind,
            *(part if name is None else self.root(name, part) for (name, _), part in named),  # type: ignore[arg-type]
        )

    def media_by_id(self) -> dict[int, Media]:
        """Return the media rows by id."""
        return {row.id: row for row in self.media.values()}


async def look(connection: asyncpg.Connection, own: Mapping[str, Sequence[Id]]) -> Picture:
    """Read it in one snapshot; `own` are the names of this example, all others are left out."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        media = await _media(connection)
        drafts: dict[tuple[str, int], Draft] = {}
        officials: dict[Key, Official] = {}
        for kind in _PARTS:
            drafts |= await _drafts(connection, kind)
            officials |= await _officials(connection, kind)
        pointers: dict[str, dict[Id, Id | None]] = {}
        roots: dict[str, dict[Id, Id]] = {}
        for name, (table, identity, pointer, root) in VOCABULARIES.items():
            columns = f"{identity} AS i, {pointer} AS p, {root} AS r"
            query = f"SELECT {columns} FROM review.{table} WHERE {identity} = ANY($1)"
            rows = await connection.fetch(query, own[name])
            pointers[name] = {row["i"]: row["p"] for row in rows}
            roots[name] = {row["i"]: row["r"] for row in rows}
        events = await connection.fetch("""
            SELECT kind, draft_id, max(revision) AS revision FROM review.draft_events GROUP BY kind, draft_id
        """)
        revisions = {(row["kind"], row["draft_id"]): row["revision"] for row in events}
    return Picture(drafts, officials, media, pointers, roots, revisions)


async def _media(connection: asyncpg.Connection) -> dict[str, Media]:
    rows = await connection.fetch("""
        SELECT m.id, m.key, m.state, m.sha256, coalesce(p.key, '') AS parent,
            floor(extract(epoch FROM now() - m.touched_at) / 3600)::int AS touched,
            floor(extract(epoch FROM now() - m.marked_at) / 3600)::int AS marked
        FROM review.media m LEFT JOIN review.media p ON p.id = m.parent_id
    """)
    return {
        row["key"]: Media(
            row["key"], row["state"], row["touched"], row["marked"], row["parent"], row["sha256"], row["id"]
        )
        for row in rows
    }


async def _drafts(connection: asyncpg.Connection, kind: str) -> dict[tuple[str, int], Draft]:
    table = _DRAFTS[kind]
    images: dict[int, list[Image]] = {}
    for row in await connection.fetch(f"SELECT * FROM review.{table}_images ORDER BY draft_id, position"):
        image = Image(row["media_id"], row["caption"], row["hidden"], row["id"])
        images.setdefault(row["draft_id"], []).append(image)
    rows = await connection.fetch(f"SELECT * FROM review.{table}s ORDER BY id")
    return {
        (kind, row["id"]): Draft(
            kind=kind,
            id=row["id"],
            job_id=row["job_id"],
            source_url=row["source_url"],
            title=row["title"],
            parts=tuple(row[column] for _, column in _PARTS[kind]),
            status=row["status"],
            deleted=row["is_deleted"],
            revision=row["revision"],
            cover=row["cover_media_id"],
            images=tuple(images.get(row["id"], ())),
        )
        for row in rows
    }


async def _officials(connection: asyncpg.Connection, kind: str) -> dict[Key, Official]:
    table = _OFFICIALS[kind]
    images: dict[int, list[tuple[int, str, int]]] = {}
    for row in await connection.fetch(f"SELECT * FROM review.{table}_images ORDER BY official_id, position"):
        shown = images.setdefault(row["official_id"], [])
        assert row["position"] == len(shown), "positions of an official row have holes"
        shown.append((row["media_id"], row["caption"], row["draft_id"]))
    rows = await connection.fetch(f"SELECT * FROM review.{table}s ORDER BY id")
    return {
        (kind, *(row[column] for _, column in _PARTS[kind])): Official(
            id=row["id"],
            title=row["title"],
            cover=row["cover_media_id"],
            image_count=row["image_count"],
            hidden=row["is_hidden"],
            images=tuple(images.get(row["id"], ())),
        )
        for row in rows
    }
