"""Rules of several people at once: whatever wins, no rule may be broken afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import grpc.aio
from hypothesis import strategies as st
from hypothesis.stateful import rule

from libs.common.client import error_info
from tests.soak.review.machine.core import names, picks
from tests.soak.review.machine.editors import EditorRules, decisions, edits, vocabularies
from tests.soak.review.machine.uploads import UploadRules, articles
from tests.soak.review.step import REFUSALS
from tests.soak.review.steps_intake import bring
from tests.soak.review.steps_media import CleanUp

decided = st.tuples(st.just("decide"), picks, decisions, st.none() | edits)
mergers = st.tuples(st.just("merge"), vocabularies, names, st.none() | names)
bringers = st.tuples(st.just("bring"), articles)
cleaners = st.tuples(st.just("clean"))
# of editors alone, and of everybody
editors_calls = st.lists(decided, min_size=2, max_size=6)
calls = st.lists(st.one_of(decided, decided, mergers, bringers, cleaners), min_size=2, max_size=6)


class RaceRules(EditorRules, UploadRules):
    """What happens when they don't take turns."""

    @rule(calls=editors_calls)
    def editors_at_once(self, calls: list[tuple[Any, ...]]) -> None:
        """Decide and edit at once, on both servers."""
        self._at_once(calls)

    @rule(calls=calls)
    def everybody_at_once(self, calls: list[tuple[Any, ...]]) -> None:
        """Decide, edit, merge, bring articles and clean up at once, on both servers."""
        self._at_once(calls)

    def _at_once(self, calls: list[tuple[Any, ...]]) -> None:
        work = [self._call(server % 2, *call) for server, call in enumerate(calls)]
        for told in self.run(_together([call for call in work if call is not None])):
            self.rig.outcomes[f"at once: {told}"] += 1
        self.learn()

    def _call(self, server: int, what: str, *about: Any) -> Coroutine[Any, Any, Any] | None:
        client = self.client(server)
        if what == "clean":
            return CleanUp(0).do(self.rig, client)
        if what == "merge":
            vocabulary, source, target = about
            return self.merge(vocabulary, source, target, apply=True).do(self.rig, client)
        if what == "bring":
            return bring(self.rig, client, replace(about[0], job=self.new_job()))
        pick, action, edit = about
        draft = self.some_draft(pick, action)
        if draft is None:
            return None
        if edit is not None:
            action = "approve" if action == "approve" else "edit"
        return self.act(draft, action, edit, stale=False).do(self.rig, client)


async def _together(calls: list[Coroutine[Any, Any, Any]]) -> list[str]:
    """Make the calls at once; return how each ended. Raises what nobody may be answered."""
    ends = []
    for reply in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(reply, grpc.aio.AioRpcError):
            reason = error_info(reply).reason
            assert reason in REFUSALS, f"{reply.code()}: {reply.details()}"
            ends.append(reason)
        elif isinstance(reply, BaseException):
            raise reply
        else:
            ends.append("done")
    return ends
