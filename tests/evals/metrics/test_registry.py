from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import nltk
import pytest

from cli.flags import MetricFlags
from evals.metrics import registry
from evals.metrics.align_score import AlignScore
from evals.metrics.bert_score import BertScore
from evals.metrics.bleu import Bleu
from evals.metrics.medcon import OWN_TERMS, Medcon
from evals.metrics.registry import METRICS, load_metrics, score_texts
from evals.metrics.rouge import Rouge
from evals.metrics.sari import Sari
from evals.metrics.text_metric import Loaded, MetricResources, NotComputed, TextMetric, TextPair
from storage.errors import InputError
from tests.evals.metrics.nltk_data import save_punkt, save_stopwords
from tests.evals.metrics.tiny_models import save_alignscore, save_distilbert, save_roberta

_ALL = [name for spec in METRICS for name in spec.names]


def loaded_of(names: Sequence[str], resources: MetricResources) -> list[Loaded]:
    return load_metrics([spec for spec in METRICS if not set(spec.names).isdisjoint(names)], resources)


@pytest.fixture
def punkt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(save_punkt(tmp_path / "nltk_data"))])


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("umls-simstring.db", "cui-semtypes.db"):
        (folder / name).mkdir()
    return folder


def test_without_resources_each_metric_says_what_it_needs() -> None:
    loaded = loaded_of(_ALL, MetricResources())
    assert loaded == [
        Bleu(),
        Rouge(),
        Sari(),
        NotComputed(("bertscore",), "needs --bertscore-model DIR (distilbert-base-uncased)"),
        NotComputed(
            ("alignscore",),
            "needs --alignscore FILE (AlignScore-base.ckpt) and --alignscore-backbone DIR (roberta-base)",
        ),
        NotComputed(
            ("medcon",), "needs --quickumls DIR (a UMLS licence); --concepts FILE gives a variant of your own"
        ),
    ]


def test_with_its_folder_bertscore_is_computed(tmp_path: Path) -> None:
    folder = save_distilbert(tmp_path / "distilbert")
    (metric,) = loaded_of(["bertscore"], MetricResources(bertscore_model=folder))
    assert isinstance(metric, BertScore)


@pytest.mark.usefixtures("punkt")
def test_with_checkpoint_backbone_and_punkt_alignscore_is_computed(tmp_path: Path) -> None:
    resources = _alignscore(tmp_path)
    (metric,) = loaded_of(["alignscore"], resources)
    assert isinstance(metric, AlignScore)
    assert 0 < metric.score([TextPair("Dr. Lee came.", "He left.")])[0][0] < 1


def test_without_punkt_alignscore_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    (metric,) = loaded_of(["alignscore"], _alignscore(tmp_path))
    assert isinstance(metric, NotComputed)
    assert "python -m nltk.downloader punkt_tab" in metric.reason


