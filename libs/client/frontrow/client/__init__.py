"""Submit galleries to Frontrow, signed.

    with SpiderClient("ingest.example:7101", key_id="fk_…", secret="…", credentials=tls) as client:
        submission = client.submit(gallery)
        job = client.get_job(submission.job_id)

`AsyncSpiderClient` is the same for asyncio. Both sign each attempt with a fresh nonce and repeat it under
the same request id, so that a lost answer never makes a second job. Needs grpcio and protobuf alone.
"""

from frontrow.client.aio import AsyncSpiderClient
from frontrow.client.refusal import Refused
from frontrow.client.retry import Submission
from frontrow.client.signing import METHOD, sign
from frontrow.client.sync import SpiderClient

__all__ = ["METHOD", "AsyncSpiderClient", "Refused", "SpiderClient", "Submission", "sign"]
