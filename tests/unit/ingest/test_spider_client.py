"""The ordinary spider client over grpc_testing's channel: what it sends, and when it sends again."""

from __future__ import annotations

import contextvars
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc
import grpc_testing
import pytest
from frontrow.client import METHOD, Refused, SpiderClient, Submission
from frontrow.client.signing import signature
from frontrow.ingest.v1 import gallery_pb2, ingest_service_pb2
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.sdk.trace import TracerProvider

SERVICE = ingest_service_pb2.DESCRIPTOR.services_by_name["IngestService"]
SUBMIT = SERVICE.methods_by_name["SubmitGallery"]
GALLERY = gallery_pb2.Gallery(
    kind=gallery_pb2.GALLERY_KIND_RUNWAY, title="秀", images=[gallery_pb2.GalleryImage(url="https://a/1")]
)


class Server:
    """The other end of the channel: it takes one call after the other and answers as told."""

    def __init__(self) -> None:
        self.channel = grpc_testing.channel([SERVICE], grpc_testing.strict_real_time())
        self.client = SpiderClient(
            "unused", key_id="fk_1", secret="s", channel=self.channel, deadline_seconds=5
        )
        self._pool = ThreadPoolExecutor(1)

    def submit(
        self, request_id: str = "", *, within: contextvars.Context | None = None
    ) -> Future[Submission]:
        """Submit in a thread."""
        context = within or contextvars.Context()
        return self._pool.submit(context.run, lambda: self.client.submit(GALLERY, request_id=request_id))

    def answer(
        self,
        code: grpc.StatusCode = grpc.StatusCode.OK,
        *,
        job_id: str = "",
        details: tuple[tuple[str, bytes], ...] = (),
    ) -> tuple[dict[str, str], ingest_service_pb2.SubmitGalleryRequest]:
        """Take the next call, check its signature, answer it, and return its metadata and request."""
        metadata, raw, call = self.channel.take_unary_unary(SUBMIT)
        sent = {key: str(value) for key, value in metadata}
        wanted = signature(
            "s",
            method=METHOD,
            timestamp=sent["x-frontrow-timestamp"],
            nonce=sent["x-frontrow-nonce"],
            request=raw,
        )
        assert sent["x-frontrow-signature"] == wanted
        call.send_initial_metadata(())
        response = ingest_service_pb2.SubmitGalleryResponse(job_id=job_id, accepted=True)
        call.terminate(response if code is grpc.StatusCode.OK else None, details, code, "told")
        return sent, ingest_service_pb2.SubmitGalleryRequest.FromString(raw)

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def status(*details: Any) -> tuple[tuple[str, bytes], ...]:
    """Pack details as a server does."""
    packed = []
    for detail in details:
        one = any_pb2.Any()
        one.Pack(detail)
        packed.append(one)
    return (("grpc-status-details-bin", status_pb2.Status(details=packed).SerializeToString()),)


def test_a_submission_belongs_to_the_trace_that_the_spider_is_in(server: Server) -> None:
    with TracerProvider().get_tracer("spider").start_as_current_span("crawl") as span:
        here = contextvars.copy_context()
    submitted = server.submit(within=here)
    sent, _ = server.answer(job_id="j1")
    submitted.result()
    assert sent["traceparent"].split("-")[1] == f"{span.get_span_context().trace_id:032x}"
    server.submit()
    sent, _ = server.answer(job_id="j2")
    assert "traceparent" not in sent


def test_a_submission_is_signed_over_the_very_bytes_and_gets_a_request_id(server: Server) -> None:
    submitted = server.submit()
    sent, request = server.answer(job_id="j1")
    assert submitted.result() == Submission("j1", True, request.request_id)
    assert request.gallery == GALLERY
    assert request.request_id.startswith("auto-")
    assert sent["x-frontrow-key-id"] == "fk_1"
    assert re.fullmatch("[A-Za-z0-9_-]{16,64}", sent["x-frontrow-nonce"])


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
    ],
)
def test_trouble_is_tried_again_with_a_fresh_nonce_and_the_same_request_id(
    server: Server, code: grpc.StatusCode
) -> None:
    submitted = server.submit("mine")
    calls = [server.answer(code), server.answer(code), server.answer(job_id="j2")]
    assert submitted.result() == Submission("j2", True, "mine")
    assert {request.request_id for _, request in calls} == {"mine"}
    assert len({sent["x-frontrow-nonce"] for sent, _ in calls}) == 3


