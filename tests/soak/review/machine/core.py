"""What every rule stands on: the rig, one step held against its prediction, and the rules after each step."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import grpc.aio
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from libs.common.client import error_info
from services.review import repository_media
from tests.integration.review.gallery import Gallery
from tests.soak.review.algebra import due, faults, idle, public
from tests.soak.review.picture import Draft, Key, Picture
from tests.soak.review.rig import NAMES, PICTURES, SERVERS, Rig
from tests.soak.review.step import Step
from tests.soak.review.steps_editor import SLOTS, allows

T = TypeVar("T")
Item = TypeVar("Item")

picks = st.integers(0, 95)
servers = st.integers(0, SERVERS - 1)
names = st.sampled_from([0, 0, *range(NAMES)])
slots = st.sampled_from([0, 0, 1, *range(len(SLOTS["runway"]))])
kinds = st.sampled_from(["street_snap", "street_snap", "runway"])
galleries = st.lists(st.integers(0, PICTURES - 1), min_size=1, max_size=4, unique=True)


class Core(RuleBasedStateMachine):
    """One example: no draft, no picture, names that stand for themselves.

    No rule has a precondition, since what it would look at may depend on a race: then the same example, run
    again, would be another one. A rule that finds nothing to act on does nothing.
    """

    rig: Rig

    def __init__(self) -> None:
        super().__init__()
        self.official_ids: dict[Key, int] = {}
        self.jobs = 0
        self.rig.run(self.rig.begin())
        self.picture = self.rig.run(self.rig.look())

    def client(self, server: int) -> Gallery:
        """Return a client of one of the servers."""
        return self.rig.clients[server]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work in the rig's loop."""
        return self.rig.run(work)

    def some_draft(self, pick: int, action: str = "") -> Draft | None:
        """Return one of the drafts, None without any; mostly one whose state allows the action."""
        drafts = list(self.picture.drafts.values())
        if pick % 6:
            drafts = [draft for draft in drafts if allows(draft, action)] or drafts
        return drafts[pick // 6 % len(drafts)] if drafts else None

    def new_job(self) -> str:
        """Return the id of a job that nobody had."""
        self.jobs += 1
        return f"machine-{self.jobs}"

    def step(self, server: int, step: Step) -> bool:
        """Do a step; everything must be as predicted. Tell whether it was done rather than refused."""
        before, wanted = self.picture, step.refusal(self.picture)
        refusal = reply = None
        try:
            reply = self.run(step.do(self.rig, self.client(server)))
        except grpc.aio.AioRpcError as error:
            refusal = error
        self.rig.outcomes[f"{step.name}: {wanted or 'done'}"] += 1
        if refusal is not None:
            assert error_info(refusal).reason == wanted, f"{step}: {refusal.details()}, not {wanted}"
            self._same(before, self._looked(), step)
            return False
        assert wanted is None, f"{step} had to be refused: {wanted}"
        after = self._looked()
        ids = {row.key: row.id for row in after.media.values()}
        self._same(step.after(before, reply, ids), after, step)
        return True

    def _looked(self) -> Picture:
        self.picture = self.run(self.rig.look())
        return self.picture

    def learn(self) -> None:
        """Take things as they are, after what can't be predicted."""
        self._looked()

    @staticmethod
    def _same(expected: Picture, actual: Picture, step: Step) -> None:
        assert actual.drafts == expected.drafts, step
        assert actual.media == expected.media, step
        assert actual.pointers == expected.pointers, step

    @invariant()
    def no_rule_is_broken(self) -> None:
        """Compare official rows, references, media and history with the rules."""
        self.rig.steps += 1
        assert list(faults(self.picture, self.rig.objects())) == []
        for key, official in self.picture.officials.items():
            assert self.official_ids.setdefault(key, official.id) == official.id, "an id changed"

    @invariant()
    def the_clean_up_counts_true_references(self) -> None:
        """Compare what a clean-up would do now, and which pictures are public, with the drafts and rows."""
        self.run(self._compare_references(self.picture))

    async def _compare_references(self, picture: Picture) -> None:
        report = await self.rig.care(0).clean_up(actor="", apply=False)
        originals = [row for row in picture.media.values() if not row.parent_key]
        to_mark = [row for row in originals if idle(picture, row, 0) and row.marked is None]
        to_delete = sorted(row.key for row in originals if due(picture, row, 0))
        told = (report.total_count, report.marked_count, report.deleted_count, sorted(report.deleted_keys))
        assert told == (len(originals), len(to_mark), len(to_delete), to_delete)
        shown = public(picture)
        if originals:
            row = pick_of(originals, self.rig.steps)
            async with self.rig.database.begin() as session:
                found = await repository_media.find_shown(session, row.key, public=True)
            assert (found is not None) == (row.id in shown and row.state == "live"), row


def pick_of(items: Sequence[Item], pick: int) -> Item:
    """Return one of the items."""
    return items[pick % len(items)]
