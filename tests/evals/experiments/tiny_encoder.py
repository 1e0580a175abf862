"""A random encoder that trains in seconds."""

from __future__ import annotations

from pathlib import Path

WORDS = ("dose", "fever", "drain", "rash", "trial", "group", "mean", "higher", "lower", "was", "the", "of")
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def save_tiny_encoder(folder: Path) -> Path:
    """Save a BERT of one layer with 16 dimensions and a vocabulary of a few words."""
    import torch
    from transformers import AutoModel, BertConfig, BertTokenizer

    folder.mkdir()
    words = folder / "vocab.txt"
    words.write_text("\n".join((*_SPECIAL, *WORDS, *"abcdefghijklmnopqrstuvwxyz?.")), "utf-8")
    BertTokenizer(str(words)).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words.read_text("utf-8").splitlines()),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    AutoModel.from_config(config).save_pretrained(folder)  # type: ignore[no-untyped-call]
    return folder
