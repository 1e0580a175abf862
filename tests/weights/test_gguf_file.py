import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from gguf import GGUFReader
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.weights.tiny_gguf import LAYERS, POSITIONS, TOKENS, write_tiny_gguf
from weights.gguf_file import check_gguf, convert_gguf, unsupported_layers
from weights.registry import WeightsError


def test_a_checked_file_is_said_to_need_two_bytes_a_weight(tmp_path: Path) -> None:
    file = write_tiny_gguf(tmp_path / "tiny.gguf")
    assert check_gguf(file) == 2 * sum(int(tensor.n_elements) for tensor in GGUFReader(file).tensors)


def test_the_check_skips_the_vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_tiny_gguf(tmp_path / "tiny.gguf")
    strings = 0
    read = GGUFReader._get_str

    def counted(reader: GGUFReader, offset: int) -> object:
        nonlocal strings
        strings += 1
        return read(reader, offset)

    monkeypatch.setattr(GGUFReader, "_get_str", counted)
    check_gguf(file)
    assert strings < len(TOKENS)


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda file: write_tiny_gguf(file, architecture="rwkv7"), r"architecture 'rwkv7'.*cannot read"),
        (
            lambda file: write_tiny_gguf(file, architecture="t5encoder"),
            r"architecture 't5encoder'.*not a text decoder",
        ),
        (
            lambda file: write_tiny_gguf(file, architecture="gemma2"),
            r"architecture 'gemma2'.*sliding_attention",
        ),
        (lambda file: write_tiny_gguf(file, architecture="llama", window=64), r"sees 64 of 128 tokens"),
        (lambda file: write_tiny_gguf(file, template=None), "has no chat template"),
        (lambda file: write_tiny_gguf(file, parts=3), "one of 3 parts.*llama-gguf-split"),
        (lambda file: file.write_bytes(b"PK\x03\x04 some wheel"), "not a GGUF file"),
        (lambda file: file.write_bytes(b""), "not a GGUF file"),
        (lambda file: cut(write_tiny_gguf(file), 0.5), "damaged or cut off"),
        (lambda file: cut(write_tiny_gguf(file), 0.05), "damaged or cut off"),
    ],
)
def test_what_cannot_run_is_refused_by_name(
    write: Callable[[Path], object], reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "some.gguf"
    write(file)
    with pytest.raises(WeightsError, match=reason) as caught:
        check_gguf(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def cut(file: Path, share: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, ""),
        ({"layer_types": ["full_attention"], "sliding_window": None}, ""),
        ({"sliding_window": 4096, "max_position_embeddings": 32768, "use_sliding_window": False}, ""),
        ({"sliding_window": 4096, "max_position_embeddings": 4096}, ""),
        ({"sliding_window": 4096, "max_position_embeddings": 32768}, "sees 4,096 of 32,768"),
        ({"layer_types": ["full_attention", "conv"]}, "conv"),
        ({"attn_logit_softcapping": 50.0}, "caps"),
        ({"kv_lora_rank": 512}, "compresses"),
    ],
)
def test_layers_other_than_full_attention_are_named(config: dict[str, object], reason: str) -> None:
    found = unsupported_layers(config)
    assert (reason in found) if reason else not found


def test_a_file_that_lacks_a_tensor_is_not_filled_with_random_numbers(tmp_path: Path) -> None:
    file = write_tiny_gguf(tmp_path / "tiny.gguf", without="blk.1.ffn_up.weight")
    with pytest.raises(WeightsError, match=r"lacks 1 tensors.*layers\.1\.mlp\.up_proj"):
        convert_gguf(file, tmp_path / "converted")
    assert not (tmp_path / "converted").exists()


@pytest.mark.parametrize(("output", "tied"), [("", True), ("noisy", True), ("own", False)])
def test_one_matrix_is_stored_once_and_two_stay_two(output: str, tied: bool, tmp_path: Path) -> None:
    file = write_tiny_gguf(tmp_path / "tiny.gguf", output=output)
    convert_gguf(file, tmp_path / "converted")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "converted", dtype=torch.float32)
    assert model.config.tie_word_embeddings is tied
    assert (model.lm_head.weight is model.model.embed_tokens.weight) is tied
    tensors = {tensor.name: tensor.data for tensor in GGUFReader(file).tensors}
    finer = torch.from_numpy(tensors.get("output.weight", tensors["token_embd.weight"]).copy())
    assert torch.equal(model.lm_head.weight, finer.bfloat16().float())


def test_a_conversion_keeps_tokens_template_and_all_that_ends_a_reply(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = write_tiny_gguf(tmp_path / "tiny.gguf")
    seen: list[int] = []
    convert_gguf(file, tmp_path / "converted", progress=seen.append)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "converted")
    turns = [{"role": "user", "content": "the père\n"}]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>user\nthe père\n<|im_end|>\n<|im_start|>assistant\n"
    tokens = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(tokens) == text
    assert tokens[0] == TOKENS.index("<|im_start|>")
    ends = [TOKENS.index("<|im_end|>"), TOKENS.index("<|endoftext|>")]
    assert stop_tokens(tmp_path / "converted") == ends
    config = json.loads((tmp_path / "converted" / "config.json").read_text("utf-8"))
    assert (config["num_hidden_layers"], config["max_position_embeddings"]) == (LAYERS, POSITIONS)
    assert capfd.readouterr().err == ""
    assert seen == sorted(seen) and seen[-1] == sum(tensor.n_bytes for tensor in GGUFReader(file).tensors)


def test_a_registered_model_has_the_stop_tokens_of_its_publisher(tmp_path: Path) -> None:
    file = write_tiny_gguf(tmp_path / "tiny.gguf")
    convert_gguf(file, tmp_path / "converted", stop_tokens=())
    assert stop_tokens(tmp_path / "converted") == TOKENS.index("<|im_end|>")


def stop_tokens(folder: Path) -> object:
    return json.loads((folder / "generation_config.json").read_text("utf-8"))["eos_token_id"]
