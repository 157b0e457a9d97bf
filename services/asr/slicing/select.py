"""Which spans become clips: pure decisions on a selection (domain.md 2.10).

Spans are made of whole utterances, so none is ever cut, and clips overlap only where utterances do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from libs.common.keywords import parse
from services.asr.slicing.heard import Heard
from services.asr.slicing.selection import Passage, Planned, Rules, Said, Selection, Subject, join_text
from services.asr.slicing.words import content_words

MOST_CLIPS = 500


class NothingChosen(Exception):
    """There is no clip to make; `reason` is stable, the message is for the editor."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class _Run:
    """Utterances `[first, end)`, by position in the selection, and the topic they are (None: matches)."""

    first: int
    end: int
    topic: Subject | None = None


def plan(selection: Selection, rules: Rules) -> tuple[list[Planned], str]:
    """Choose the clips: by keywords, else by the prompt's words, else every topic.

    Returns:
        The clips in order of time, at least one, and what chose them: `keywords`, `prompt`, `topics`, or
        `pauses` where the transcript has no topics.

    Raises:
        NothingChosen: NO_MATCH, or TOO_MANY_CLIPS.
    """
    runs, source = _choose(selection, rules)
    return _planned(
        selection, runs, rules, selection.keywords if source == "keywords" else selection.prompt
    ), source


def plan_passages(selection: Selection, passages: Iterable[tuple[int, int]], rules: Rules) -> list[Planned]:
    """Make clips of passages that somebody else chose for the prompt: utterances `[first, end)` by position.

    Raises:
        NothingChosen: as `plan`.
    """
    runs = _merged([_Run(first, end) for first, end in passages], selection.utterances, rules.merge_gap_ms)
    return _planned(selection, runs, rules, selection.prompt)


def _planned(selection: Selection, runs: list[_Run], rules: Rules, wanted: str) -> list[Planned]:
    if not runs:
        raise NothingChosen("NO_MATCH", f"nothing in the selection matches {wanted!r}")
    if len(runs) > MOST_CLIPS:
        raise NothingChosen(
            "TOO_MANY_CLIPS", f"{len(runs)} clips match; narrow the selection or the keywords to {MOST_CLIPS}"
        )
    spans = _spans(selection, runs, rules)
    if not spans:
        raise NothingChosen("NO_MATCH", f"what matches {wanted!r} lasts no time")
    return spans


def _choose(selection: Selection, rules: Rules) -> tuple[list[_Run], str]:
    groups = parse(selection.keywords)
    if groups:
        return _by_keywords(selection, groups, rules), "keywords"
    topics = list(_by_topics(selection))
    runs = topics or _by_pauses(selection.utterances, rules)
    if selection.prompt.strip():
        return _merged(_by_prompt(selection, runs), selection.utterances, rules.merge_gap_ms), "prompt"
    # Neither topics nor what is cut because it is long: they follow one another without a pause, and would
    # all be one clip.
    return runs, "topics" if topics else "pauses"


def _by_topics(selection: Selection) -> Iterable[_Run]:
    for topic in selection.topics:
        run = _inside(selection.utterances, topic.first, topic.end)
        if run is not None:
            yield _Run(*run, topic)


def _inside(utterances: tuple[Said, ...], first: int, end: int) -> tuple[int, int] | None:
    """Return the positions of the utterances whose index is in `[first, end)`; None when there are none."""
    positions = [i for i, said in enumerate(utterances) if first <= said.index < end]
    return (positions[0], positions[-1] + 1) if positions else None


