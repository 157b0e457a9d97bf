"""Put every step around every handler: the one gRPC interceptor of a server.

A step wraps what follows it in a coroutine of its own, the same for all four shapes of a method, so each
concern is written once. The steps are put together once a method: a call pays for the coroutines alone.
Request messages pass `raw.receive` and `validate.check` in front of the handler; in methods that check late
(`Mounted.checks_late`), when the handler asks for it.

Streamed answers are written by a coroutine here rather than handed to gRPC as a generator: gRPC drops a
generator without closing it when a client goes away, and the handler's `finally` would run at some later
garbage collection, after the database is closed.

A client may stop in the middle of a stream and set no deadline: what it holds is taken back after a while.
One that announces a single message and never sends it gets no further than gRPC: we never hear of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from libs.common.errors import DeadlineExceeded
from libs.common.interceptors.call import Serve, ServedCall, ServicerContext, Shape, Step
from libs.common.interceptors.raw import Received, postpone, receive, receiver
from libs.common.interceptors.validate import RequestValidator

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"

SILENCE_SECONDS = 120.0

Behaviour = Callable[..., Any]
Accept = Callable[[Any], Any]


class Pipeline(grpc.aio.ServerInterceptor):
    """Surround every handler with `steps`, outermost first, and check its requests with `validator`.

    `silence_seconds` is how long a client may keep the server waiting for the next message of a stream, or
    let an answer that it doesn't read wait. `checks_late` names the methods of one message whose handlers
    say when it is checked.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        validator: RequestValidator,
        *,
        silence_seconds: float = SILENCE_SECONDS,
        checks_late: Collection[str] = (),
    ) -> None:
        self._steps = tuple(steps)
        self._validator = validator
        self._checks_late = frozenset(checks_late)
        self._silence_seconds = silence_seconds
        self._wrapped: dict[str, Handler] = {}

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """Return the wrapped handler of the method, None (UNIMPLEMENTED) where there is none."""
        method = handler_call_details.method
        if method not in self._wrapped:
            handler = await continuation(handler_call_details)
            if handler is None:
                return None
            self._wrapped[method] = self._wrap(method, handler)
        return self._wrapped[method]

    def _wrap(self, method: str, handler: Handler) -> Handler:
        shape = _shape_of(handler)
        behaviour = getattr(handler, shape.value)
        serialise = handler.response_serializer or _as_it_is
        accept: Accept = self._accept_each if shape.request_streaming else self._accept_one
        if method in self._checks_late:
            accept = self._accept_unchecked
        if shape.response_streaming:
            serve = _streaming(behaviour, accept, self._silence_seconds)
        else:
            serve = _answering(behaviour, accept, serialise)
        for step in reversed(self._steps):
            serve = step(serve)

        async def begin(request: Any, context: ServicerContext) -> Any:
            return await serve(ServedCall(method, shape, context, request))

        make = getattr(grpc, f"{shape.value}_rpc_method_handler")
        made: Handler = make(
            begin,
            request_deserializer=receiver(handler.request_deserializer),
            response_serializer=serialise if shape.response_streaming else _as_it_is,
        )
        return made

    def _accept_one(self, received: Received) -> Any:
        message = receive(received)
        self._validator.check(message, received.raw)
        return message

    def _accept_unchecked(self, received: Received) -> Any:
        return postpone(received, self._accept_one)

    async def _accept_each(self, requests: AsyncIterator[Received]) -> AsyncIterator[Any]:
        following = requests.__aiter__()
        while True:
            try:
                async with asyncio.timeout(self._silence_seconds) as silence:
                    received = await anext(following, None)
            except TimeoutError as error:
                if not silence.expired():
                    raise
                raise DeadlineExceeded(
                    f"no message came for {self._silence_seconds:g} s; begin the call again"
                ) from error
            if received is None:
                return
            yield self._accept_one(received)


def _answering(behaviour: Behaviour, accept: Accept, serialise: Callable[[Any], bytes]) -> Serve:
    async def serve(call: ServedCall) -> bytes:
        # Serialised here: where gRPC does it, a wrong answer's error text would go to the client.
        return serialise(await behaviour(accept(call.request), call.context))

    return serve


def _streaming(behaviour: Behaviour, accept: Accept, silence_seconds: float) -> Serve:
    async def serve(call: ServedCall) -> None:
        answers = behaviour(accept(call.request), call.context)
        if not hasattr(answers, "__aiter__"):
            await answers  # written with context.write
            return
        async with aclosing(answers):
            async for answer in answers:
                try:
                    async with asyncio.timeout(silence_seconds) as unread:
                        await call.context.write(answer)
                except TimeoutError as error:
                    if not unread.expired():
                        raise
                    raise DeadlineExceeded(
                        f"an answer was not read for {silence_seconds:g} s; begin the call again"
                    ) from error

    return serve


def _as_it_is(serialised: bytes) -> bytes:
    return serialised


def _shape_of(handler: Handler) -> Shape:
    if handler.request_streaming:
        return Shape.STREAM_STREAM if handler.response_streaming else Shape.STREAM_UNARY
    return Shape.UNARY_STREAM if handler.response_streaming else Shape.UNARY_UNARY
