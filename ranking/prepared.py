"""A ranker that reads texts otherwise than they stand there: cleaned, or with acronyms spelled out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ranking.acronyms import expand_acronyms
from ranking.cutoffs import Cutoff
from ranking.ranker import Ranked, Ranker
from ranking.text_cleaning import clean_for_retrieval
from ranking.verify import SourceRanker

Preparation = Callable[[str], str]


def preparation(*, clean: bool, acronyms: Mapping[str, str] | None) -> Preparation:
    """What a text goes through, one after the other.

    Args:
        clean: Whether it is cleaned, in the end.
        acronyms: Long forms by acronym; None spells nothing out.
    """

    def prepare(text: str) -> str:
        spelled = text if acronyms is None else expand_acronyms(text, acronyms)
        return clean_for_retrieval(spelled) if clean else spelled.strip()

    return prepare


class PreparedRanker:
    """Prepares query and sentences alike for another ranker."""

    def __init__(self, ranker: Ranker, prepare: Preparation, name: str) -> None:
        """Wrap a ranker.

        Args:
            ranker: Scores what is prepared.
            prepare: Makes of a text what is read of it.
            name: Of the preparation, for the identity.
        """
        self._ranker = ranker
        self._prepare = prepare
        self._name = name

    @property
    def identity(self) -> str:
        """The ranker's, with the preparation."""
        return f"{self._ranker.identity} ({self._name})"

    @property
    def cutoff(self) -> Cutoff:
        """The ranker's."""
        return self._ranker.cutoff

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        """Score every sentence as prepared."""
        (ranked,) = self.rank_many([query], sentences)
        return ranked

    def rank_many(self, queries: Sequence[str], sentences: Sequence[str]) -> Sequence[Ranked]:
        """As `rank` for each query; the sentences are prepared once."""
        asked = [self._prepare(query) for query in queries]
        read = [self._prepare(sentence) for sentence in sentences]
        if isinstance(self._ranker, SourceRanker):
            return self._ranker.rank_many(asked, read)
        return [self._ranker.rank(query, read) for query in asked]
