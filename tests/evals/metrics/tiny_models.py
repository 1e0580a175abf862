"""Models of the metrics' architectures with a few random weights, saved as the real ones are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import ByteLevelBPETokenizer
from torch import nn
from transformers import (
    BertTokenizer,
    DistilBertConfig,
    DistilBertForMaskedLM,
    RobertaConfig,
    RobertaModel,
    RobertaTokenizer,
)

from evals.metrics.text_metric import loading

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_WORDS = ["the", "pump", "was", "stopped", "because", "he", "became", "drowsy", "oral", "given", "instead"]
_WORDPIECES = [*_SPECIAL, *_WORDS, "para", "##cet", "##amol", ".", ",", "a", "b", "c"]


def save_distilbert(folder: Path) -> Path:
    """A masked language model, as distilbert-base-uncased is published, of 6 layers."""
    folder.mkdir()
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(_WORDPIECES), "utf-8")
    config = DistilBertConfig(
        vocab_size=len(_WORDPIECES), dim=32, hidden_dim=64, n_heads=4, n_layers=6, max_position_embeddings=64
    )
    with loading(folder), torch.random.fork_rng():
        torch.manual_seed(0)
        model: Any = DistilBertForMaskedLM
        model(config).save_pretrained(folder)
        BertTokenizer(vocab=str(vocabulary), model_max_length=64).save_pretrained(folder)
    return folder


def save_roberta(folder: Path) -> Path:
    """Configuration and byte-level tokenizer, of 96 positions."""
    folder.mkdir()
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(
        ["The pump was stopped because he became drowsy. Oral paracetamol was given instead."],
        vocab_size=300,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        show_progress=False,
    )
    trained.save_model(str(folder))
    with loading(folder):
        RobertaTokenizer.from_pretrained(folder, model_max_length=96).save_pretrained(folder)
    RobertaConfig(
        vocab_size=300,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=98,
        initializer_range=0.6,  # with the usual 0.02 every text would look alike
    ).save_pretrained(folder)
    return folder


def save_alignscore(path: Path, backbone: Path) -> dict[str, torch.Tensor]:
    """A checkpoint with the keys of AlignScore-base.ckpt; returns its weights."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model: Any = RobertaModel
        parts: dict[str, nn.Module] = {
            "base_model": model(RobertaConfig.from_pretrained(backbone)),
            "bin_layer": nn.Linear(32, 2),
            "tri_layer": nn.Linear(32, 3),
            "reg_layer": nn.Linear(32, 1),
            "mlm_head": nn.Linear(32, 300),
        }
    weights = {
        f"{name}.{key}": tensor for name, part in parts.items() for key, tensor in part.state_dict().items()
    }
    # Checkpoints of that time hold this buffer, which today's model has no place for.
    weights["base_model.embeddings.position_ids"] = torch.arange(98)[None]
    torch.save(
        {
            "state_dict": weights,
            "epoch": 1,
            "pytorch-lightning_version": "1.7.7",
            "hyper_parameters": {"model": "roberta-base"},
        },
        path,
    )
    return weights
