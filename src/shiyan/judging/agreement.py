"""How far raters agree with each other, on bootstrap draws."""

from collections.abc import Mapping, Sequence

import numpy as np

from shiyan.metrics import Draws, Floats, Sampled

ALL_THE_SAME = "every rating is the same: agreement by chance cannot be told from any other"
LEAST_SPREAD = 1e-6
"""Of the mean square: below it, differences are what rounding leaves of equal values."""


def krippendorff_alpha(
    ratings: Mapping[str, Sequence[float]], poem_of: Mapping[str, str], draws: Draws
) -> tuple[Sampled, int]:
    """Krippendorff's alpha for interval data (2004, section 11.3), and over how many items.

    Args:
        ratings: item -> its raters' scores; items of one rater do not count.
        poem_of: item -> the group it is resampled with.

    Returns:
        1: the raters agree; 0: as by chance. NaN where all values are one.
    """
    rated = [value for values in ratings.values() if len(values) > 1 for value in values]
    # Alpha does not depend on where 0 lies, what rounding does to it does.
    middle = float(np.mean(rated)) if rated else 0.0
    paired = {item: np.asarray(v, float) - middle for item, v in ratings.items() if len(v) > 1}
    columns = draws.columns(poem_of[item] for item in paired)
    counts = np.array([len(values) for values in paired.values()])
    sums = np.array([values.sum() for values in paired.values()])
    squares = np.array([np.square(values).sum() for values in paired.values()])
    # Sum over ordered pairs of (x - y)^2 is 2 (m sum x^2 - (sum x)^2).
    within = 2 * (counts * squares - sums**2) / np.maximum(counts - 1, 1)

    def alpha(n: Floats, total: Floats, square: Floats, inside: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            observed = inside / n
            expected = 2 * (n * square - total**2) / (n * (n - 1))
            differ = expected > LEAST_SPREAD * square / n
            return np.asarray(np.where(differ, 1 - observed / expected, np.nan))

    rows = alpha(*(draws.sums(columns, part) for part in (counts, sums, squares, within)))
    return draws.sampled(rows, "correlation", lacking="every rating is the same"), len(paired)
