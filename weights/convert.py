"""GGUF to a plain transformers folder."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from pathlib import Path

from weights.loading import no_progress_bars, stay_offline


def convert_gguf(gguf: Path, target: Path) -> None:
    """Write the weights of a GGUF file as bf16 safetensors, with tokenizer and chat template.

    Done once because reading GGUF takes 12 s at every start and safetensors load in one.
    """
    stay_offline()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    # The bar of the GGUF reader knows no switch and draws on the error stream.
    with no_progress_bars(), redirect_stderr(io.StringIO()):
        # Unless it is told to dequantize, transformers keeps the weights packed and cannot save them.
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),
        )
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model.save_pretrained(target)
        tokenizer.save_pretrained(target)
