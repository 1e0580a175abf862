"""GGUF files of a few kilobytes, with random weights and a vocabulary of bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFWriter
from tokenizers.pre_tokenizers import ByteLevel

WIDTH, HEADS, LAYERS, INNER, POSITIONS = 32, 4, 2, 64, 128
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = ["e r", "t h"]
TOKENS = [*sorted(ByteLevel.alphabet()), "er", "th", *SPECIAL]
NORMAL, CONTROL = 1, 3


def write_tiny_gguf(
    file: Path,
    *,
    architecture: str = "qwen2",
    output: str = "",
    template: str | None = TEMPLATE,
    parts: int = 1,
    window: int | None = None,
    without: str = "",
) -> Path:
    """Write a model.

    Args:
        file: To write.
        architecture: As GGUF calls it.
        output: The output embedding: none where it is empty, `noisy` for the input's as another quantisation
            would give it, `own` for a different one.
        template: The chat template, or None.
        parts: Files that the model says it is split into.
        window: Tokens that attention sees, or None.
        without: A tensor to leave out.
    """
    random = np.random.default_rng(17)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return random.normal(0, 0.1, (rows, columns)).astype(np.float32)

    writer = GGUFWriter(file, architecture)
    writer.add_name("tiny")
    writer.add_block_count(LAYERS)
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS // 2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10_000.0)
    if window is not None:
        writer.add_sliding_window(window)
    if parts > 1:
        writer.add_uint16("split.count", parts)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([NORMAL] * (len(TOKENS) - len(SPECIAL)) + [CONTROL] * len(SPECIAL))
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(TOKENS.index("<|im_end|>"))
    writer.add_pad_token_id(TOKENS.index("<|endoftext|>"))
    if template is not None:
        writer.add_chat_template(template)
    embeddings = matrix(len(TOKENS), WIDTH)
    tensors = {"token_embd.weight": embeddings, "output_norm.weight": np.ones(WIDTH, np.float32)}
    if output:
        other = matrix(len(TOKENS), WIDTH)
        tensors["output.weight"] = other if output == "own" else embeddings + np.float32(0.05) * other
    for layer in range(LAYERS):
        shapes = {
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (WIDTH // 2, WIDTH),
            "attn_v": (WIDTH // 2, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_gate": (INNER, WIDTH),
            "ffn_up": (INNER, WIDTH),
            "ffn_down": (WIDTH, INNER),
        }
        for part, (rows, columns) in shapes.items():
            tensors[f"blk.{layer}.{part}.weight"] = matrix(rows, columns)
        for part in ("attn_q", "attn_k", "attn_v") if architecture == "qwen2" else ():
            tensors[f"blk.{layer}.{part}.bias"] = np.zeros(shapes[part][0], np.float32)
        for part in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{part}.weight"] = np.ones(WIDTH, np.float32)
    tensors.pop(without, None)
    for path, tensor in tensors.items():
        writer.add_tensor(path, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
