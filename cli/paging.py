"""Read what comes in pages to its end."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

from cli.connection import CALL_SECONDS


class _Page(Protocol):
    next_page_token: str


PageT = TypeVar("PageT", bound=_Page)


async def pages(
    ask: Callable[..., Awaitable[PageT]], request: Any, *, seconds: float = CALL_SECONDS
) -> AsyncIterator[PageT]:
    """Yield the answers to a request and those that follow it; `seconds` bounds the wait for each."""
    while True:
        page = await ask(request, timeout=seconds)
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token
