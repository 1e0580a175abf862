"""The cheapest ranker that learns: logistic regression on meaning, words, place and length of a sentence."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from cases.definitions import Section
from ranking.cutoffs import Cutoff
from ranking.encoding.vectors import SourceVectors, TextVectors, Vectors, shared_vectors
from ranking.errors import RankerError
from ranking.examples import Example
from ranking.rankers.bm25 import bm25_scores
from ranking.rankers.ranker import CHECKPOINT, Ranked, Scores
from ranking.tuning import RuleKind, ScoredCase, best_cutoff
from storage.files import json_bytes, write_atomically

LOGISTIC = "logistic"
SUPPORT = "support"
"""The packaged regression that has also seen documents without evidence, so that it can miss some."""

_Number = Annotated[float, Field(allow_inf_nan=False)]
_RULES: tuple[RuleKind, ...] = ("top_k", "threshold")


Features = NDArray[np.float64]
"""Shape (sentences, features)."""

FEATURES = (
    "cosine",
    "cosine_below_best",
    "log_cosine_rank",
    "bm25",
    "bm25_of_best",
    "position",
    "position_squared",
    "log_from_end",
    "is_first",
    "is_last",
    "log_words",
    "log_words_above_mean",
)
"""Columns, in order. Position runs from 0 to 1."""


def sentence_features(
    cosines: NDArray[np.float32], bm25: NDArray[np.float32], sentences: Sequence[str]
) -> Features:
    """Features of every sentence of one document for one query; cosines and BM25 of shape (sentences,)."""
    count = len(sentences)
    if count == 0:
        return np.zeros((0, len(FEATURES)))
    cosine = cosines.astype(np.float64)
    words = np.array([np.log1p(len(sentence.split())) for sentence in sentences])
    place = np.arange(count)
    position = place / max(1, count - 1)
    # Ties go to the earlier sentence, as in every ranking here.
    rank = np.empty(count)
    rank[np.argsort(-cosine, kind="stable")] = place
    best = float(bm25.max())
    columns = (
        cosine,
        cosine - cosine.max(),
        np.log1p(rank),
        bm25.astype(np.float64),
        bm25.astype(np.float64) / best if best > 0 else np.zeros(count),
        position,
        position**2,
        np.log1p(count - 1 - place),
        place == 0,
        place == count - 1,
        words,
        words - words.mean(),
    )
    return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)


class Provenance(Section):
    """Training data of a ranker.

    Attributes:
        licence: Of its labels and texts, with the attribution that it asks for.
    """

    data: str = ""
    licence: str = ""
    examples: int = 0
    sentences: int = 0
    evidence_sentences: int = 0


class LogisticWeights(Section):
    """A fitted regression: the content of `ranker.json` in its folder.

    Attributes:
        encoder: Identity of the sentence vectors behind the cosines.
        features: Names of the columns, as are the values of the next three.
        cutoff: Tuned on scores of examples that the regression had not been fitted on.
        out_of_fold_f1: Micro F1 of that, the cut-off chosen without the case in hand.
    """

    kind: Literal["logistic"] = "logistic"
    encoder: str
    features: tuple[str, ...]
    means: tuple[_Number, ...]
    scales: tuple[Annotated[_Number, Field(gt=0)], ...]
    coefficients: tuple[_Number, ...]
    intercept: _Number
    cutoff: Cutoff
    out_of_fold_f1: float | None = None
    learned_from: Provenance = Provenance()

    @model_validator(mode="after")
    def _of_this_version(self) -> LogisticWeights:
        if self.features != FEATURES:
            raise ValueError("its features are not those of this version of Evigraph; train it again")
        if {len(self.means), len(self.scales), len(self.coefficients)} != {len(FEATURES)}:
            raise ValueError(f"it needs {len(FEATURES)} means, scales and coefficients")
        return self

    @property
    def sha256(self) -> str:
        """Digest of the values that affect scores, so without the cut-off and the origin."""
        shaping = self.model_dump_json(exclude={"cutoff", "out_of_fold_f1", "learned_from"})
        return hashlib.sha256(shaping.encode()).hexdigest()


class LogisticRanker:
    """Scores sentences by a fitted regression, with numpy alone but for the sentence vectors."""

    def __init__(self, weights: LogisticWeights, vectors: TextVectors | None = None) -> None:
        """Hold the regression against the vectors that it will see.

        Raises:
            RankerError: It was fitted on vectors of another encoder.
            WeightsError: The packaged encoder is not installed.
        """
        self.weights = weights
        self._vectors = vectors or shared_vectors()
        self.sources = SourceVectors(self._vectors)
        if weights.encoder != self._vectors.identity:
            raise RankerError(
                f"this logistic ranker was fitted on vectors of {weights.encoder}, and here are those of"
                f" {self._vectors.identity}; train it again"
            )
        self._means = np.array(weights.means)
        self._slopes = np.array(weights.coefficients) / np.array(weights.scales)

    @property
    def identity(self) -> str:
        return f"{LOGISTIC}@{self.weights.sha256[:12]}"

    @property
    def cutoff(self) -> Cutoff:
        return self.weights.cutoff

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        (ranked,) = self.rank_many([query], sentences)
        return ranked

    def rank_many(self, queries: Sequence[str], sentences: Sequence[str]) -> list[Ranked]:
        if not sentences:
            return [Ranked(np.zeros(0, dtype=np.float32)) for _ in queries]
        asked, source = self._vectors.embed(queries), self.sources.embed(sentences)
        cut = tuple(np.flatnonzero(source.cut).tolist())
        return [
            Ranked(self._logits(_features(query, vector, sentences, source.vectors)), cut, bool(query_cut))
            for query, vector, query_cut in zip(queries, asked.vectors, asked.cut, strict=True)
        ]

    def _logits(self, features: Features) -> Scores:
        logits: Scores = ((features - self._means) @ self._slopes + self.weights.intercept).astype(np.float32)
        return logits

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / CHECKPOINT, [json_bytes(self.weights.model_dump(mode="json"), indent=2)])

    @classmethod
    def open(cls, folder: Path) -> LogisticRanker:
        """Read what `save` wrote.

        Raises:
            RankerError: The file is damaged, or fits another encoder or version.
            WeightsError: The packaged encoder is not installed.
        """
        path = folder / CHECKPOINT
        return cls(_read(path.read_bytes(), str(path)))


def packaged_logistic(name: str = LOGISTIC) -> LogisticRanker:
    """One that comes with the package: `logistic` or `support`, fitted on claims and abstracts of SciFact.

    Raises:
        WeightsError: The packaged encoder is not installed.
    """
    file = resources.files("ranking").joinpath("packaged", f"{name}.json")
    return LogisticRanker(_read(file.read_bytes(), f"ranking/packaged/{name}.json"))


def fit_logistic(
    examples: Sequence[Example],
    *,
    vectors: TextVectors | None = None,
    rules: Sequence[RuleKind] = _RULES,
    fallback: bool = True,
    data: str = "",
    licence: str = "",
) -> LogisticRanker:
    """Fit on labelled examples, and tune the cut-off on scores of examples that were left out.

    Args:
        examples: To train on; those without labels or sentences are left out.
        vectors: The packaged encoder's, unless others are given.
        rules: Kinds of cut-off to choose from.
        fallback: Of thresholds, whether the best sentence is taken where none reaches them.
        data: Name of the data set, for the record.
        licence: Its licence and attribution, for the record.

    Raises:
        RankerError: There is nothing to learn from, or too few groups to leave any out.
        WeightsError: The packaged encoder is not installed.
    """
    usable = [example for example in examples if example.labels is not None and example.sentences]
    vectors = vectors or shared_vectors()
    seen = _look_at_all(usable, vectors)
    labels = [np.array(example.labels, dtype=np.bool_) for example in usable]
    _refuse_too_little(usable, labels)
    whole = _fit(seen, labels)
    left_out = _out_of_fold(seen, labels, [example.group for example in usable])
    cases = [ScoredCase(scores, its.tolist()) for scores, its in zip(left_out, labels, strict=True)]
    tuned = best_cutoff(cases, rules, fallback=fallback, smoothed=True)
    weights = LogisticWeights(
        encoder=vectors.identity,
        features=FEATURES,
        means=_rounded(whole.means),
        scales=_rounded(whole.scales),
        coefficients=_rounded(whole.coefficients),
        intercept=round(whole.intercept, _DIGITS),
        cutoff=tuned.cutoff,
        out_of_fold_f1=None if tuned.held_out_f1 is None else round(tuned.held_out_f1, 4),
        learned_from=Provenance(
            data=data,
            licence=licence,
            examples=len(usable),
            sentences=sum(map(len, labels)),
            evidence_sentences=int(sum(its.sum() for its in labels)),
        ),
    )
    return LogisticRanker(weights, vectors)


_DIGITS = 6
_NO_SPREAD = 1e-5
_FOLDS = 5
"""Parts of the examples that are left out in turn; a group is never split."""


class _Fitted(NamedTuple):
    means: NDArray[np.float64]
    scales: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    intercept: float

    def scores(self, features: Features) -> NDArray[np.float64]:
        return (features - self.means) / self.scales @ self.coefficients + self.intercept


def _features(query: str, vector: Vectors, sentences: Sequence[str], known: Vectors) -> Features:
    return sentence_features(known @ vector, bm25_scores(query, sentences), sentences)


def _look_at_all(examples: Sequence[Example], vectors: TextVectors) -> list[Features]:
    """Every text is embedded once, however many queries its document has."""
    texts = list(dict.fromkeys(text for one in examples for text in (one.query, *one.sentences)))
    place = {text: row for row, text in enumerate(texts)}
    unit = vectors.embed(texts).vectors
    return [
        _features(
            one.query, unit[place[one.query]], one.sentences, unit[[place[text] for text in one.sentences]]
        )
        for one in examples
    ]


def _refuse_too_little(examples: Sequence[Example], labels: Sequence[NDArray[np.bool_]]) -> None:
    positive = sum(int(its.sum()) for its in labels)
    if positive == 0 or positive == sum(map(len, labels)):
        what = "no sentence is labelled as evidence" if positive == 0 else "every sentence is evidence"
        raise RankerError(f"{len(examples)} labelled examples, and {what}: there is nothing to learn")
    groups = len({example.group for example in examples})
    if groups < _FOLDS:
        raise RankerError(
            f"{groups} groups of examples are too few to leave out each of {_FOLDS} parts in turn, which the"
            " cut-off is tuned on; give more labelled examples"
        )


def _fit(seen: Sequence[Features], labels: Sequence[NDArray[np.bool_]]) -> _Fitted:
    from sklearn.linear_model import LogisticRegression

    columns = np.concatenate(seen)
    means, scales = columns.mean(axis=0), columns.std(axis=0)
    # A column that is constant up to rounding is uninformative and must not divide by zero.
    scales[scales < _NO_SPREAD] = 1.0
    model = LogisticRegression(max_iter=1000).fit((columns - means) / scales, np.concatenate(labels))
    return _Fitted(means, scales, model.coef_[0], float(model.intercept_[0]))


def _out_of_fold(
    seen: Sequence[Features], labels: Sequence[NDArray[np.bool_]], groups: Sequence[str]
) -> list[NDArray[np.float64]]:
    """Scores of each example by a regression that was fitted without its group."""
    from sklearn.model_selection import GroupKFold

    scores: dict[int, NDArray[np.float64]] = {}
    for kept, left_out in GroupKFold(_FOLDS).split(np.arange(len(seen)), groups=groups):
        fitted = _fit([seen[row] for row in kept], _both_classes([labels[row] for row in kept]))
        scores |= {int(row): fitted.scores(seen[row]) for row in left_out}
    return [scores[row] for row in range(len(seen))]


def _both_classes(labels: list[NDArray[np.bool_]]) -> list[NDArray[np.bool_]]:
    if len(set(np.concatenate(labels).tolist())) < 2:
        raise RankerError(
            "all evidence, or all other sentences, are in one group of examples, so nothing is learned"
            " once it is left out; give more labelled examples"
        )
    return labels


def _rounded(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(round(float(value), _DIGITS) for value in values)


def _read(content: bytes, origin: str) -> LogisticWeights:
    try:
        return LogisticWeights.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "it"
        raise RankerError(f"{origin}: {field}: {first['msg'].removeprefix('Value error, ')}") from None
