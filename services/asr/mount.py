"""Wire the asr context: the one seam between its settings and a running server."""

from collections.abc import Awaitable, Callable
from uuid import UUID

import grpc.aio
from frontrow.asr.v1 import live_material_service_pb2_grpc as material_rpc
from frontrow.asr.v1 import slicing_service_pb2_grpc as slicing_rpc
from frontrow.asr.v1 import transcription_service_pb2_grpc as transcription_rpc
from frontrow.asr.v1 import video_project_service_pb2_grpc as project_rpc

from libs.common.client import connect
from libs.common.db import Database
from libs.common.follow import Follower
from libs.common.interceptors.admission import all_of
from libs.common.loops import Loop
from libs.common.objects import ObjectStore, open_store
from libs.common.outbox import OutboxRelay
from libs.common.readiness import DATABASE, DatabaseAnswers
from libs.common.server import Mounted
from libs.common.settings import CommonSettings
from libs.common.tasks import TaskPeer
from services.asr import peers, repository_run
from services.asr.loops.debug_cleanup import DebugCleanup
from services.asr.loops.paragraph_indexing import ParagraphIndexing
from services.asr.loops.removal import ObjectRemoval
from services.asr.models import outbox
from services.asr.repository_follow import MaterialFollowSource
from services.asr.repository_run import DRAFTS, PROJECTS, RunFollowSource
from services.asr.servicer_material import LiveMaterialServicer
from services.asr.servicer_project import VideoProjectServicer
from services.asr.servicer_slicing import SlicingServicer
from services.asr.servicer_transcription import TranscriptionServicer
from services.asr.settings import AsrSettings
from services.asr.states_project import DRAFT, PROJECT_TASKS
from services.asr.uploads import Uploads

SERVICE_NAMES = (
    "frontrow.asr.v1.LiveMaterialService",
    "frontrow.asr.v1.TranscriptionService",
    "frontrow.asr.v1.VideoProjectService",
    "frontrow.asr.v1.SlicingService",
)

_KEEPS_WORK = {
    **all_of(
        "frontrow.asr.v1.TranscriptionService",
        "SaveFetchedPiece",
        "FinishFetch",
        "UpdateTranscriptionProgress",
        "SaveTranscriptPart",
        "CompleteTranscription",
        "FailTranscription",
    ),
    **all_of("frontrow.asr.v1.SlicingService", "SaveClips", "SaveDraft", "FailSlicing"),
}


async def mount(settings: AsrSettings, common: CommonSettings) -> Mounted:
    """Build the context over its database, the object store and the task service."""
    database = Database(common.database, "frontrow-asr")
    store = open_store(common.store)
    channel = connect(common.peers.task_address, transport=common.transport, actor="asr")
    peer = TaskPeer(channel)
    materials = MaterialFollowSource(database)
    relay = OutboxRelay(
        database,
        outbox,
        {peers.CREATE_TASK: peer.create_sender, peers.CANCEL_TASK: peer.cancel_sender},
        on_rejected=_on_rejected(database, materials),
    )

    def register(server: grpc.aio.Server) -> None:
        uploads = Uploads(database, store, part_bytes=settings.upload_part_bytes)
        material_rpc.add_LiveMaterialServiceServicer_to_server(
            LiveMaterialServicer(database, store, uploads, relay.wake), server
        )
        transcription_rpc.add_TranscriptionServiceServicer_to_server(TranscriptionServicer(database), server)
        project_rpc.add_VideoProjectServiceServicer_to_server(
            VideoProjectServicer(database, store, relay.wake), server
        )
        slicing_rpc.add_SlicingServiceServicer_to_server(SlicingServicer(database), server)

    answers = DatabaseAnswers(common.database, "frontrow-asr-health")

    async def close() -> None:
        await channel.close()
        await answers.close()
        await database.close()

    followers = _followers(database, peer, materials, settings)
    loops = [relay, *followers, *_housekeeping(database, store, settings)]
    checks = {DATABASE: answers.check, "store": store.check}
    return Mounted(register, SERVICE_NAMES, loops, close, urgent=_KEEPS_WORK, checks=checks)


def _followers(
    database: Database, peer: TaskPeer, materials: MaterialFollowSource, settings: AsrSettings
) -> list[Loop]:
    """Return the loops that bring what becomes of tasks to the rows that they work for."""
    every = settings.follow_interval_seconds
    projects, drafts = RunFollowSource(database, PROJECTS), RunFollowSource(database, DRAFTS)
    return [
        Follower(peer, materials, types=[peers.ASR_TASK], interval_seconds=every, name="asr.materials"),
        Follower(peer, projects, types=PROJECT_TASKS, interval_seconds=every, name="asr.projects"),
        Follower(peer, drafts, types=[DRAFT], interval_seconds=every, name="asr.drafts"),
    ]


def _housekeeping(database: Database, store: ObjectStore, settings: AsrSettings) -> list[Loop]:
    """Return the loops that remove what nobody needs and index what isn't."""
    return [
        ObjectRemoval(
            database,
            store,
            interval_seconds=settings.removal_interval_seconds,
            upload_keep_hours=settings.upload_keep_hours,
        ),
        DebugCleanup(
            database,
            store,
            interval_seconds=settings.debug_cleanup_interval_seconds,
            newest=settings.debug_keep_runs,
            total_bytes=settings.debug_keep_bytes,
        ),
        ParagraphIndexing(database, interval_seconds=settings.indexing_interval_seconds),
    ]


def _on_rejected(
    database: Database, materials: MaterialFollowSource
) -> Callable[[str, str, bytes, str], Awaitable[None]]:
    """Say on the row concerned that its task can never be made; a refused cancellation changes nothing."""

    async def on_rejected(subject: str, kind: str, body: bytes, reason: str) -> None:
        if kind != peers.CREATE_TASK:
            return
        owner, _, owner_id = subject.partition(":")
        if owner == "live_material":
            await materials.rejected(owner_id, peers.created_task_id(body), reason)
        elif rows := {"video_project": PROJECTS, "editing_draft": DRAFTS}.get(owner):
            async with database.begin() as session:
                await repository_run.rejected(session, rows, UUID(owner_id), reason)

    return on_rejected
