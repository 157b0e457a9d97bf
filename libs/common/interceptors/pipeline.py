"""Put every step around every handler: the one gRPC interceptor of a server.

The steps are async context managers, the same for all four shapes of a method, so each concern is written
once. Request messages pass `raw.receive` and `validate.check` in front of the handler.

Streamed answers are written by a coroutine here rather than handed to gRPC as a generator: gRPC drops a
generator without closing it when a client goes away, and the handler's `finally` would run at some later
garbage collection, after the database is closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any, TypeAlias

import grpc

from libs.common.interceptors.call import ServedCall, ServicerContext, Shape, Step
from libs.common.interceptors.raw import Received, receive, receiver
from libs.common.interceptors.validate import RequestValidator

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"

Behaviour = Callable[..., Any]


class Pipeline(grpc.aio.ServerInterceptor):
    """Surround every handler with `steps`, outermost first, and check its requests with `validator`."""

    def __init__(self, steps: Sequence[Step], validator: RequestValidator) -> None:
        self._steps = tuple(steps)
        self._validator = validator
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

        async def unary(request: Any, context: ServicerContext) -> bytes:
            return await self._serve_unary(ServedCall(method, shape, context), behaviour, request, serialise)

        async def stream(request: Any, context: ServicerContext) -> None:
            await self._serve_stream(ServedCall(method, shape, context), behaviour, request)

        make = getattr(grpc, f"{shape.value}_rpc_method_handler")
        made: Handler = make(
            stream if shape.response_streaming else unary,
            request_deserializer=receiver(handler.request_deserializer),
            response_serializer=serialise if shape.response_streaming else _as_it_is,
        )
        return made

    async def _serve_unary(
        self, call: ServedCall, behaviour: Behaviour, request: Any, serialise: Callable[[Any], bytes]
    ) -> bytes:
        async with AsyncExitStack() as stack:
            for step in self._steps:
                await stack.enter_async_context(step(call))
            # Serialised here: where gRPC does it, a wrong answer's error text would go to the client.
            return serialise(await behaviour(self._accept(call, request), call.context))

    async def _serve_stream(self, call: ServedCall, behaviour: Behaviour, request: Any) -> None:
        async with AsyncExitStack() as stack:
            for step in self._steps:
                await stack.enter_async_context(step(call))
            answers = behaviour(self._accept(call, request), call.context)
            if not hasattr(answers, "__aiter__"):
                await answers  # written with context.write
                return
            async with aclosing(answers):
                async for answer in answers:
                    await call.context.write(answer)

    def _accept(self, call: ServedCall, request: Any) -> Any:
        if call.shape.request_streaming:
            return self._accept_each(request)
        return self._accept_one(request)

    def _accept_one(self, received: Received) -> Any:
        message = receive(received)
        self._validator.check(message, received.raw)
        return message

    async def _accept_each(self, requests: AsyncIterator[Received]) -> AsyncIterator[Any]:
        async for received in requests:
            yield self._accept_one(received)


def _as_it_is(serialised: bytes) -> bytes:
    return serialised


def _shape_of(handler: Handler) -> Shape:
    if handler.request_streaming:
        return Shape.STREAM_STREAM if handler.response_streaming else Shape.STREAM_UNARY
    return Shape.UNARY_STREAM if handler.response_streaming else Shape.UNARY_UNARY
