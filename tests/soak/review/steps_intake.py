"""What the ingest worker does: store the pictures of an article and make a draft of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frontrow.review.v1 import intake_service_pb2 as intake

from tests.integration.review.gallery import Gallery
from tests.soak.review.picture import Draft, Image, Picture
from tests.soak.review.rig import Rig, key_of
from tests.soak.review.step import Step, with_draft
from tests.soak.review.steps_editor import SLOTS
from tests.soak.review.steps_media import Confirm, Reserve, Upload, taken


@dataclass(frozen=True)
class Article:
    """An article as a job brings it. `url` is its number among articles, 0 for none."""

    kind: str
    name: int
    slot: int
    pictures: Sequence[int]
    job: str
    url: int

    @property
    def source_url(self) -> str:
        """Return its address."""
        return f"https://site.test/{self.url}" if self.url else ""

    def request(self) -> Any:
        """Return the request that makes a draft of it."""
        common: dict[str, Any] = {
            "job_id": self.job,
            "title": f"by {self.job}",
            "source": "vogue",
            "source_url": self.source_url,
            "images": [
                intake.IntakeImage(media_key=key_of(number), caption=f"picture {number}")
                for number in self.pictures
            ],
        }
        slot = SLOTS[self.kind][self.slot]
        if self.kind == "street_snap":
            city = intake.StreetSnapTexts(city=f"Machine City {self.name}", year=slot[0], month=slot[1])
            return intake.CreateStreetSnapDraftRequest(street_snap=city, **common)
        season = "" if slot is None else f"Machine Season {slot}"
        show = intake.RunwayTexts(brand=f"Machine House {self.name}", season_code=season)
        return intake.CreateRunwayDraftRequest(runway=show, **common)

    def parts(self, rig: Rig) -> tuple[Any, ...]:
        """Return its own key."""
        slot = SLOTS[self.kind][self.slot]
        if self.kind == "street_snap":
            return (rig.own["city"][self.name], *slot)
        if slot is None:
            return (rig.own["brand"][self.name], None, "")
        return (rig.own["brand"][self.name], rig.own["season"][slot], "ready-to-wear")


async def create(client: Gallery, article: Article) -> Any:
    """Make the draft; return the reply."""
    request = article.request()
    if article.kind == "street_snap":
        return await client.intake.CreateStreetSnapDraft(request)
    return await client.intake.CreateRunwayDraft(request)


@dataclass(frozen=True)
class Create(Step):
    """Make a draft of pictures that may or may not be stored."""

    article: Article
    rig: Rig

    def _own(self, before: Picture) -> Draft | None:
        mine = (d for d in before.drafts.values() if d.job_id == self.article.job)
        return next((d for d in mine if d.kind == self.article.kind), None)

    def refusal(self, before: Picture) -> str | None:
        """See Step: crawled is terminal, whatever became of the draft (domain.md 3.4)."""
        if self._own(before) is not None:
            return None
        if self.article.url and any(
            draft.source_url == self.article.source_url and draft.kind == self.article.kind
            for draft in before.drafts.values()
        ):
            return "SOURCE_EXISTS"
        states = [before.media[key].state if key in before.media else None for key in self._keys()]
        return "MEDIA_NOT_LIVE" if set(states) != {"live"} else None

    def _keys(self) -> list[str]:
        return [key_of(number) for number in self.article.pictures]

    async def do(self, rig: Rig, client: Gallery) -> Any:
        """See Step."""
        return await create(client, self.article)

    def after(self, before: Picture, reply: Any, ids: Mapping[str, int]) -> Picture:
        """See Step."""
        own = self._own(before)
        assert reply.created == (own is None)
        if own is not None:
            assert reply.draft_id == str(own.id)
            return before
        draft = Draft(
            kind=self.article.kind,
            id=int(reply.draft_id),
            job_id=self.article.job,
            source_url=self.article.source_url,
            title=f"by {self.article.job}",
            parts=self.article.parts(self.rig),
            status="pending",
            deleted=False,
            revision=1,
            cover=None,
            images=tuple(
                Image(ids[key_of(number)], f"picture {number}", False) for number in self.article.pictures
            ),
        )
        return with_draft(taken(before, self.article.pictures), draft)


async def bring(rig: Rig, client: Gallery, article: Article) -> Any:
    """Do all a job does: announce, put, confirm, make the draft."""
    upload = Upload(article.pictures)
    await Reserve(upload).do(rig, client)
    await upload.put(rig.store)
    await Confirm(upload).do(rig, client)
    return await create(client, article)
