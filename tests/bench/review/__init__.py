"""The review context: what an approval costs, how quickly lists and look-ups are in a large archive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.bench.bed import Bed
from tests.bench.report import Figure
from tests.bench.review import approve, cleanup, lists, similar

BENCHMARKS: dict[str, Callable[[Bed], Awaitable[list[Figure]]]] = {
    "approve": approve.one_editor,
    "approve-hot": approve.hot,
    "approve-many": approve.many,
    # in this order: the last one takes images out of the archive that they share
    "lists": lists.measure,
    "similar": similar.measure,
    "cleanup": cleanup.measure,
}
