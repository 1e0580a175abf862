"""A BERT of 16 dimensions with a tokenizer of ten words, made in milliseconds."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from ranking.encoding.encoders import Encoder
from ranking.models.tokens import TokenIds

HIDDEN = 16
WORDS = ["fever", "cough", "film", "lung", "oxygen", "night", "tablet", "clinic", "scan", "clot"]


def tokenizer(kind: str = "bert") -> PreTrainedTokenizerFast:
    cls, sep = ("[CLS]", "[SEP]") if kind == "bert" else ("<s>", "</s>")
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": cls, "sep_token": sep}
    vocabulary = {word: index for index, word in enumerate([*special.values(), *WORDS])}
    backend = Tokenizer(models.WordLevel(vocabulary, special["unk_token"]))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    if kind == "bert":
        backend.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    else:
        backend.post_processor = processors.RobertaProcessing(("</s>", 3), ("<s>", 2))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)  # type: ignore[no-untyped-call]


def encoder(kind: str = "bert", positions: int = 256) -> Encoder:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        kind,
        vocab_size=4 + len(WORDS),
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=positions,
        pad_token_id=0,
        # Small weights, the default, would give states that hardly depend on the input.
        initializer_range=0.5,
    )
    model = AutoModel.from_config(config, attn_implementation="eager")  # type: ignore[no-untyped-call]
    return Encoder(tokenizer(kind), model.eval(), HIDDEN)


def texts(*lengths: int) -> list[TokenIds]:
    generator = torch.Generator().manual_seed(sum(lengths))
    return [torch.randint(4, 4 + len(WORDS), (length,), generator=generator).tolist() for length in lengths]