def test_every_further_try_is_logged_with_the_reason_and_the_time_that_is_left(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    submitted = server.submit()
    server.answer(grpc.StatusCode.UNAVAILABLE)
    server.answer(job_id="j1")
    submitted.result()
    [record] = caplog.records
    assert (record.name, record.levelname) == ("frontrow.client.retry", "WARNING")
    assert re.fullmatch(
        r"the submission is tried again in 0\.[12] s, for [45] s more: UNAVAILABLE: told", record.getMessage()
    )


def test_a_refusal_is_not_tried_again_and_says_why(server: Server) -> None:
    submitted = server.submit()
    info = error_details_pb2.ErrorInfo(reason="CLOCK_SKEW", metadata={"server_time": "17"})
    server.answer(grpc.StatusCode.UNAUTHENTICATED, details=status(info))
    with pytest.raises(Refused) as refused:
        submitted.result()
    assert (refused.value.code, refused.value.reason) == (grpc.StatusCode.UNAUTHENTICATED, "CLOCK_SKEW")
    assert (refused.value.metadata, refused.value.message) == ({"server_time": "17"}, "told")


def test_a_pause_longer_than_the_deadline_is_not_waited_for(server: Server) -> None:
    submitted = server.submit()
    pause = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=60))
    info = error_details_pb2.ErrorInfo(reason="RATE_LIMITED")
    server.answer(grpc.StatusCode.RESOURCE_EXHAUSTED, details=status(info, pause))
    with pytest.raises(Refused) as refused:
        submitted.result()
    assert (refused.value.reason, refused.value.retry_after_seconds) == ("RATE_LIMITED", 60)


def test_an_answer_without_details_or_with_broken_ones_still_says_the_code(server: Server) -> None:
    for details in ((), (("grpc-status-details-bin", b"\xff\xff"),)):
        submitted = server.submit()
        server.answer(grpc.StatusCode.PERMISSION_DENIED, details=details)
        with pytest.raises(Refused) as refused:
            submitted.result()
        assert (refused.value.code, refused.value.reason) == (grpc.StatusCode.PERMISSION_DENIED, "")


def test_a_token_goes_with_questions_and_never_over_a_network_in_the_open() -> None:
    channel = grpc_testing.channel([SERVICE], grpc_testing.strict_real_time())
    client = SpiderClient("unused", key_id="fk_1", secret="s", token="t0k", channel=channel)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.get_job, "j1")
        metadata, _, call = channel.take_unary_unary(SERVICE.methods_by_name["GetIngestJob"])
        call.send_initial_metadata(())
        response = ingest_service_pb2.GetIngestJobResponse()
        response.job.job_id = "j1"
        call.terminate(response, (), grpc.StatusCode.OK, "")
        assert asked.result().job_id == "j1"
    assert ("authorization", "Bearer t0k") in [tuple(each) for each in metadata]
    with pytest.raises(ValueError, match="TLS"):
        SpiderClient("ingest.example:7101", key_id="fk_1", secret="s", token="t0k", plaintext=True)


def test_fields_at_fault_are_told_one_by_one(server: Server) -> None:
    submitted = server.submit()
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="gallery.images[3].url", description="must name a host")
    server.answer(grpc.StatusCode.INVALID_ARGUMENT, details=status(bad))
    with pytest.raises(Refused) as refused:
        submitted.result()
    assert refused.value.violations == (("gallery.images[3].url", "must name a host"),)


def test_a_channel_that_the_program_closed_ends_the_submission() -> None:
    called, release = threading.Event(), threading.Event()
    calls = []

    def submit(request: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append(request)
        called.set()
        release.wait()
        return b""

    service, method = METHOD.strip("/").split("/")
    handler = grpc.unary_unary_rpc_method_handler(submit)
    running = grpc.server(ThreadPoolExecutor(2))
    running.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    client = SpiderClient(f"127.0.0.1:{port}", key_id="fk_1", secret="s")
    with ThreadPoolExecutor(1) as pool:
        submitted = pool.submit(client.submit, GALLERY)
        called.wait()
        client.close()
        with pytest.raises(Refused) as refused:
            submitted.result()
    assert refused.value.code is grpc.StatusCode.CANCELLED
    assert len(calls) == 1
    release.set()
    running.stop(None).wait()
