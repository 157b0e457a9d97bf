"""The audio tracks that a run found are shown with the material."""

from uuid import UUID

import grpc
from frontrow.asr.v1 import live_material_pb2
from frontrow.asr.v1 import live_material_service_pb2 as pb
from sqlalchemy import update

from libs.common.db import Database
from services.asr.models import live_materials
from tests.integration.asr.bed import Bed, refusal
from tests.integration.asr.made_transcripts import results

TRACKS = [
    live_material_pb2.AudioTrack(index=0, codec="ac3", channels=6, sample_rate=48_000, language="eng"),
    live_material_pb2.AudioTrack(index=2, codec="aac", channels=2, sample_rate=44_100, transcribed=True),
]


async def begun(bed: Bed) -> tuple[live_material_pb2.LiveMaterial, int]:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    return material, (await bed.begin(material, task.version)).asr_version


async def test_the_tracks_that_a_run_tells_are_shown_alone_and_in_lists(bed: Bed) -> None:
    material, version = await begun(bed)
    assert not (await bed.read(material.id)).audio_tracks
    await bed.runs.CompleteTranscription(results(material.id, version, ["一"], audio_tracks=TRACKS))
    assert list((await bed.read(material.id)).audio_tracks) == TRACKS
    listed = await bed.materials.ListLiveMaterials(pb.ListLiveMaterialsRequest(keywords=material.name))
    assert [list(found.audio_tracks) for found in listed.live_materials] == [TRACKS]


async def test_a_run_that_tells_of_no_tracks_leaves_them_unknown(bed: Bed) -> None:
    material, version = await begun(bed)
    await bed.complete(material.id, version, ["一"])
    assert not (await bed.read(material.id)).audio_tracks


async def test_more_tracks_than_are_stored_are_refused(bed: Bed) -> None:
    material, version = await begun(bed)
    call = bed.runs.CompleteTranscription(results(material.id, version, ["一"], audio_tracks=TRACKS * 33))
    assert (await refusal(call))[0] is grpc.StatusCode.INVALID_ARGUMENT


async def test_what_a_later_release_knows_of_a_track_hides_no_material(bed: Bed, database: Database) -> None:
    material = await bed.material()
    tracks = [{"index": 1, "codec": "aac", "loudness_lufs": -23.0}]
    async with database.begin() as session:
        mine = update(live_materials).where(live_materials.c.id == UUID(material.id))
        await session.execute(mine.values(audio_tracks=tracks))
    [shown] = (await bed.read(material.id)).audio_tracks
    assert (shown.index, shown.codec) == (1, "aac")
