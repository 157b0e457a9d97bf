"""What a backup says of itself: written last, so that a folder with a manifest is a whole backup.

manifest.json    what is here, of when, and the hashes of the two files below
database.dump    all schemas, in pg_dump's custom format
SHA256SUMS       the hash of each object, in sha256sum's form
objects/         the objects, by their keys
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from libs.common.objects.copying import Copied
from services.place import Refused

MANIFEST = "manifest.json"
DUMP = "database.dump"
SUMS = "SHA256SUMS"
OBJECTS = "objects"


class NoBackup(Refused):
    """Say why a folder can't be used as a backup, or for one."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ContextPart(_Part):
    """A context's schema: its revision ('' when it was never migrated) and the rows of each table."""

    revision: str
    rows: dict[str, int]


class FilePart(_Part):
    """A file of the backup."""

    size_bytes: int
    sha256: str


class ObjectsPart(_Part):
    """The objects: how many, how large together, and the hash of the file of their hashes."""

    count: int
    size_bytes: int
    sums_sha256: str


class Manifest(_Part):
    """All of it. `lost` are objects that rows need and the store hadn't, or had with other bytes."""

    format: Literal[1] = 1
    created_at: datetime
    frontrow: str
    postgresql: str
    pg_dump_major: int
    contexts: dict[str, ContextPart]
    database: FilePart
    objects: ObjectsPart
    lost: list[str]


def write_sums(folder: Path, objects: Mapping[str, Copied]) -> ObjectsPart:
    """Write the hashes of the objects; return what the manifest says of them."""
    lines = (f"{found.sha256}  {OBJECTS}/{key}\n" for key, found in sorted(objects.items()))
    _write(folder / SUMS, "".join(lines))
    total = sum(found.size_bytes for found in objects.values())
    sums = hash_file(folder / SUMS).sha256
    return ObjectsPart(count=len(objects), size_bytes=total, sums_sha256=sums)


def read_sums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each object by its key. Raises NoBackup."""
    sums = {}
    for line in (folder / SUMS).read_text(encoding="utf-8").splitlines():
        sha256, separator, path = line.partition(f"  {OBJECTS}/")
        if not separator:
            raise NoBackup(f"{folder / SUMS} has a line that is none of ours: {line[:100]!r}")
        sums[path] = sha256
    return sums


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest: from here on the folder is a backup."""
    _write(folder / MANIFEST, manifest.model_dump_json(indent=2) + "\n")


def read(folder: Path) -> Manifest:
    """Return the manifest after a look at the files that it names. Raises NoBackup."""
    try:
        manifest = Manifest.model_validate_json((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NoBackup(f"{folder} is no backup, or was never finished: there is no {MANIFEST}") from None
    except (ValidationError, UnicodeDecodeError) as error:
        raise NoBackup(f"{folder / MANIFEST} isn't one that this release understands") from error
    wanted = {DUMP: manifest.database.sha256, SUMS: manifest.objects.sums_sha256}
    for name, sha256 in wanted.items():
        path = folder / name
        if not path.is_file() or hash_file(path).sha256 != sha256:
            raise NoBackup(f"{path} is missing or damaged: its SHA-256 isn't the manifest's")
    return manifest


def hash_file(path: Path) -> FilePart:
    """Return a file's size and hash."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return FilePart(size_bytes=path.stat().st_size, sha256=sha256)


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all, and durably."""
    draft = path.with_name(f".{path.name}.new")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