def test_own_terms_are_a_variant_beside_medcon(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("fever\tC1\n")
    official, own = loaded_of(["medcon"], MetricResources(concepts=path))
    assert isinstance(official, NotComputed)
    assert isinstance(own, Medcon)
    assert own.names == (OWN_TERMS,)
    assert own.score([TextPair("Fever.", "some fever")]) == [(1,)]


@pytest.mark.parametrize(
    ("absent", "reason"),
    [
        ("quickumls", "pip install quickumls"),
        ("en_core_web_sm", "python -m spacy download en_core_web_sm"),
        ("", "python -m nltk.downloader stopwords"),
    ],
)
def test_each_part_of_quickumls_that_is_missing_is_named(
    absent: str, reason: str, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    _pretend_installed(monkeypatch, {"quickumls", "en_core_web_sm"} - {absent})
    (metric,) = loaded_of(["medcon"], MetricResources(quickumls=index))
    assert isinstance(metric, NotComputed)
    assert reason in metric.reason


def test_quickumls_is_opened_as_by_the_official_scorer(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, dict[str, Any]]] = []

    class Index:
        def __init__(self, folder: str, **options: Any) -> None:
            opened.append((folder, options))

        def match(self, text: str) -> list[list[dict[str, object]]]:
            return [[{"term": text.lower(), "cui": "C1"}]]

    monkeypatch.setitem(sys.modules, "quickumls", cast("ModuleType", SimpleNamespace(QuickUMLS=Index)))
    monkeypatch.setattr(nltk.data, "path", [str(save_stopwords(tmp_path / "nltk_data"))])
    _pretend_installed(monkeypatch, {"quickumls", "en_core_web_sm"})
    (metric,) = loaded_of(["medcon"], MetricResources(quickumls=index))
    assert isinstance(metric, Medcon)
    assert metric.score([TextPair("Fever", "fever")]) == [(1,)]
    ((folder, options),) = opened
    assert (folder, options["window"], options["threshold"]) == (str(index), 5, 1)
    assert len(options["accepted_semtypes"]) == 66


def test_without_torch_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resources = _alignscore(tmp_path)
    resources["bertscore_model"] = save_distilbert(tmp_path / "distilbert")
    _pretend_installed(monkeypatch, set())
    reason = "needs torch and transformers: pip install -e '.[embedded]' in the clone"
    names = ("bertscore", "alignscore")
    assert loaded_of(names, resources) == [NotComputed((name,), reason) for name in names]


@pytest.mark.parametrize(
    "part", ["bertscore_model", "alignscore", "alignscore_backbone", "quickumls", "concepts"]
)
def test_a_path_to_nothing_is_refused(part: str, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(InputError, match="missing"):
        loaded_of(_ALL, MetricResources(**{part: missing}))


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ("{", "not JSON"),
        ("[]", "model_type is None and not 'distilbert'"),
        (json.dumps({"model_type": "bert"}), "model_type is 'bert' and not 'distilbert'"),
        (json.dumps({"model_type": "distilbert"}), "none of tokenizer.json, vocab.txt, vocab.json in it"),
    ],
)
def test_a_folder_of_another_model_is_refused(config: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(InputError) as caught:
        loaded_of(["bertscore"], MetricResources(bertscore_model=tmp_path))
    assert caught.value.fault == fault
    assert "distilbert-base-uncased" in caught.value.remedy


def test_importing_it_loads_nothing_heavy() -> None:
    code = (
        "import sys, evals.metrics.registry; "
        "print({'torch', 'transformers', 'nltk', 'quickumls', 'spacy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def _alignscore(folder: Path) -> MetricResources:
    backbone, checkpoint = save_roberta(folder / "roberta"), folder / "AlignScore.ckpt"
    save_alignscore(checkpoint, backbone)
    return MetricResources(alignscore=checkpoint, alignscore_backbone=backbone)


def _pretend_installed(monkeypatch: pytest.MonkeyPatch, packages: set[str]) -> None:
    def find_spec(name: str) -> ModuleSpec | None:
        return ModuleSpec(name, None) if name in packages else None

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


_PAIRS = [TextPair(f"a b c {number} d e f", f"a b c {number % 7} d", "a x y") for number in range(1001)]


class _Process:
    """A metric that tells where it runs, and cannot be sent elsewhere."""

    names = ("process",)
    spread = False

    def score(self, pairs: Sequence[TextPair]) -> list[tuple[float, ...]]:
        return [(os.getpid(),) for _ in pairs]

    def __reduce__(self) -> str:
        raise AssertionError("a model was sent to another process")


def test_many_pairs_score_as_few_do(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics: list[TextMetric] = [Bleu(), Rouge(), Sari()]
    monkeypatch.setattr(registry, "processors", lambda: 2)
    spread = score_texts(metrics, _PAIRS)
    monkeypatch.setattr(registry, "processors", lambda: 1)
    assert spread == score_texts(metrics, _PAIRS)
    assert [len(values) for values in spread.values()] == [len(_PAIRS)] * 6


def test_models_stay_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "processors", lambda: 2)
    scores = score_texts([_Process(), Bleu()], _PAIRS)
    assert set(scores["process"]) == {os.getpid()}
    assert len(scores["bleu"]) == len(_PAIRS)


def test_no_pairs_give_no_scores() -> None:
    assert score_texts([Bleu(), _Process()], []) == {"bleu": [], "process": []}


def test_the_command_line_has_a_flag_for_each_resource_that_a_metric_declares() -> None:
    flags = {one.name for one in fields(MetricFlags)}
    assert flags == {name for spec in METRICS for name in spec.resources}


def test_a_resource_that_no_metric_declares_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no metric declares"):
        load_metrics([], MetricResources(bert_score=tmp_path))
