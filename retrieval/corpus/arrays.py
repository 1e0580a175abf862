"""Arrays as `.npy` files, written so that a full disk is told as one: numpy itself loses the reason."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def npy(values: NDArray[Any]) -> list[bytes]:
    """The content of a file, in pieces."""
    header = BytesIO()
    np.lib.format.write_array_header_2_0(header, np.lib.format.header_data_from_array_1_0(values))
    return [header.getvalue(), values.tobytes()]


def write_array(path: Path, values: NDArray[Any]) -> None:
    """Write a new file."""
    with path.open("xb") as file:
        file.writelines(npy(values))
