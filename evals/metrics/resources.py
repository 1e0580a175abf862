"""The metrics that can be computed with what the user has, and what the others need."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from cases.errors import InputError
from evals.metrics.align_score import AlignScore, punkt_sentences
from evals.metrics.bert_score import BertScore
from evals.metrics.bleu import Bleu
from evals.metrics.concepts import open_quickumls, read_terms
from evals.metrics.local_models import check_model_folder
from evals.metrics.medcon import Medcon
from evals.metrics.rouge import Rouge
from evals.metrics.sari import Sari
from evals.metrics.text_metric import MetricName, NotComputed, TextMetric

OWN_TERMS = "medcon_own_terms"
"""Name of MEDCON over a user's list of terms, whose numbers are not those of MEDCON."""

_QUICKUMLS_FILES = ("umls-simstring.db", "cui-semtypes.db")


@dataclass(frozen=True, slots=True)
class MetricResources:
    """What some metrics need and nobody can ship: weights of gigabytes, and licensed vocabularies.

    Attributes:
        bertscore_model: Folder with distilbert-base-uncased.
        alignscore: The file AlignScore-base.ckpt.
        alignscore_backbone: Folder with the configuration and the tokenizer of roberta-base.
        quickumls: Folder that QuickUMLS's installer has made from a UMLS release.
        concepts: File of lines `term<TAB>CUI`.
    """

    bertscore_model: Path | None = None
    alignscore: Path | None = None
    alignscore_backbone: Path | None = None
    quickumls: Path | None = None
    concepts: Path | None = None


Loaded = TextMetric | NotComputed


def load_metrics(names: Collection[MetricName], resources: MetricResources) -> list[Loaded]:
    """Load the metrics asked for, weights included, so that whatever is wrong shows before any scoring.

    One of the four names of ROUGE brings all four. With `medcon` and a list of terms comes the variant
    `medcon_own_terms` beside it.

    Raises:
        InputError: a path does not hold what it should.
    """
    loaders: dict[Callable[[MetricResources], Iterator[Loaded]], tuple[MetricName, ...]] = {
        _bleu: ("bleu",),
        _rouge: ("rouge1", "rouge2", "rougeL", "rougeLsum"),
        _sari: ("sari",),
        _bertscore: ("bertscore",),
        _alignscore: ("alignscore",),
        _medcon: ("medcon",),
    }
    wanted = [load for load, given in loaders.items() if not set(given).isdisjoint(names)]
    return [metric for load in wanted for metric in load(resources)]


def _bleu(_: MetricResources) -> Iterator[Loaded]:
    yield Bleu()


def _rouge(_: MetricResources) -> Iterator[Loaded]:
    yield Rouge()


def _sari(_: MetricResources) -> Iterator[Loaded]:
    yield Sari()


def _bertscore(resources: MetricResources) -> Iterator[Loaded]:
    folder = resources.bertscore_model
    if folder is None:
        yield NotComputed(BertScore.names, "needs --bertscore-model DIR (distilbert-base-uncased)")
        return
    check_model_folder(folder, "distilbert", "distilbert-base-uncased")
    missing = _missing_packages()
    yield NotComputed(BertScore.names, missing) if missing else BertScore(folder)


def _alignscore(resources: MetricResources) -> Iterator[Loaded]:
    checkpoint, backbone = resources.alignscore, resources.alignscore_backbone
    if checkpoint is not None and not checkpoint.is_file():
        raise InputError(checkpoint, "no such file", "Give AlignScore-base.ckpt, of yzha/AlignScore")
    if backbone is not None:
        check_model_folder(backbone, "roberta", "roberta-base")
    if checkpoint is None or backbone is None:
        reason = "needs --alignscore FILE (AlignScore-base.ckpt) and --alignscore-backbone DIR (roberta-base)"
        yield NotComputed(AlignScore.names, reason)
    elif missing := _missing_packages():
        yield NotComputed(AlignScore.names, missing)
    elif (split := punkt_sentences()) is None:
        reason = "needs NLTK's punkt_tab in a folder of NLTK_DATA: python -m nltk.downloader punkt_tab"
        yield NotComputed(AlignScore.names, reason)
    else:
        yield AlignScore(checkpoint, backbone, split)


def _medcon(resources: MetricResources) -> Iterator[Loaded]:
    yield _official_medcon(resources.quickumls)
    if resources.concepts is not None:
        yield Medcon(read_terms(resources.concepts), OWN_TERMS)


def _official_medcon(folder: Path | None) -> Loaded:
    names = ("medcon",)
    if folder is None:
        reason = "needs --quickumls DIR (a UMLS licence); --concepts FILE gives a variant of your own"
        return NotComputed(names, reason)
    for file in _QUICKUMLS_FILES:
        if not (folder / file).exists():
            raise InputError(folder, f"no {file} in it", "Give the folder that quickumls.install made")
    if not _installed("quickumls"):
        return NotComputed(names, "needs quickumls 1.4.2: pip install quickumls")
    if not _installed("en_core_web_sm"):
        return NotComputed(names, "needs spaCy's en_core_web_sm: python -m spacy download en_core_web_sm")
    if not _has_stopwords():
        # QuickUMLS would download them.
        reason = "needs NLTK's stopwords in a folder of NLTK_DATA: python -m nltk.downloader stopwords"
        return NotComputed(names, reason)
    return Medcon(open_quickumls(folder))


def _has_stopwords() -> bool:
    from nltk.corpus import stopwords

    try:
        stopwords.ensure_loaded()
    except LookupError:
        return False
    return True


def _missing_packages() -> str:
    missing = [package for package in ("torch", "transformers") if not _installed(package)]
    return f"needs {' and '.join(missing)}: pip install 'evigraph[embedded]'" if missing else ""


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
