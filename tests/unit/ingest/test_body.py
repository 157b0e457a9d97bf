"""Packed bodies are unpacked part by part, however much one piece of them holds."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest

from services.ingest.worker.body import PART_BYTES, Sink, unpacker
from services.ingest.worker.problems import ImageProblem


@pytest.mark.parametrize("size", [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 20_000_000])
@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate"])
def test_one_piece_that_holds_much_comes_in_small_parts(size: int, encoding: str) -> None:
    body = bytes(size)
    packed = zlib.compress(body, 9) if encoding == "deflate" else gzip.compress(body, 9)
    parts = list(unpacker(encoding)(packed))
    assert max(map(len, parts)) <= PART_BYTES
    assert b"".join(parts) == body


def test_a_body_in_pieces_is_whole_and_what_follows_its_end_is_left_out() -> None:
    body = bytes(range(256)) * 5000
    packed = gzip.compress(body) + b"trailer" * 100
    unpack = unpacker("gzip")
    pieces = [packed[at : at + 97] for at in range(0, len(packed), 97)]
    assert b"".join(part for piece in pieces for part in unpack(piece)) == body


def test_a_bomb_ends_at_the_limit_with_no_part_behind_it_made(tmp_path: Path) -> None:
    limit, made = 1_000_000, 0
    unpack = unpacker("gzip")

    def counted(chunk: bytes) -> object:
        nonlocal made
        for part in unpack(chunk):
            made += len(part)
            yield part

    with Sink(tmp_path / "image", limit) as sink, pytest.raises(ImageProblem, match="TOO_LARGE"):
        sink.take(gzip.compress(bytes(50_000_000), 9), counted)  # type: ignore[arg-type]
    assert made <= limit + PART_BYTES
    assert (tmp_path / "image").stat().st_size <= limit


def test_a_broken_packing_is_worth_another_try() -> None:
    with pytest.raises(ImageProblem, match="CUT_SHORT"):
        list(unpacker("gzip")(b"no gzip at all"))
