"""Split a sequence of vectors into topics by dynamic programming."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


def boundaries(
    vectors: Vectors, weights: Sequence[float], shortest: float, longest: float, *, penalty: float
) -> list[int]:
    """Return the index at which each topic begins; the first is 0.

    The split has the least sum of squared distances to each topic's centre plus `penalty` for each topic,
    among those whose topics weigh (in seconds, say) between `shortest` and `longest`; where that is
    impossible the bounds give way. `vectors` has one row for each unit.
    """
    count = len(vectors)
    if count == 0:
        return []
    units = _centred(vectors)
    sums = np.concatenate([np.zeros((1, units.shape[1])), np.cumsum(units, axis=0, dtype=np.float64)])
    squares = np.concatenate([[0.0], np.cumsum(np.sum(units * units, axis=1, dtype=np.float64))])
    reach = np.concatenate([[0.0], np.cumsum(np.asarray(weights, dtype=np.float64))])
    best = np.full(count + 1, np.inf)
    best[0] = 0.0
    previous = np.zeros(count + 1, dtype=np.int64)
    for end in range(1, count + 1):
        lengths = reach[end] - reach[:end]
        allowed = np.flatnonzero((lengths >= shortest) & (lengths <= longest) & np.isfinite(best[:end]))
        if len(allowed) == 0:
            continue
        inner = np.sum((sums[end] - sums[allowed]) ** 2, axis=1) / (end - allowed)
        costs = best[allowed] + (squares[end] - squares[allowed]) - inner + penalty
        chosen = int(np.argmin(costs))
        best[end], previous[end] = costs[chosen], allowed[chosen]
    if not np.isfinite(best[count]):
        return [0] if shortest <= 0 else boundaries(vectors, weights, 0.0, np.inf, penalty=penalty)
    starts: list[int] = []
    end = count
    while end > 0:
        end = int(previous[end])
        starts.append(end)
    return starts[::-1]


def _centred(vectors: Vectors) -> Vectors:
    """Take the common part out: embeddings of one recording all point much the same way."""
    if len(vectors) < 2:
        return vectors
    moved = vectors - vectors.mean(axis=0)
    lengths = np.linalg.norm(moved, axis=1, keepdims=True)
    result: Vectors = (moved / np.maximum(lengths, 1e-6)).astype(np.float32)
    return result
