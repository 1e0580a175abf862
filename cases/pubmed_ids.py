"""PubMed ids and the addresses that BioASQ writes them as."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

PUBMED = "http://www.ncbi.nlm.nih.gov/pubmed/"
"""What BioASQ's files put before a PubMed id."""

_ADDRESS = re.compile(r"https?://(?:www\.ncbi\.nlm\.nih\.gov/pubmed|pubmed\.ncbi\.nlm\.nih\.gov)/\d+/?")


def document_id(address: str) -> str:
    """The last part of an address's path; an id that is no address is taken as it is.

    Returns:
        Empty where an address has no path.
    """
    stripped = address.strip()
    if "://" not in stripped:
        return stripped
    return urlsplit(stripped).path.rstrip("/").rpartition("/")[2]


def pubmed_address(document: str) -> str:
    """The address of a document by its id."""
    return f"{PUBMED}{document}"


def is_pubmed_address(text: str) -> bool:
    """Whether BioASQ takes it for a document: PubMed's host, and a number."""
    return _ADDRESS.fullmatch(text) is not None
