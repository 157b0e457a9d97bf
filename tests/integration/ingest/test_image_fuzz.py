"""Damaged images of every kind: an image or a typed problem, and never more memory than the limit."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from services.ingest.worker.decode import Decoder
from services.ingest.worker.problems import ImageProblem
from services.ingest.worker.settings import IngestWorkerSettings
from tests.integration.ingest.mutations import IMAGES, REASONS, TYPES, mutated

MUTATIONS = 20
DECODER_BYTES = 800_000_000


@pytest.fixture(scope="module")
async def decoder() -> AsyncIterator[Decoder]:
    running = Decoder(IngestWorkerSettings(decoders=1, thumbnail_widths=(24, 64)))
    yield running
    await running.close()


async def ends(decoder: Decoder, body: bytes, folder: Path) -> str:
    """Decode and return the type, or the reason of the problem."""
    path = folder / "image"
    path.write_bytes(body)
    try:
        return (await decoder.decode(path)).content_type
    except ImageProblem as problem:
        return problem.reason


def decoders() -> set[int]:
    """Return the processes that decode."""
    return {child.pid for child in psutil.Process().children() if "decode_child" in " ".join(child.cmdline())}


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has held."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.mark.parametrize("kind", IMAGES)
async def test_a_damaged_image_is_an_image_or_a_typed_problem(
    decoder: Decoder, tmp_path: Path, kind: str
) -> None:
    body, chance = IMAGES[kind](), random.Random(kind)
    assert await ends(decoder, body, tmp_path) in TYPES
    before = decoders()
    found = {await ends(decoder, mutated(body, chance), tmp_path) for _ in range(MUTATIONS)}
    assert found <= TYPES | REASONS
    assert decoders() == before, "no image has broken a decoder"
    assert max(map(peak_bytes, before)) <= DECODER_BYTES
