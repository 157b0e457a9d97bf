"""What is submitted, and what must come of it whatever is killed meanwhile."""

from __future__ import annotations

import hashlib
import io
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from frontrow.ingest.v1 import gallery_pb2
from PIL import Image

DUPLICATES = 0.3
BAD = 0.06
BRAND, NO_BRAND = "Gucci", "Nobody & Sons"


@dataclass(frozen=True, slots=True)
class Picture:
    """An image by the seed of its pixels; `whole` tells a picture from half a file."""

    seed: int
    whole: bool = True

    def body(self) -> bytes:
        """Return the bytes; the same seed gives the same ones."""
        pixels = random.Random(self.seed).randbytes(48 * 36 * 3)
        buffer = io.BytesIO()
        Image.frombytes("RGB", (48, 36), pixels).save(buffer, "JPEG", quality=70)
        raw = buffer.getvalue()
        return raw if self.whole else raw[: len(raw) // 2]

    def key(self) -> str:
        """Return the key that the source document gives its bytes."""
        sha1 = hashlib.sha1(self.body(), usedforsecurity=False).hexdigest()
        return f"media/{sha1[:2]}/{sha1}.jpg"


@dataclass(frozen=True, slots=True)
class Article:
    """An article with its images; a bad one has half an image or a brand that nobody knows."""

    number: int
    pictures: Sequence[Picture]
    brand: str = BRAND

    @property
    def url(self) -> str:
        """Its address: what it is crawled once by."""
        return f"https://magazine.example/article/{self.number}"

    @property
    def good(self) -> bool:
        """Whether it becomes a draft."""
        return self.brand == BRAND and all(picture.whole for picture in self.pictures)

    @property
    def street(self) -> bool:
        """Whether it is of the other kind, with a table of its own."""
        return self.number % 2 == 1

    def gallery(self, site: str) -> gallery_pb2.Gallery:
        """Return what a spider submits; the images are this article's own addresses at `site`."""
        gallery = gallery_pb2.Gallery(title=f"Article {self.number}", source="magazine", source_url=self.url)
        for place, _ in enumerate(self.pictures):
            gallery.images.add(url=f"http://{site}/{self.number}/{place}.jpg")
        if self.street:
            gallery.kind = gallery_pb2.GALLERY_KIND_STREET_SNAP
            gallery.city, gallery.year, gallery.month = "Copenhagen", 2026, 8
        else:
            gallery.kind = gallery_pb2.GALLERY_KIND_RUNWAY
            gallery.brand, gallery.season_code = self.brand, "FW26"
        return gallery


@dataclass(frozen=True, slots=True)
class Submission:
    """One call of a spider: the same `request_id` again is the same submission."""

    article: Article
    request_id: str


@dataclass
class Plan:
    """All submissions in order, made from a seed."""

    count: int
    seed: int
    submissions: list[Submission] = field(default_factory=list)
    articles: list[Article] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)
        while len(self.submissions) < self.count:
            duplicate = bool(self.submissions) and chance.random() < DUPLICATES
            self.submissions.append(self._duplicate(chance) if duplicate else self._fresh(chance))

    def add_good(self) -> None:
        """Add an article of two pictures that nothing is wrong with."""
        number = len(self.articles)
        pictures = [Picture(number * 10 + place) for place in range(2)]
        self.submissions.append(self._submitted(Article(number, pictures)))

    def _fresh(self, chance: random.Random) -> Submission:
        number, bad = len(self.articles), chance.random() < BAD
        pictures = [Picture(number * 10 + place) for place in range(chance.randint(1, 3))]
        brand = BRAND
        if bad and (number % 2 == 1 or chance.random() < 0.7):
            pictures[-1] = Picture(pictures[-1].seed, whole=False)
        elif bad:
            brand = NO_BRAND
        return self._submitted(Article(number, pictures, brand))

    def _duplicate(self, chance: random.Random) -> Submission:
        """Submit again: the same call, the same article, or the same bytes in another article."""
        earlier = chance.choice(self.submissions[-200:])
        kind = chance.randrange(3)
        if kind == 0:
            return earlier
        if kind == 1:
            return Submission(earlier.article, self._request_id())
        return self._submitted(Article(len(self.articles), earlier.article.pictures))

    def _submitted(self, article: Article) -> Submission:
        self.articles.append(article)
        return Submission(article, self._request_id())

    def _request_id(self) -> str:
        return f"{self.seed}-{len(self.submissions)}"

    def drafts(self) -> dict[str, list[str]]:
        """Return the drafts that must be there: the keys of their images in order, by address."""
        return {a.url: [picture.key() for picture in a.pictures] for a in self.articles if a.good}
