"""GGUF files: whether the embedded engine can run their models, and their conversion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from weights.loading import LOADING, no_progress_bars, no_warnings, stay_offline
from weights.registry import WeightsError

if TYPE_CHECKING:
    from gguf import GGUFReader
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_MAGIC = b"GGUF"
_SAME_MATRIX = 0.2
"""Relative difference up to which two embeddings are one, quantised twice.

Measured on the files of Qwen2.5-Coder: 0.04 (Q5_0 against Q8_0) and 0.07 (Q4_K against Q6_K). Two independent
matrices of one norm differ by 1.4.
"""
_COMPARED_ROWS = 8192

_ENDS_OF_A_TURN = (
    *("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>", "<|end|>", "<|eot|>"),
    *(
        "<end_of_turn>",
        "<turn|>",
        "</s>",
        "<EOT>",
        "<|return|>",
        "<\N{FULLWIDTH VERTICAL LINE}end\u2581of\u2581sentence\N{FULLWIDTH VERTICAL LINE}>",
    ),
)
"""Tokens that end a reply wherever a vocabulary has them, mostly as llama.cpp has them."""

_VLLM = "serve it with vLLM and pass `vllm:NAME@http://HOST:8000/v1`"


def unsupported_layers(config: Mapping[str, Any]) -> str:
    """Layers of a model that the embedded engine cannot run; empty if none.

    Args:
        config: The fields of a transformers configuration. One that names too little passes; the engine
            looks again at the configuration with its defaults.
    """
    kinds = {str(kind) for kind in config.get("layer_types") or ()} - {"full_attention"}
    if kinds:
        return f"it has layers of {', '.join(sorted(kinds))}"
    window, positions = config.get("sliding_window"), config.get("max_position_embeddings")
    if window and positions and config.get("use_sliding_window", True) and window < positions:
        return f"its attention sees {window:,} of {positions:,} tokens"
    if config.get("attn_logit_softcapping"):
        return "its attention caps its scores"
    if config.get("kv_lora_rank"):
        return "its attention compresses keys and values"
    return ""


def check_gguf(file: Path) -> int:
    """Refuse a file that the embedded engine could not run once it is converted. Takes seconds.

    Returns:
        Bytes that the weights take after the conversion, at most.

    Raises:
        WeightsError: The file is not GGUF, is cut off or a part of several, or its model is of an
            architecture or a form that cannot be run.
    """
    with file.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise WeightsError(f"{file} is not a GGUF file: it does not begin with the letters GGUF")
    stay_offline()
    with LOADING:
        try:
            header = _header_reader()(file)
        except (ValueError, KeyError, IndexError, OverflowError) as error:
            raise WeightsError(f"{file} is damaged or cut off ({error}): download it again") from None
        fields = {name: field for name, field in header.fields.items() if len(field.types) == 1}
        _refuse_unusable(file, {name: field.contents() for name, field in fields.items()})
        _refuse_unsupported(file, str(fields["general.architecture"].contents()), header)
        return 2 * sum(int(tensor.n_elements) for tensor in header.tensors)


def convert_gguf(
    file: Path,
    target: Path,
    *,
    stop_tokens: Sequence[str] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Write the weights of a GGUF file as bf16 safetensors, with tokenizer and chat template.

    Done once because reading GGUF takes 12 s at every start and safetensors load in one.

    Args:
        file: The GGUF file.
        target: The folder to write, not there yet.
        stop_tokens: Tokens that end a reply, in addition to the file's. None takes every known end token in
            the vocabulary.
        progress: Called with the bytes of tensors that are converted.

    Raises:
        WeightsError: Transformers cannot read the file, or it lacks tensors.
    """
    stay_offline()
    import gguf
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    # Reading a vocabulary of 150,000 tokens takes 10 s, and transformers asks for it three times.
    read_once = lru_cache(maxsize=1)(gguf.GGUFReader)

    with LOADING, no_progress_bars(), no_warnings():
        with _swapped(gguf, "GGUFReader", read_once), _counted(progress):
            try:
                # Unless told to dequantize, transformers keeps the weights packed and cannot save them.
                loaded: Any = AutoModelForCausalLM.from_pretrained(
                    file.parent,
                    gguf_file=file.name,
                    dtype=torch.bfloat16,
                    quantization_config=GgufConfig(dequantize=True),
                    output_loading_info=True,
                )
                tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
            except Exception as error:
                # Any error: files lack different parts, and transformers fails differently.
                raise WeightsError(f"{file} cannot be converted: {_first_line(error)}") from error
        model, found = loaded
        # Transformers would fill them with random numbers.
        if lacking := sorted(found["missing_keys"]):
            raise WeightsError(
                f"{file} lacks {len(lacking)} tensors of its architecture, such as {lacking[0]}: "
                f"it cannot be converted; {_VLLM}"
            )
        read_once.cache_clear()
        _store_embeddings_once(model)
        _set_stop_tokens(model, tokenizer, _ENDS_OF_A_TURN if stop_tokens is None else stop_tokens)
        model.save_pretrained(target)
        tokenizer.save_pretrained(target)


