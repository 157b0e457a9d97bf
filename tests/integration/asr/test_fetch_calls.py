"""The calls of a run that fetches: fenced, repeatable, and strict about where pieces go."""

from uuid import uuid4

import grpc
import pytest
from frontrow.asr.v1 import live_material_pb2
from frontrow.asr.v1 import live_material_service_pb2 as pb
from frontrow.asr.v1 import transcription_service_pb2 as run_pb

from tests.integration.asr.bed import LEASE_LOST, Bed, messages, refusal

SHA1 = "a" * 40


class Fetching:
    """A material that is to be fetched, and its current run."""

    def __init__(self, bed: Bed, material: live_material_pb2.LiveMaterial) -> None:
        self.bed, self.material = bed, material
        self.version = 0
        self.fetch = run_pb.MediaFetch()

    @classmethod
    async def begun(cls, bed: Bed) -> "Fetching":
        request = pb.CreateLiveMaterialRequest(name=f"{uuid4()}", media_url="https://host/a/b.mp4?x=1")
        made = cls(bed, (await bed.materials.CreateLiveMaterial(request)).live_material)
        await made.begin()
        return made

    async def begin(self) -> None:
        task = await self.bed.claim(self.material.asr_task_id)
        self.task = task
        answer = await self.bed.begin(self.material, task.version)
        self.version, self.fetch = answer.asr_version, answer.fetch

    async def save(self, offset: int, size: int, key: str = "", **more: object) -> int:
        piece = run_pb.FetchedPiece(
            object_key=key or f"uploads/{self.fetch.upload_id}/{offset}", size_bytes=size
        )
        given = {"asr_version": self.version, "validator": '"v1"', "total_bytes": 100} | more
        request = run_pb.SaveFetchedPieceRequest(
            material_id=self.material.id,
            offset=offset,
            piece=piece,
            **given,  # type: ignore[arg-type]
        )
        return int((await self.bed.runs.SaveFetchedPiece(request)).committed_bytes)

    async def finish(self, key: str = "", **more: object) -> None:
        given = {"asr_version": self.version, "size_bytes": 100, "sha1": SHA1} | more
        request = run_pb.FinishFetchRequest(
            material_id=self.material.id,
            media_key=key or f"recordings/{self.fetch.upload_id}/original-{self.version}",
            **given,  # type: ignore[arg-type]
        )
        await self.bed.runs.FinishFetch(request)


async def test_pieces_are_handed_to_the_next_run_and_the_older_one_is_refused(bed: Bed) -> None:
    fetching = await Fetching.begun(bed)
    assert (fetching.fetch.url, list(fetching.fetch.pieces)) == ("https://host/a/b.mp4?x=1", [])
    assert [await fetching.save(0, 40), await fetching.save(40, 30), await fetching.save(40, 30)] == [
        40,
        70,
        70,
    ]
    older = fetching.version
    await bed.finish(fetching.task, released=True)
    await fetching.begin()
    assert [piece.size_bytes for piece in fetching.fetch.pieces] == [40, 30]
    assert (fetching.fetch.validator, fetching.fetch.size_bytes) == ('"v1"', 100)
    assert await refusal(fetching.save(70, 10, asr_version=older)) == LEASE_LOST
    assert await refusal(fetching.finish(asr_version=older)) == LEASE_LOST
    assert await fetching.save(70, 30) == 100


async def test_a_whole_recording_is_given_once_and_again_by_a_repeat_only(bed: Bed) -> None:
    fetching = await Fetching.begun(bed)
    await fetching.save(0, 40)
    await fetching.finish()
    await fetching.finish()
    assert await refusal(fetching.finish(f"recordings/{fetching.fetch.upload_id}/other")) == LEASE_LOST
    material = await bed.read(fetching.material.id)
    assert (material.size_bytes, material.sha1, material.file_name) == (100, SHA1, "b.mp4")
    repeated = await bed.begin(fetching.material, fetching.task.version)
    assert not repeated.HasField("fetch")
    assert repeated.media_key == f"recordings/{fetching.fetch.upload_id}/original-{fetching.version}"


async def test_a_piece_at_the_beginning_drops_what_was_kept(bed: Bed) -> None:
    fetching = await Fetching.begun(bed)
    await fetching.save(0, 40)
    again = f"uploads/{fetching.fetch.upload_id}/again"
    assert await fetching.save(0, 10, again, validator='"v2"', total_bytes=50) == 10
    await bed.finish(fetching.task, released=True)
    await fetching.begin()
    assert [piece.object_key for piece in fetching.fetch.pieces] == [again]
    assert (fetching.fetch.validator, fetching.fetch.size_bytes) == ('"v2"', 50)


@pytest.mark.parametrize(
    ("offset", "size", "reason"), [(50, 10, "OFFSET_MISMATCH"), (40, 61, "UPLOAD_OVERRUN")]
)
async def test_a_piece_that_does_not_follow_is_refused(bed: Bed, offset: int, size: int, reason: str) -> None:
    fetching = await Fetching.begun(bed)
    await fetching.save(0, 40)
    assert await refusal(fetching.save(offset, size)) == (grpc.StatusCode.FAILED_PRECONDITION, reason)


async def test_objects_of_others_are_neither_pieces_nor_recordings(bed: Bed) -> None:
    fetching = await Fetching.begun(bed)
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    assert (await refusal(fetching.save(0, 40, "uploads/other/0")))[0] is invalid
    assert (await refusal(fetching.finish("recordings/other/original")))[0] is invalid
    resumed = bed.materials.UploadMedia(messages(b"x", upload_id=fetching.fetch.upload_id))
    assert (await refusal(resumed))[0] is invalid
