"""McNemar's test of two runs' labels, with the sentences of a case taken as one cluster.

Sentences of one note are not independent, and McNemar's test (1947) treats them as if they were. With `b_k`
sentences of case k that only the first run labels correctly, and `c_k` that only the second does, the test
used here refers

    (sum_k (b_k - c_k))^2 / sum_k (b_k - c_k)^2

to the chi-squared distribution with one degree of freedom. The variance is estimated between cases, so it
holds whatever the correlation within them. With one sentence a case this is McNemar's (b - c)^2 / (b + c).

It is the test of Obuchowski (1998, Statistics in Medicine 17:1495) in the form that Yang, Sun and Hardin
(2010, Biometrical Journal 52:638) reduce it to, without its factor (K - 1)/K over K clusters; with clusters
of equal size it is that of Durkalski et al. (2003, Statistics in Medicine 22:2417). It is not the modified
test that Yang, Sun and Hardin propose, whose variance also has a term for the alternative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, chi2


@dataclass(frozen=True, slots=True)
class McNemar:
    """Which run labels more sentences correctly.

    Attributes:
        only_first: Sentences that only the first run labels correctly.
        only_second: Sentences that only the second run labels correctly.
        cases: Cases with at least one such sentence.
        statistic: Clustered by case; None where every case gains as many sentences as it loses.
        p_value: Of `statistic`; 1 where there is none.
        p_ignoring_clusters: McNemar's exact test, as if all sentences were independent. For reference only.
    """

    only_first: int
    only_second: int
    cases: int
    statistic: float | None
    p_value: float
    p_ignoring_clusters: float


def clustered_mcnemar(only_first: Sequence[int], only_second: Sequence[int]) -> McNemar:
    """Test labels.

    Args:
        only_first: For each case, its sentences that only the first run labels correctly.
        only_second: For the same cases, those that only the second run does.
    """
    first, second = np.asarray(only_first, dtype=np.int64), np.asarray(only_second, dtype=np.int64)
    surplus = first - second
    squares = int((surplus**2).sum())
    statistic = int(surplus.sum()) ** 2 / squares if squares else None
    b, c = int(first.sum()), int(second.sum())
    return McNemar(
        only_first=b,
        only_second=c,
        cases=int(np.count_nonzero(first + second)),
        statistic=statistic,
        p_value=1.0 if statistic is None else float(chi2.sf(statistic, df=1)),
        p_ignoring_clusters=float(binomtest(b, b + c).pvalue) if b + c else 1.0,
    )
