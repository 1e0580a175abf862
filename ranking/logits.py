"""Which rankers' scores are logits, of which the logistic function is a probability."""

from __future__ import annotations

import re

from ranking.bm25 import BM25
from ranking.similarity import SIMILARITY

_ENDS_A_NAME = re.compile("[:@]")


def gives_logits(ranker: str) -> bool:
    """Whether scores mean probabilities; those of BM25 and of similarity only put sentences in order.

    Args:
        ranker: Its name as `load_ranker` takes it, or its identity.
    """
    return _ENDS_A_NAME.split(ranker, maxsplit=1)[0] not in (BM25, SIMILARITY)
