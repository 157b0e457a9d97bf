"""Rules of editors and administrators."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.soak.review.machine.core import Core, names, picks, servers, slots
from tests.soak.review.picture import Draft
from tests.soak.review.steps_editor import Act, Edit, message_of
from tests.soak.review.steps_key import Merge

actions = st.sampled_from(
    [*["approve"] * 5, "reject", "reopen", "reopen", "delete", "undelete", "undelete", "purge"]
)
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

    @rule(server=servers, pick=picks, action=actions, stale=st.sampled_from([False] * 7 + [True]))
    def decide(self, server: int, pick: int, action: str, stale: bool) -> None:
        """Approve, reject, reopen, delete, undelete or purge."""
        draft = self.some_draft(pick)
        if draft is not None:
            self.step(server, self.act(draft, action, None, stale=stale))

    @rule(server=servers, pick=picks, edit=edits, approve=st.booleans())
    def edit(self, server: int, pick: int, edit: Edit, approve: bool) -> None:
        """Change a draft, or approve it with a change."""
        draft = self.some_draft(pick)
        if draft is not None:
            self.step(server, self.act(draft, "approve" if approve else "edit", edit, stale=False))

    @rule(server=servers, name=vocabularies, source=names, into=names, apply=st.booleans())
    def merge_keys(self, server: int, name: str, source: int, into: int, apply: bool) -> None:
        """Merge two keys, or ask what that would concern."""
        self.step(server, self.merge(name, source, into, apply=apply))

    @rule(server=servers, name=vocabularies, source=names, apply=st.booleans())
    def unmerge_key(self, server: int, name: str, source: int, apply: bool) -> None:
        """Undo a merge, or ask what that would concern."""
        self.step(server, self.merge(name, source, None, apply=apply))
