"""Text of notes in Word and PDF files."""

from __future__ import annotations

import io
import logging
import zipfile
from typing import Any

from storage.errors import InputError

_EXTRA = "pip install -e '.[documents]' in the clone, or save it as text"
_MAX_UNPACKED = 1 << 27
"""Bytes of a Word file once unpacked; text of a note takes a hundredth."""

OFFICE_SUFFIXES = (".docx", ".pdf")


def office_text(content: bytes, name: object, suffix: str) -> str:
    """Text of a `.docx` or `.pdf` file.

    Paragraphs of Word are separated by empty lines, list items begin with a dash, and cells of tables are
    separated by bars; headers and footers are left out. Lines of a PDF are as they are printed.

    Raises:
        InputError: The extra is missing, or the file is damaged, protected, or a scan.
    """
    read, kind = (_word, "a Word file") if suffix == ".docx" else (_pdf, "a PDF")
    try:
        text = read(content, name)
    except ImportError:
        raise InputError(name, f"is {kind}, which needs an extra", _EXTRA) from None
    except InputError:
        raise
    # Damaged files make both libraries raise nearly anything.
    except Exception as error:
        fault = f"cannot be read as {kind}: {type(error).__name__}"
        raise InputError(name, fault, "Open it, and save it again or as text") from error
    return text


def _word(content: bytes, name: object) -> str:
    import docx
    from docx.oxml.ns import qn

    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        if sum(entry.file_size for entry in packed.infolist()) > _MAX_UNPACKED:
            raise InputError(name, f"unpacks to more than {_MAX_UNPACKED >> 20} MB", "Save it as text")
    body = docx.Document(io.BytesIO(content)).element.body
    blocks = []
    outer = "[not(ancestor::w:tbl)][not(ancestor::w:p)]"
    for block in body.xpath(f".//w:p{outer} | .//w:tbl{outer}"):
        if block.tag == qn("w:tbl"):
            rows = [[_line(cell) for cell in row.xpath("./w:tc")] for row in block.xpath(".//w:tr")]
            blocks.append("\n".join(" | ".join(row) for row in rows))
        else:
            listed = block.xpath('./w:pPr/w:numPr | ./w:pPr/w:pStyle[starts-with(@w:val, "List")]')
            blocks.append(("- " if listed else "") + _text(block))
    return "\n\n".join(blocks)


def _line(cell: Any) -> str:
    return " ".join(" ".join(_text(paragraph) for paragraph in cell.xpath("./w:p")).split())


def _text(paragraph: Any) -> str:
    """Runs of a paragraph, inserted ones too: python-docx's own `text` passes over tracked insertions."""
    nodes = paragraph.xpath(
        ".//*[self::w:t or self::w:tab[parent::w:r] or self::w:br or self::w:cr]"
        '[not(ancestor::*[local-name()="Fallback"])]'
    )
    blanks = {"tab": "\t", "br": "\n", "cr": "\n"}
    return "".join(blanks.get(node.tag.rpartition("}")[2], node.text or "") for node in nodes)


def _pdf(content: bytes, name: object) -> str:
    import pypdf

    # It warns of each irregularity that it gets over.
    logging.getLogger("pypdf").setLevel(logging.ERROR)
    reader = pypdf.PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        raise InputError(name, "is protected by a password", "Save a copy without it")
    pages = [page.extract_text() for page in reader.pages]
    for number, (page, text) in enumerate(zip(reader.pages, pages, strict=True), start=1):
        if not text.strip() and "/XObject" in page.get("/Resources", {}):
            raise InputError(
                name, f"page {number} is a picture without text", "Give it text with an OCR program"
            )
    return "\n".join(pages)
