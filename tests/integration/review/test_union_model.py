"""Promotion as algebra: after every step the official rows are the ordered unions that a model predicts."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.review.gallery import Gallery, unique

MONTHS = (0, 2, 8)
IMAGES = tuple(f"model{i}" for i in range(6))

galleries = st.lists(st.sampled_from(IMAGES), min_size=1, max_size=4, unique=True)
steps = st.one_of(
    st.tuples(st.just("submit"), st.sampled_from(MONTHS), galleries),
    st.tuples(
        st.sampled_from(["approve", "reject", "reopen", "delete", "undelete", "purge"]), st.integers(0, 7)
    ),
    st.tuples(st.just("month"), st.integers(0, 7), st.sampled_from(MONTHS)),
    st.tuples(st.just("arrange"), st.integers(0, 7), st.integers(0, 999)),
)


@dataclass
class Sibling:
    """A draft as the model knows it."""

    draft_id: str
    month: int
    images: list[tuple[str, bool]]
    status: str = "pending"
    deleted: bool = False

    @property
    def counts(self) -> bool:
        return self.status == "approved" and not self.deleted


@dataclass
class Model:
    """All drafts of one city, and the ids that its albums were seen under."""

    siblings: list[Sibling] = field(default_factory=list)
    official_ids: dict[int, str] = field(default_factory=dict)

    def union(self, month: int) -> list[str]:
        """Return the ordered union of the month's approved siblings."""
        shown = [s for s in self.siblings if s.counts and s.month == month]
        ordered = sorted(shown, key=lambda s: int(s.draft_id))
        return list(dict.fromkeys(name for s in ordered for name, hidden in s.images if not hidden))


async def submit(gallery: Gallery, model: Model, city: str, month: int, images: list[str]) -> None:
    draft = await gallery.street(city, 2026, month, images)
    model.siblings.append(Sibling(draft, month, [(name, False) for name in images]))


async def edit(gallery: Gallery, sibling: Sibling, step: tuple[Any, ...]) -> None:
    if step[0] == "month":
        await gallery.edit(sibling.draft_id, month=step[2])
        sibling.month = step[2]
        return
    images = list((await gallery.get(sibling.draft_id)).images)
    luck = random.Random(step[2])
    luck.shuffle(images)
    for image in images:
        image.hidden = luck.random() < 0.3
    await gallery.edit(sibling.draft_id, images=images)
    sibling.images = [(image.caption, image.hidden) for image in images]


async def act(gallery: Gallery, model: Model, sibling: Sibling, step: tuple[Any, ...]) -> None:
    """Do the step: the server must allow exactly what the model allows."""
    name, pending, live = step[0], sibling.status == "pending", not sibling.deleted
    allowed = {
        "approve": live and pending,
        "reject": live and pending,
        "reopen": live and not pending,
        "delete": live,
        "undelete": not live,
        "purge": True,
        "month": live and sibling.status != "rejected",
        "arrange": live and sibling.status != "rejected",
    }[name]
    call = (
        edit(gallery, sibling, step)
        if name in {"month", "arrange"}
        else getattr(gallery, name)(sibling.draft_id)
    )
    if not allowed:
        with pytest.raises(grpc.aio.AioRpcError):
            await call
        return
    await call
    if name == "purge":
        model.siblings.remove(sibling)
    elif name in {"delete", "undelete"}:
        sibling.deleted = name == "delete"
    elif name in {"approve", "reject", "reopen"}:
        sibling.status = {"approve": "approved", "reject": "rejected", "reopen": "pending"}[name]


async def compare(gallery: Gallery, model: Model) -> None:
    """Check every album against the model."""
    for sibling in model.siblings:
        official = (await gallery.get(sibling.draft_id)).official_id
        assert bool(official) == sibling.counts
        if official:
            assert model.official_ids.setdefault(sibling.month, official) == official
    for month, official in model.official_ids.items():
        expected = model.union(month)
        visible = any(s.counts and s.month == month for s in model.siblings)
        if visible:
            assert await gallery.album(official) == expected
        else:
            with pytest.raises(grpc.aio.AioRpcError):
                await gallery.album(official)
    assert len(set(model.official_ids.values())) == len(model.official_ids)


async def replay(gallery: Gallery, script: list[tuple[Any, ...]]) -> None:
    city, model = unique("Model"), Model()
    for step in script:
        if step[0] == "submit":
            await submit(gallery, model, city, step[1], step[2])
        elif model.siblings:
            await act(gallery, model, model.siblings[step[1] % len(model.siblings)], step)
        await compare(gallery, model)


async def test_after_every_step_each_album_is_the_ordered_union_of_its_approved_siblings(
    gallery: Gallery,
) -> None:
    loop = asyncio.get_running_loop()

    @settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(steps, min_size=6, max_size=14))
    def every_script(script: list[tuple[Any, ...]]) -> None:
        started = [("submit", 2, ["model0", "model1"]), ("submit", 2, ["model1", "model2"]), *script]
        asyncio.run_coroutine_threadsafe(replay(gallery, started), loop).result(60)

    # Hypothesis is synchronous: it drives from a thread what runs in the loop of the channel
    await asyncio.to_thread(every_script)


async def test_the_outcome_does_not_depend_on_the_order_of_approvals(gallery: Gallery) -> None:
    outcomes = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        city = unique("AnyOrder")
        drafts = [
            await gallery.street(city, 2026, 2, images)
            for images in (["a", "b"], ["b", "c"], ["c", "a", "d"])
        ]
        replies = [await gallery.approve(drafts[i]) for i in order]
        outcomes.append(await gallery.album(replies[-1].official_id))
    assert outcomes == [["a", "b", "c", "d"]] * 3
