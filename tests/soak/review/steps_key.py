"""What administrators do to keys: merge, undo, and what is reported of it first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from frontrow.review.v1 import key_service_pb2 as pb

from tests.integration.review.gallery import Gallery, acting
from tests.soak.review.algebra import siblings
from tests.soak.review.picture import Id, Picture
from tests.soak.review.rig import Rig
from tests.soak.review.step import Step

_TYPES = {"city": pb.KEY_TYPE_CITY, "brand": pb.KEY_TYPE_BRAND, "season": pb.KEY_TYPE_SEASON}
_PLACES = {"city": ("street_snap", 0), "brand": ("runway", 0), "season": ("runway", 1)}


@dataclass(frozen=True)
class Merge(Step):
    """Point a key at another (None: at itself again), or report what that concerns."""

    vocabulary: str
    source: Id
    target: Id | None
    apply: bool

    @property
    def name(self) -> str:
        """See Step."""
        what = "unmerge" if self.target is None else "merge"
        return what if self.apply else f"report of a {what}"

    def refusal(self, before: Picture) -> str | None:
        """See Step."""
        pointed = before.pointers[self.vocabulary][self.source] is not None
        if self.target is None:
            return None if pointed else "KEY_NOT_MERGED"
        if pointed:
            return "KEY_MERGED"
        return "MERGE_CYCLE" if before.root(self.vocabulary, self.target) == self.source else None

    async def do(self, rig: Rig, client: Gallery) -> Any:
        """See Step."""
        common: dict[str, Any] = {"key_type": _TYPES[self.vocabulary], "apply": self.apply}
        who = acting("machine")
        if self.target is None:
            undo = pb.UnmergeKeysRequest(id=str(self.source), **common)
            return (await client.keys.UnmergeKeys(undo, metadata=who)).report
        request = pb.MergeKeysRequest(source_id=str(self.source), target_id=str(self.target), **common)
        return (await client.keys.MergeKeys(request, metadata=who)).report

    def after(self, before: Picture, reply: pb.MergeReport, ids: Mapping[str, int]) -> Picture:
        """See Step."""
        after = self._moved(before)
        assert reply == self._report(before, after), f"reported {reply}"
        return after if self.apply else before

    def _moved(self, before: Picture) -> Picture:
        pointers = {**before.pointers[self.vocabulary], self.source: self.target}
        return replace(before, pointers={**before.pointers, self.vocabulary: pointers})

    def _report(self, before: Picture, after: Picture) -> pb.MergeReport:
        moved = [
            draft
            for draft in before.drafts.values()
            if draft.kind == _PLACES[self.vocabulary][0] and self._below(before, draft.parts)
        ]
        shown = [draft for draft in moved if draft.shown]
        losing = {before.key_of(draft) for draft in shown}
        groups = siblings(before)
        return pb.MergeReport(
            draft_count=len(moved),
            shown_draft_count=len(shown),
            hidden_official_count=sum(set(groups[key]) <= set(shown) for key in losing if key),
            gaining_official_count=len({after.key_of(draft) for draft in shown}),
        )

    def _below(self, picture: Picture, parts: tuple[Any, ...]) -> bool:
        """Tell whether the own name of a draft is the source or points at it, directly or not."""
        own = parts[_PLACES[self.vocabulary][1]]
        return own is not None and self.source in _chain(picture, self.vocabulary, own)


def _chain(picture: Picture, vocabulary: str, identity: Id) -> Iterator[Id]:
    further: Id | None = identity
    while further is not None:
        yield further
        further = picture.pointers[vocabulary][further]
