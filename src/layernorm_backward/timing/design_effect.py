"""The design effect: by how much correlation within rounds increases the variance of a sample median.

Values of one round are correlated, as when the machine was slow for minutes. The number of values below the
median then has a larger variance than a binomial one, by the design effect of L. Kish (Survey Sampling,
Wiley, 1965), 1 + (m - 1)*r for rounds of m values. r is the intra-round correlation of the side of the median
that a value lies on, from the mean squares between and within rounds.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

FEWEST_ROUNDS = 3  # for fewer the correlation cannot be estimated


def design_effect(values: NDArray[np.float64], rounds: ArrayLike) -> float:
    """Of values (n,) with round numbers (n,): at least 1; 1 for fewer than FEWEST_ROUNDS rounds."""
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
