"""The backbone of neural rankers: any transformers encoder in a folder, or the packaged one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weights.loading import loading_model
from weights.registry import WeightsError, packaged_embedder

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedTokenizerBase

MINILM = "minilm"
"""The packaged encoder, all-MiniLM-L6-v2 (384 dimensions, 6 layers, Apache-2.0)."""


@dataclass(frozen=True, slots=True)
class Encoder:
    """A loaded backbone with its tokenizer.

    Attributes:
        model: Takes `input_ids` and `attention_mask`, returns an object with `last_hidden_state`.
        hidden_size: Width of a token's state.
    """

    tokenizer: PreTrainedTokenizerBase
    model: nn.Module
    hidden_size: int


def encoder_folder(name: str) -> Path:
    """Folder of an encoder's weights: `minilm`, or the folder of a transformers model.

    Raises:
        WeightsError: The package is not installed, or the folder holds no model.
    """
    if name == MINILM:
        return packaged_embedder()
    folder = Path(name).expanduser()
    if not (folder / "config.json").is_file():
        raise WeightsError(
            f"no encoder at {name!r}: pass '{MINILM}', or the folder of a transformers model"
            " with its config.json, tokenizer and weights"
        )
    return folder.resolve()


def load_encoder(folder: Path, *, weights: bool = True) -> Encoder:
    """Load tokenizer and model, in evaluation mode and float32.

    Args:
        folder: Of a transformers model.
        weights: False builds the architecture alone, for weights that come from a checkpoint.

    Raises:
        WeightsError: The folder is damaged or holds no encoder.
    """
    with loading_model(folder, "encoder"):
        from transformers import AutoConfig, AutoModel, AutoTokenizer

        # Plain matrix products: masked scaled_dot_product_attention takes a third of the time of a training
        # step on a processor.
        options: dict[str, Any] = {"attn_implementation": "eager"}
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        if weights:
            model = AutoModel.from_pretrained(folder, local_files_only=True, **options)
        else:
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
            model = AutoModel.from_config(config, **options)  # type: ignore[no-untyped-call]
    model.eval()
    return Encoder(tokenizer, model, int(model.config.hidden_size))
