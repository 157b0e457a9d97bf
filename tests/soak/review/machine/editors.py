"""Rules of editors and administrators."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.soak.review.machine.core import Core, names, picks, servers, slots
from tests.soak.review.picture import Draft
from tests.soak.review.steps_editor import Act, Edit, message_of
from tests.soak.review.steps_key import Merge

actions = st.sampled_from(["reject", "reopen", "reopen", "delete", "undelete", "undelete", "purge"])
decisions = st.one_of(st.just("approve"), actions)
often = st.sampled_from([True, True, False])
edits = st.builds(
    Edit,
    title=st.none() | st.sampled_from(["One", "Two"]),
    name=st.none() | names,
    slot=st.none() | slots,
    arrange=st.none() | st.integers(0, 999),
    cover=st.none() | st.integers(-1, 3),
).filter(lambda edit: edit != Edit())
vocabularies = st.sampled_from(["city", "city", "brand", "season"])


class EditorRules(Core):
    """What people do at the desk."""

    def act(self, draft: Draft, action: str, edit: Edit | None, *, stale: bool) -> Act:
        """Return the step."""
        keys = {row.id: row.key for row in self.picture.media.values()}
        message = None if edit is None else message_of(draft, edit, keys)
        return Act(action, draft, edit, message, stale, self.rig)

    def merge(self, vocabulary: str, source: int, target: int | None, *, apply: bool) -> Merge:
        """Return the step."""
        own = self.rig.own[vocabulary]
        return Merge(vocabulary, own[source], None if target is None else own[target], apply)

    @rule(server=servers, pick=picks, stale=st.sampled_from([False] * 7 + [True]))
    def approve(self, server: int, pick: int, stale: bool) -> None:
        """Approve a draft."""
        draft = self.some_draft(pick, "approve")
        if draft is not None:
            self.step(server, self.act(draft, "approve", None, stale=stale))

    @rule(server=servers, pick=picks, action=actions)
    def decide(self, server: int, pick: int, action: str) -> None:
        """Reject, reopen, delete, undelete or purge a draft."""
        draft = self.some_draft(pick, action)
        if draft is not None:
            self.step(server, self.act(draft, action, None, stale=False))

    @rule(server=servers, pick=picks, edit=edits)
    def edit(self, server: int, pick: int, edit: Edit) -> None:
        """Change a draft."""
        draft = self.some_draft(pick, "edit")
        if draft is not None:
            self.step(server, self.act(draft, "edit", edit, stale=False))

    @rule(server=servers, pick=picks, edit=edits)
    def approve_with_an_edit(self, server: int, pick: int, edit: Edit) -> None:
        """Approve a draft and change it before, in one go."""
        draft = self.some_draft(pick, "approve")
        if draft is not None:
            self.step(server, self.act(draft, "approve", edit, stale=False))

    @rule(server=servers, name=vocabularies, source=names, into=names, apply=often)
    def merge_keys(self, server: int, name: str, source: int, into: int, apply: bool) -> None:
        """Merge two keys, or ask what that would concern."""
        self.step(server, self.merge(name, source, into, apply=apply))

    @rule(server=servers, name=vocabularies, pick=picks, apply=often)
    def unmerge_key(self, server: int, name: str, pick: int, apply: bool) -> None:
        """Undo a merge, or ask what that would concern; mostly one that was made."""
        own, pointers = self.rig.own[name], self.picture.pointers[name]
        merged = [i for i, identity in enumerate(own) if pointers[identity] is not None]
        source = merged[pick % len(merged)] if merged and pick % 6 else pick % len(own)
        self.step(server, self.merge(name, source, None, apply=apply))
