"""What SubmitGallery is measured against: a bare server whose call, unsigned, inserts one row.

No checks, no telemetry, no coalescing: the request is parsed, and a pool's connection inserts one row of the
gallery in a transaction of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal

import asyncpg
import grpc
from frontrow.ingest.v1 import ingest_service_pb2, ingest_service_pb2_grpc

from libs.common.context_server import OPTIONS
from libs.common.ids import uuid7

TABLE = """
CREATE TABLE IF NOT EXISTS submissions (
    id uuid PRIMARY KEY, source text NOT NULL, source_url text NOT NULL, gallery bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
)
"""
INSERT = "INSERT INTO submissions (id, source, source_url, gallery) VALUES ($1, $2, $3, $4)"


class Unsigned(ingest_service_pb2_grpc.IngestServiceServicer):
    """Takes whatever comes."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        self._pool = pool

    async def SubmitGallery(
        self, request: ingest_service_pb2.SubmitGalleryRequest, context: object
    ) -> ingest_service_pb2.SubmitGalleryResponse:
        """Insert one row."""
        gallery, job_id = request.gallery, uuid7()
        await self._pool.execute(
            INSERT, job_id, gallery.source, gallery.source_url, gallery.SerializeToString()
        )
        return ingest_service_pb2.SubmitGalleryResponse(job_id=str(job_id), accepted=True)


async def main() -> None:
    """Serve until SIGTERM."""
    url = os.environ["FRONTROW_DATABASE_URL"]
    async with asyncpg.create_pool(url, min_size=10, max_size=10) as pool:
        await pool.execute(TABLE)
        server = grpc.aio.server(options=OPTIONS)
        ingest_service_pb2_grpc.add_IngestServiceServicer_to_server(Unsigned(pool), server)
        server.add_insecure_port(os.environ["FRONTROW_INGEST_LISTEN"])
        await server.start()
        asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
        await asked.wait()
        await server.stop(1.0)


if __name__ == "__main__":
    asyncio.run(main())
