"""A causal language model and the one kind of forward pass that decoding needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from serving.embedded.attention import GROUPED_ATTENTION, causal_mask
from serving.embedded.key_values import KeyValueRows
from weights.loading import no_progress_bars


class UnsupportedModel(Exception):
    """A model whose layers the in-process engine cannot run."""


class CausalModel:
    """Weights with the keys and values of their rows. Not thread-safe.

    On CUDA where there is one, otherwise on the CPU, in bf16: float32 takes twice the time for a prompt.
    """

    def __init__(self, folder: Path) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        with no_progress_bars():
            model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
                folder, dtype=torch.bfloat16, attn_implementation=GROUPED_ATTENTION, local_files_only=True
            )
        check_supported(model.config, folder)
        self._model = nn.Module.to(model, self.device)
        config = model.config
        self.context_length = int(config.max_position_embeddings)
        self.vocabulary = int(config.vocab_size)
        self.stop_tokens = _stop_tokens(model)
        self.rows = KeyValueRows(config, torch.bfloat16, self.device)
        self._groups = config.num_attention_heads // config.num_key_value_heads

    def forward(self, first: int, lengths: Sequence[int], chunks: Sequence[Sequence[int]]) -> Tensor:
        """Feed the next tokens of neighbouring rows.

        Shorter chunks are padded at the end; the padding's keys land past the row's length, where the next
        pass overwrites them.

        Args:
            first: The first row.
            lengths: Tokens that each row holds already.
            chunks: New tokens of each row, none of them empty.

        Returns:
            Logits after the last token of each chunk, float32 on the CPU.
        """
        longest = max(len(chunk) for chunk in chunks)
        padded = [[*chunk, *[0] * (longest - len(chunk))] for chunk in chunks]
        tokens = torch.tensor(padded, device=self.device)
        starts = torch.tensor(lengths, device=self.device)
        positions = starts[:, None] + torch.arange(longest, device=self.device)
        slots = max(lengths) + longest
        self.rows.reserve(first + len(chunks), slots)
        self.rows.aim(first, positions, slots)
        # Only the places where some row ends, because the output layer costs a quarter of a small model.
        ends = sorted({len(chunk) - 1 for chunk in chunks})
        output = self._model(
            input_ids=tokens,
            attention_mask=causal_mask(positions, slots, self._groups, torch.bfloat16),
            position_ids=positions,
            past_key_values=self.rows,
            use_cache=True,
            logits_to_keep=torch.tensor(ends, device=self.device),
        )
        place = torch.tensor([ends.index(len(chunk) - 1) for chunk in chunks], device=self.device)
        logits: Tensor = output.logits[torch.arange(len(chunks), device=self.device), place]
        return logits.float().cpu()


def check_supported(config: PreTrainedConfig, folder: Path) -> None:
    """Refuse what the mask of `causal_mask` would run, but wrongly.

    Raises:
        UnsupportedModel: The model has layers other than full attention.
    """
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    narrow = window is not None and window < config.max_position_embeddings
    plain = all(
        hasattr(config, name) for name in ("num_key_value_heads", "num_attention_heads", "num_hidden_layers")
    )
    if kinds != {"full_attention"} or narrow or not plain:
        raise UnsupportedModel(
            f"{folder} ({config.model_type}) has layers other than full attention, which the embedded engine "
            "cannot run: serve it with vLLM and pass `vllm:NAME@http://HOST:8000/v1`"
        )


def _stop_tokens(model: PreTrainedModel) -> frozenset[int]:
    configured: set[int] = set()
    for config in (model.generation_config, model.config):
        found = getattr(config, "eos_token_id", None)
        configured.update([found] if isinstance(found, int) else found or [])
    return frozenset(configured)