def _by_pauses(utterances: tuple[Said, ...], rules: Rules) -> list[_Run]:
    """Cut the speech into pieces of a bearable length, at the widest pause of each piece's second half."""
    runs: list[_Run] = []
    first = 0
    for i, said in enumerate(utterances):
        if i > first and said.end_ms - utterances[first].start_ms > rules.longest_piece_ms:
            middle = first + max(1, (i - first) // 2)
            cut = max(range(middle, i + 1), key=lambda j: utterances[j].start_ms - utterances[j - 1].end_ms)
            runs.append(_Run(first, cut))
            first = cut
    return [*runs, _Run(first, len(utterances))]


def _by_prompt(selection: Selection, runs: list[_Run]) -> list[_Run]:
    """Keep the runs that hold at least half as many of the prompt's words as the best one does."""
    words = content_words(selection.prompt) or [selection.prompt.strip()]
    scores = []
    for run in runs:
        title = f"{run.topic.title} {' '.join(run.topic.keywords)} " if run.topic else ""
        heard = Heard(title + join_text([u.text for u in selection.utterances[run.first : run.end]]))
        scores.append(sum(heard.has(word) for word in words))
    best = max(scores, default=0)
    return [run for run, score in zip(runs, scores, strict=True) if score and score * 2 >= best]


def _by_keywords(selection: Selection, groups: list[list[str]], rules: Rules) -> list[_Run]:
    """Find the passages where a whole group of words is said; all its words are in one paragraph."""
    found: list[_Run] = []
    for paragraph in selection.paragraphs:
        place = _inside(selection.utterances, paragraph.first, paragraph.end)
        if place is not None:
            found += _matches(selection, paragraph, place, groups, rules)
    return _merged(found, selection.utterances, rules.merge_gap_ms)


def _matches(
    selection: Selection,
    paragraph: Passage,
    place: tuple[int, int],
    groups: list[list[str]],
    rules: Rules,
) -> list[_Run]:
    utterances = selection.utterances[place[0] : place[1]]
    whole = len(utterances) == paragraph.end - paragraph.first
    heard = Heard(paragraph.text if whole else join_text([said.text for said in utterances]))
    holding = [group for group in groups if heard.has_all(group)]
    if not holding:
        return []
    words = {word for group in holding for word in group}
    texts = [Heard(said.text) for said in utterances]
    hits = [place[0] + i for i, text in enumerate(texts) if any(text.has(word) for word in words)]
    # a word that is spread over two utterances is in neither
    first, end = (hits[0], hits[-1] + 1) if hits else place
    return [_grown(selection.utterances, first, end, place, rules.shortest_ms)]


def _grown(
    utterances: tuple[Said, ...], first: int, end: int, place: tuple[int, int], shortest_ms: int
) -> _Run:
    """Add utterances of the same paragraph, following ones first, until the run is long enough to watch."""
    while utterances[end - 1].end_ms - utterances[first].start_ms < shortest_ms:
        if end < place[1]:
            end += 1
        elif first > place[0]:
            first -= 1
        else:
            break
    return _Run(first, end)


def _merged(runs: list[_Run], utterances: tuple[Said, ...], gap_ms: int) -> list[_Run]:
    """Join runs that touch or whose pause is at most `gap_ms`: no cut between them would sound like one."""
    merged: list[_Run] = []
    for run in sorted(runs, key=lambda r: (r.first, r.end)):
        last = merged[-1] if merged else None
        if last and (
            run.first < last.end or utterances[run.first].start_ms - utterances[last.end - 1].end_ms <= gap_ms
        ):
            merged[-1] = _Run(last.first, max(last.end, run.end), _joined(last.topic, run.topic))
        else:
            merged.append(run)
    return merged


def _joined(first: Subject | None, second: Subject | None) -> Subject | None:
    """Return the topic that two neighbours are together: what the longer one is called, and both's words."""
    if first is None or second is None:
        return first or second
    longer = max(first, second, key=lambda topic: topic.end - topic.first)
    keywords = tuple(dict.fromkeys((*longer.keywords, *first.keywords, *second.keywords)))
    summary = join_text([topic.summary for topic in (first, second) if topic.summary])
    return Subject(longer.title, summary, keywords, first.first, max(first.end, second.end))


def _spans(selection: Selection, runs: list[_Run], rules: Rules) -> list[Planned]:
    """Pad each run into the silence around it, never into other speech and never past the recording."""
    utterances = selection.utterances
    planned: list[Planned] = []
    for run in runs:
        inside = utterances[run.first : run.end]
        start, end = min(u.start_ms for u in inside), max(u.end_ms for u in inside)
        before = utterances[run.first - 1].end_ms if run.first else selection.speech_before_end_ms
        following = selection.speech_after_start_ms or selection.duration_ms
        after = utterances[run.end].start_ms if run.end < len(utterances) else following
        # the clip before has the first part of the pause: its last word is often timed too early
        quiet_from = min(start, before + rules.tail_ms) if before else 0
        planned.append(
            Planned(
                start_ms=max(0, start - rules.lead_ms, quiet_from),
                end_ms=min(max(end, min(end + rules.tail_ms, after)), selection.duration_ms),
                sentences=tuple(said.text for said in inside),
                topic=run.topic,
            )
        )
    return [span for span in planned if span.end_ms > span.start_ms]