def _header_reader() -> type[GGUFReader]:
    """A reader that skips arrays, such as the vocabulary, which take it most of its time."""
    from gguf import GGUFReader, GGUFValueType

    class HeaderReader(GGUFReader):
        # Not part of the interface of `gguf`. Were it renamed, the arrays would be read, and nothing break.
        def _get_field_parts(
            self, orig_offs: int, raw_type: int
        ) -> tuple[int, list[Any], list[int], list[Any]]:
            if GGUFValueType(raw_type) != GGUFValueType.ARRAY:
                parts: tuple[int, list[Any], list[int], list[Any]] = super()._get_field_parts(
                    orig_offs, raw_type
                )
                return parts
            kind = GGUFValueType(int.from_bytes(self.data[orig_offs : orig_offs + 4], "little"))
            count = int.from_bytes(self.data[orig_offs + 4 : orig_offs + 12], "little")
            end = orig_offs + 12
            if kind == GGUFValueType.STRING:
                for _ in range(count):
                    end += 8 + int.from_bytes(self.data[end : end + 8], "little")
            else:
                end += count * self.gguf_scalar_to_np[kind]().itemsize
            return end - orig_offs, [], [], [GGUFValueType.ARRAY, kind]

    return HeaderReader


def _refuse_unusable(file: Path, fields: Mapping[str, Any]) -> None:
    """Refuse a file that is not the whole of a chat model."""
    if not fields.get("general.architecture"):
        raise WeightsError(f"{file} names no architecture (general.architecture), so it cannot be read")
    if (parts := int(fields.get("split.count", 1))) > 1:
        raise WeightsError(
            f"{file} is one of {parts} parts of a model: join them (`llama-gguf-split --merge`) "
            "and pass the whole"
        )
    if "tokenizer.chat_template" not in fields:
        raise WeightsError(f"{file} has no chat template, as base models have none: pass an instruct model")


def _refuse_unsupported(file: Path, architecture: str, header: GGUFReader) -> None:
    """Refuse an architecture that transformers does not read, or the engine does not run."""
    import gguf
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    named = f"{file} is a model of the architecture {architecture!r}"
    # Transformers misses the vocabulary that the header leaves out.
    with _swapped(gguf, "GGUFReader", lambda path: header), no_warnings():
        try:
            config = AutoConfig.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)
        except Exception as error:
            # Depending on what a file lacks, transformers raises anything from ValueError to AttributeError.
            raise WeightsError(
                f"{named}, which transformers cannot read from GGUF ({_first_line(error)}): pass the folder "
                f"of its safetensors as `embedded:/path/to/model`, or {_VLLM}"
            ) from None
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise WeightsError(f"{named}, which is not a text decoder: pass a chat model")
    if reason := unsupported_layers({**config.to_dict(), **_window(header, architecture)}):
        raise WeightsError(f"{named}, which the embedded engine cannot run, because {reason}: {_VLLM}")


def _window(header: GGUFReader, architecture: str) -> dict[str, int]:
    """The window of attention that a file names, which transformers reads for few architectures."""
    field = header.fields.get(f"{architecture}.attention.sliding_window")
    return {} if field is None or len(field.types) > 1 else {"sliding_window": int(field.contents())}


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextmanager
def _swapped(module: ModuleType, name: str, value: Callable[..., Any]) -> Iterator[None]:
    """Let transformers find something else under a name of a module."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


@contextmanager
def _counted(progress: Callable[[int], None]) -> Iterator[None]:
    """Report the bytes of converted tensors, in place of the bar of transformers, which has no switch."""
    import gguf
    from transformers import modeling_gguf_pytorch_utils as reading

    dequantize, done = gguf.dequantize, 0

    def dequantize_and_report(data: Any, kind: Any) -> Any:
        nonlocal done
        values = dequantize(data, kind)
        done += int(data.nbytes)
        progress(done)
        return values

    with (
        _swapped(gguf, "dequantize", dequantize_and_report),
        _swapped(reading, "tqdm", lambda tensors, **bar: tensors),
    ):
        yield


def _store_embeddings_once(model: PreTrainedModel) -> None:
    """Tie the embeddings where the file holds one matrix twice.

    A model whose input and output embeddings are one matrix may have it in its GGUF file for both, the output
    in the finer type. Transformers then takes it for two, and both would be stored and kept in memory. The
    finer one serves both here, which is closer to the publisher's weights as well.
    """
    import torch

    inputs = getattr(model.get_input_embeddings(), "weight", None)
    outputs = getattr(model.get_output_embeddings(), "weight", None)  # type: ignore[no-untyped-call]
    if not (isinstance(inputs, torch.Tensor) and isinstance(outputs, torch.Tensor)):
        return
    if inputs is outputs or inputs.shape != outputs.shape:
        return
    step = max(1, len(outputs) // _COMPARED_ROWS)
    with torch.no_grad():
        rows = outputs[::step].float()
        if (rows - inputs[::step].float()).norm() > _SAME_MATRIX * rows.norm():
            return
        inputs.copy_(outputs)
    model.config.tie_word_embeddings = True
    model.tie_weights()


def _set_stop_tokens(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, stop_tokens: Sequence[str]
) -> None:
    """Add to the one token of a GGUF file what else ends a reply."""
    named = model.config.eos_token_id
    known = [named] if isinstance(named, int) else list(named or [])
    vocabulary = tokenizer.get_vocab()
    found = [vocabulary[token] for token in stop_tokens if token in vocabulary]
    every = list(dict.fromkeys([*known, *found]))
    settings = model.generation_config
    if every != known and settings is not None:
        settings.eos_token_id = every
        settings._from_model_config = False
