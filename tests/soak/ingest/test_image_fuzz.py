"""Damaged images by the ten thousand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from services.ingest.worker.decode import Decoder
from services.ingest.worker.settings import IngestWorkerSettings
from tests.integration.ingest.mutations import IMAGES, REASONS, TYPES, mutated
from tests.integration.ingest.test_image_fuzz import DECODER_BYTES, decoders, ends, peak_bytes

MUTATIONS = 20_000


@pytest.mark.timeout(3600)
async def test_no_damage_breaks_a_decoder(
    share: float, tell: Callable[[object], None], tmp_path: Path
) -> None:
    seed = random.randrange(1 << 32)
    chance, found, peak = random.Random(seed), Counter[str](), 0
    bodies = [make() for make in IMAGES.values()]
    decoder = Decoder(IngestWorkerSettings(decoders=1, thumbnail_widths=(24, 64)))
    tell(f"seed {seed}")
    try:
        await ends(decoder, bodies[0], tmp_path)
        first = decoders()
        for _ in range(round(MUTATIONS * share)):
            body = mutated(chance.choice(bodies), chance)
            end = await ends(decoder, body, tmp_path)
            assert end in TYPES | REASONS, f"{end}: {body.hex()}"
            found[end] += 1
            peak = max(peak, *map(peak_bytes, decoders()))
        assert decoders() == first
        assert peak <= DECODER_BYTES
    finally:
        await decoder.close()
    tell(f"{found}, most memory {peak / 1e6:.0f} MB")
