"""How much less the values of a few rounds tell of a median than as many that are independent.

Values of one round are alike, as those of minutes in which the machine was slow. The variance of how many of
all lie below the median is then larger than that of heads in as many throws of a coin: by the design effect
of L. Kish (Survey Sampling, Wiley, 1965), 1 + (m - 1)*r for rounds of m values. r is the correlation within a
round of which side of the median a value lies on, from the mean squares between and within rounds.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

FEWEST_ROUNDS = 3  # of fewer their spread is not known


def design_effect(values: NDArray[np.float64], rounds: ArrayLike) -> float:
    """Of values (n,) in the rounds of these numbers (n,): at least 1; 1 of fewer than FEWEST_ROUNDS."""
    _, number, sizes = np.unique(rounds, return_inverse=True, return_counts=True)
    count, many = sizes.sum(), len(sizes)
    if many < FEWEST_ROUNDS or count == many:
        return 1.0
    side = np.sign(values - np.median(values))
    means = np.bincount(number, side) / sizes
    between = np.sum(sizes * np.square(means - side.mean())) / (many - 1)
    within = np.sum(np.square(side - means[number])) / (count - many)
    squares = np.square(sizes).sum()
    usual = (count - squares / count) / (many - 1)  # values of a round
    spread = between + (usual - 1) * within
    alike = max(0.0, (between - within) / spread) if spread > 0 else 0.0
    return float(1 + (squares / count - 1) * alike)
