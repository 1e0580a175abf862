"""A BERT of 8 dimensions that classifies pairs of texts, with a tokenizer of a few words."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "does", "tea", "help", "it", "did", "not", "?", "."]
TEXTS = ["it did help .", "it did not help . " * 3, "tea"]
POSITIONS = 32


def write_classifier(folder: Path, labels: list[str], bias: list[float] | None = None) -> Path:
    """An untrained model with these labels in their order; a bias, if given, outweighs all else."""
    torch.manual_seed(0)
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizer(str(folder / "vocab.txt"), model_max_length=POSITIONS).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=POSITIONS,
        initializer_range=0.4,
        id2label=dict(enumerate(labels)),
        label2id={name: place for place, name in enumerate(labels)},
    )
    model = BertForSequenceClassification(config)  # type: ignore[no-untyped-call]
    if bias is not None:
        with torch.no_grad():
            model.classifier.bias.copy_(torch.tensor(bias))
    model.save_pretrained(folder)
    return folder
