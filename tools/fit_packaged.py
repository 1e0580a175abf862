"""How the packaged regressions were fitted: `python -m tools.fit_packaged SCIFACT OUT`.

OUT gets a folder for each; its `ranker.json` is what `ranking/packaged/NAME.json` holds.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ranking.rankers.logistic import LOGISTIC, SUPPORT, fit_logistic
from ranking.readers.load import load_examples
from ranking.readers.scifact import ScifactOptions

_LICENCE = (
    "Claims CC BY 4.0: Wadden et al., Fact or Fiction: Verifying Scientific Claims, EMNLP 2020. Abstracts"
    " ODC-By 1.0: S2ORC. These are coefficients alone; no text of either is kept."
)
_CLAIMS = "SciFact: the claims of its training split with the abstracts that"


def fit_packaged(scifact: Path, out: Path) -> None:
    """Fit both.

    Args:
        scifact: Folder of the claims of the training split and the abstracts.
        out: A folder is made in it for each.
    """
    logistic = fit_logistic(
        load_examples([scifact], ScifactOptions()),
        data=f"{_CLAIMS} hold evidence on them",
        licence=_LICENCE,
    )
    logistic.save(out / LOGISTIC)
    # A threshold without fallback: of a document without evidence nothing is to be chosen.
    support = fit_logistic(
        load_examples([scifact], ScifactOptions(cited=True)),
        rules=["threshold"],
        fallback=False,
        data=f"{_CLAIMS} they cite, with evidence in them or not",
        licence=_LICENCE,
    )
    support.save(out / SUPPORT)


if __name__ == "__main__":
    fit_packaged(Path(sys.argv[1]), Path(sys.argv[2]))
