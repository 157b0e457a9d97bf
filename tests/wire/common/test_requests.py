"""What is checked of a request before a handler sees it, and what a handler may know of it."""

import grpc
import pytest

from libs.common.client import connect, error_info
from libs.common.interceptors.context import acting_as, current_actor
from libs.common.interceptors.raw import raw_request
from tests.wire.common.probe import ASK, Part, Probe, Request, Response, failure, stub_on


async def violations_of(request: Request) -> dict[str, str]:
    """Send a request that must be refused and return the fields at fault."""
    async with Probe().serving() as stub:
        detail = error_info(await failure(stub.Ask(request, timeout=5)))
    assert detail.code is grpc.StatusCode.INVALID_ARGUMENT
    assert detail.reason == "INVALID_ARGUMENT"
    return {violation.field: violation.description for violation in detail.violations}


async def test_rules_of_the_proto_are_enforced_with_field_paths():
    found = await violations_of(Request(text="x" * 11, parts=[Part(url="a"), Part()]))
    assert set(found) == {"text", "parts[1].url"}
    assert "10" in found["text"]


async def test_a_small_message_that_unpacks_to_a_large_one_is_refused():
    async with Probe().serving() as stub:
        ask = stub.channel.unary_unary(ASK)
        error = await failure(ask(bytes(8_000_000), compression=grpc.Compression.Gzip, timeout=20))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in error.details()


async def test_nul_is_refused_wherever_a_text_is():
    request = Request(text="a\0", parts=[Part(url="b"), Part(url="\0")], labels={"k": "\0", "n\0": "v"})
    request.data.update({"deep": [{"er": "x\0y"}], "key\0": 1})
    found = await violations_of(request)
    assert set(found) == {
        "text",
        "parts[1].url",
        'labels["k"]',
        'labels["n\\0"]',
        'data.fields["deep"].list_value.values[0].struct_value.fields["er"].string_value',
        'data.fields["key\\0"]',
    }
    assert set(found.values()) == {"must not contain NUL"}


async def test_zero_bytes_outside_of_texts_are_fine():
    async with Probe().serving() as stub:
        answer = await stub.Ask(Request(text="ok", blob=b"\0\0", number=1), timeout=5)
    assert answer.text == "ok"


@pytest.mark.parametrize("bad", [b"\xed\xa0\x80", b"\xff", b"\xc3"], ids=["surrogate", "no UTF-8", "cut off"])
@pytest.mark.parametrize(
    ("build", "path"),
    [
        (lambda text: Request(text=text), "text"),
        (lambda text: Request(text="a", parts=[Part(url="b"), Part(url=text)]), "parts[1].url"),
        (lambda text: Request(labels={"k": text}), "labels[0].value"),
    ],
)
async def test_text_that_is_no_utf8_is_refused_with_its_path(bad, build, path):
    placeholder = "#" * len(bad)
    wire = build(placeholder).SerializeToString().replace(placeholder.encode(), bad)
    async with Probe().serving() as stub:
        detail = error_info(await failure(stub.channel.unary_unary(ASK)(wire, timeout=5)))
    assert detail.code is grpc.StatusCode.INVALID_ARGUMENT
    assert [violation.field for violation in detail.violations] == [path]


async def test_bytes_that_are_no_message_are_refused_and_not_internal():
    async with Probe().serving() as stub:
        detail = error_info(await failure(stub.channel.unary_unary(ASK)(b"\x0a\xff", timeout=5)))
    assert detail.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "probe.v1.AskRequest" in detail.message


async def test_each_message_of_a_client_stream_is_checked():
    seen = []

    async def upload(requests, _context):
        seen.extend([request.text async for request in requests])
        return Response(text="done")

    async with Probe(upload=upload).serving() as stub:
        good = await stub.Upload(iter([Request(text="a"), Request(text="b")]), timeout=5)
        assert good.text == "done"
        error = await failure(stub.Upload(iter([Request(text="c"), Request(text="d\0")]), timeout=5))
        undecodable = stub.channel.stream_unary("/probe.v1.Probe/Upload")
        broken = await failure(undecodable(iter([b"\x0a\x01\xff"]), timeout=5))
    assert seen == ["a", "b"]
    assert error.code() is broken.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error_info(broken).violations[0].field == "text"


async def test_a_handler_can_have_the_bytes_as_they_came():
    wire = b"\x0a\x01a" + b"\x9a\x06\x03new" + b"\x0a\x01b"  # an unknown field 99, and a field given twice

    async def ask(request, _context):
        assert raw_request() == wire
        assert request.SerializeToString() != wire
        return Response(text=request.text)

    async with Probe(ask=ask).serving() as stub:
        answer = await stub.channel.unary_unary(ASK)(wire, timeout=5)
    assert Response.FromString(answer).text == "b"


async def test_the_actor_travels_with_nested_calls_in_any_script():
    async def answer_actor(_request, _context):
        return Response(text=current_actor())

    async with Probe(ask=answer_actor).serving() as inner:

        async def forward(request, _context):
            return await inner.Ask(request)

        async with Probe(ask=forward).serving() as stub:
            assert (await stub.Ask(Request(), timeout=5)).text == ""
            plain = await stub.Ask(Request(), timeout=5, metadata=[("x-frontrow-actor", "anna@example.com")])
            assert plain.text == "anna@example.com"
            with acting_as("编辑 小王 100%"):
                assert (await stub.Ask(Request(), timeout=5)).text == "编辑 小王 100%"
        channel = connect(inner.address, actor="asr-worker")
        assert (await stub_on(channel).Ask(Request(), timeout=5)).text == "asr-worker"
        await channel.close()


async def test_an_actor_is_bounded_and_loses_control_characters():
    async def answer_actor(_request, _context):
        return Response(text=current_actor())

    async with Probe(ask=answer_actor).serving() as stub:
        sent = [("x-frontrow-actor", "a%00b%0A" + "c" * 500)]
        answer = await stub.Ask(Request(), timeout=5, metadata=sent)
    assert answer.text == "ab" + "c" * 198
