"""Rules of ingest workers, which may crash between any two calls, and of clean-ups."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.soak.review.machine.core import Core, galleries, kinds, names, pick_of, picks, servers, slots
from tests.soak.review.picture import GRACE_HOURS
from tests.soak.review.steps_intake import Article, Create
from tests.soak.review.steps_media import CleanUp, Confirm, PassTime, Reserve, Upload, break_off

articles = st.builds(
    Article,
    kind=kinds,
    name=names,
    slot=slots,
    pictures=galleries,
    job=st.just(""),
    url=st.integers(0, 12),
)
graces = st.sampled_from([0, 0, GRACE_HOURS])
hours = st.sampled_from([13, 26])


class UploadRules(Core):
    """What workers and operators do to stored pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.uploads: list[tuple[Upload, bool]] = []

    @rule(server=servers, pictures=galleries)
    def announce(self, server: int, pictures: list[int]) -> None:
        """Begin an upload; it goes on later, or never."""
        upload = Upload(pictures)
        if self.step(server, Reserve(upload)):
            self.uploads.append((upload, False))

    @rule(server=servers, pick=picks)
    def go_on(self, server: int, pick: int) -> None:
        """Put an upload's bytes, or confirm it when they are put."""
        if not self.uploads:
            return
        upload, put = pick_of(self.uploads, pick)
        self.uploads.remove((upload, put))
        if put:
            self.step(server, Confirm(upload))
        else:
            self.run(upload.put(self.rig.store))
            self.uploads.append((upload, True))

    @initialize(first=st.lists(articles, min_size=3, max_size=6))
    def begin(self, first: list[Article]) -> None:
        """Begin with some articles, as often as not of one key."""
        for server, article in enumerate(first):
            self._bring(server % 2, article, self.new_job())

    @rule(server=servers, article=articles, again=picks, blind=st.sampled_from([False, False, False, True]))
    def submit(self, server: int, article: Article, again: int, blind: bool) -> None:
        """Bring an article: a new one, one whose job was here, or one whose pictures nobody stored."""
        job = f"machine-{again}" if again < 4 else self.new_job()
        if blind:
            self.step(server, Create(replace(article, job=job), self.rig))
        else:
            self._bring(server, article, job)

    def _bring(self, server: int, article: Article, job: str) -> None:
        """Do all a job does, step by step."""
        upload = Upload(article.pictures)
        if not self.step(server, Reserve(upload)):
            return
        self.run(upload.put(self.rig.store))
        if self.step(server, Confirm(upload)):
            self.step(server, Create(replace(article, job=job), self.rig))

    @rule(server=servers, grace=graces, passes=st.integers(1, 2))
    def clean_up(self, server: int, grace: int, passes: int) -> None:
        """Run a clean-up, or both passes of one: without grace all goes that nothing refers to."""
        for _ in range(passes):
            self.step(server, CleanUp(grace))

    @rule(deletes=st.integers(0, 2), behind=st.booleans())
    def clean_up_that_breaks_off(self, deletes: int, behind: bool) -> None:
        """Lose the store in the middle of a clean-up."""
        self.run(break_off(self.rig, deletes, behind=behind))
        self.learn()

    @rule(server=servers, hours=hours)
    def pass_time(self, server: int, hours: int) -> None:
        """Let hours go by."""
        self.step(server, PassTime(hours))
