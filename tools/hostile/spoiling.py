"""Sound documents of JSON, YAML and XML with one thing in them that an attacker would have written."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from xml.sax.saxutils import escape

import yaml

from tools.hostile.texts import DEEP, TEXTS, VALUES, Draw, hostile_text, spoil_bytes

_RAW = "@@RAW@@"
_QUOTED = re.compile(r"""["']?@@RAW@@["']?""")

Spoilt = tuple[str, bytes]
"""What was done, and the content of the file."""

YAML_VALUES = {
    "a tag that runs a command": "!!python/object/apply:os.system ['touch PWNED']",
    "a tag of an object": "!!python/name:os.system ''",
    "an alias of itself": "&a [*a]",
    "an alias of nothing": "*nowhere",
    "a day that is none": "2020-99-99",
    "a number of 5,000 digits": "7" * 5000,
    "a number to the base of 60": "1:60:60",
    "a hexadecimal number": "0x" + "f" * 5000,
    "binary": "!!binary xx=x",
    "a set": "!!set {a, b}",
    "not a number": ".nan",
    "infinite": "-.inf",
    "a list as a key": "{? [a, b] : c}",
    "a merge of a number": "{<<: 3}",
    "a list deep in lists": "[" * 3000 + "]" * 3000,
    "a list 10^5 deep": "[" * DEEP + "]" * DEEP,
    "a tag that nobody knows": "!evil x",
    "null": "null",
    "a list": "[1, 2]",
    "an object": "{a: b}",
    "-1": "-1",
    "0": "0",
    "1e999": "1e999",
    "a tab": "\t",
    "a percent sign": "%",
}

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Positions of values in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield (*place, key)
        yield from _places(one, (*place, key))


def _holder(document: Any, place: tuple[Any, ...]) -> Any:
    for key in place[:-1]:
        document = document[key]
    return document


def _change(document: Any, marker: str, draw: Draw, values: dict[str, str]) -> tuple[str, Any, str]:
    """The change, the document, and the value of its placeholder."""
    document = copy.deepcopy(document)
    places = [*_places(document)]
    place = draw.choice(places)
    holder, key = _holder(document, place), place[-1]
    name = re.sub(r"\d+\.?", "", ".".join(str(one) for one in place)).strip(".") or "a record"
    match draw.choice(("text", "text", "text", "value", "value", "key", "gone", "again", "more")):
        case "text":
            texts = [one for one in places if isinstance(_holder(document, one)[one[-1]], str)] or [place]
            place = draw.choice(texts)
            what, _holder(document, place)[place[-1]] = hostile_text(marker, draw)
            return f"{what} in a text", document, ""
        case "value":
            what = draw.choice([*values])
            holder[key] = _RAW
            return f"{what} as a value", document, values[what]
        case "key" if isinstance(holder, dict):
            what, text = hostile_text(marker, draw)
            holder[text] = holder.pop(key)
            return f"{what} as a key", document, ""
        case "gone":
            del holder[key]
            return f"without {name}", document, ""
        case "again" if isinstance(holder, list):
            holder.append(holder[key])
            return "a record twice", document, ""
        case _ if isinstance(holder, dict):
            holder[draw.choice(("__proto__", "__class__", "", " ", marker, f"${marker}"))] = marker
            return "one more key", document, ""
        case _:
            return "an empty document", draw.choice(([], {}, None, 3, marker)), ""


def spoil_json(document: Any, marker: str, draw: Draw, *, lines: bool = False) -> Spoilt:
    """A file of JSON, or of JSON lines where the document is a list of them."""

    def written(document: Any) -> str:
        records = document if lines and isinstance(document, list) else [document]
        return "\n".join(json.dumps(one, ensure_ascii=draw.random() < 0.5) for one in records)

    how = draw.random()
    if how < 0.15:
        return spoil_bytes(written(document).encode() + b"\n", marker, draw)
    if how < 0.22:
        key = draw.choice(re.findall(r'"(\w+)": ', written(document)))
        text = written(document).replace(f'"{key}": ', f'"{key}": "{marker}", "{key}": ', 1)
        return "a key twice", text.encode()
    what, changed, raw = _change(document, marker, draw, VALUES)
    return what, written(changed).replace(f'"{_RAW}"', raw).encode("utf-8", "surrogatepass") + b"\n"


def spoil_yaml(document: Any, marker: str, draw: Draw) -> Spoilt:
    """A YAML file."""
    sound = yaml.safe_dump(document, allow_unicode=True, sort_keys=False)
    how = draw.random()
    if how < 0.15:
        return spoil_bytes(sound.encode(), marker, draw)
    if how < 0.2:
        return "aliases of aliases", (BOMB + sound).encode()
    if how < 0.25:
        return "a second document", (sound + "---\n" + marker + "\n").encode()
    if how < 0.32:
        return "a key twice", (sound + sound).encode()
    what, changed, raw = _change(document, marker, draw, YAML_VALUES)
    try:
        text = yaml.safe_dump(changed, allow_unicode=True, sort_keys=False, width=10**9)
    except (ValueError, UnicodeError):
        text = json.dumps(changed)
    return what, _QUOTED.sub(lambda _: raw, text).encode("utf-8", "surrogatepass")


XML_TRICKS: dict[str, Callable[[str, str, str], str]] = {
    "entities of entities": lambda xml, _, __: _with_entities(
        xml,
        '<!ENTITY a "ha">'
        + "".join(f'<!ENTITY {n} "{f"&{b};" * 10}">' for b, n in zip("abcdefgh", "bcdefghi", strict=True)),
        "&i;",
    ),
    "a file as an entity": lambda xml, _, secret: _with_entities(
        xml, f'<!ENTITY e SYSTEM "{secret}">', "&e;"
    ),
    "a host as an entity": lambda xml, m, _: _with_entities(
        xml, f'<!ENTITY e SYSTEM "http://127.0.0.1:9/{m}">', "&e;"
    ),
    "a parameter entity": lambda xml, _, secret: _with_entities(
        xml, f'<!ENTITY % p SYSTEM "{secret}"> %p;', "x"
    ),
    "XInclude": lambda xml, _, secret: xml.replace(
        "<note_excerpt>",
        '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" parse="text"'
        f' href="{secret}"/><note_excerpt>',
        1,
    ),
    "a stylesheet": lambda xml, m, _: xml.replace(
        "<annotations>", f'<?xml-stylesheet href="http://127.0.0.1:9/{m}"?><annotations>', 1
    ),
    "elements 10^5 deep": lambda xml, m, _: xml.replace(
        "</annotations>", "<a>" * DEEP + m + "</a>" * DEEP, 1
    ),
    "elements 200 deep": lambda xml, m, _: xml.replace(
        "<note_excerpt>", "<a>" * 200 + m + "</a>" * 200 + "<note_excerpt>", 1
    ),
    "10,000 attributes": lambda xml, m, _: xml.replace(
        "<case ", "<case " + " ".join(f'a{n}="{m}"' for n in range(10_000)) + " ", 1
    ),
    "an id twice": lambda xml, _, __: re.sub(r'sentence id="\d+"', 'sentence id="1"', xml),
    "another encoding": lambda xml, _, __: xml.replace("UTF-8", "UTF-7", 1),
    "an encoding that is none": lambda xml, m, _: xml.replace("UTF-8", m, 1),
    "an empty case": lambda xml, m, _: re.sub(
        r"<case .*?</case>", f'<case id="{m}"/>', xml, count=1, flags=re.S
    ),
    "no case": lambda xml, _, __: re.sub(r"<case .*</case>", "", xml, flags=re.S),
    "another root": lambda xml, m, _: xml.replace("annotations>", f"{m}>"),
    "a namespace": lambda xml, m, _: xml.replace("<annotations>", f'<annotations xmlns="{m}">', 1),
    "an element within a text": lambda xml, m, _: xml.replace(
        "<note_excerpt>", f"<note_excerpt><b>{m}</b>", 1
    ),
    "text between cases": lambda xml, m, _: xml.replace("</case>", f"</case>{m}<![CDATA[<{m}>]]>", 1),
    "a comment of 10 MB": lambda xml, m, _: xml.replace("</case>", f"</case><!--{m * 600_000}-->", 1),
}


def _with_entities(xml: str, declared: str, used: str) -> str:
    xml = xml.replace("<annotations>", f"<!DOCTYPE annotations [{declared}]><annotations>", 1)
    return re.sub(r"(<clinician_question>)[^<]*", rf"\g<1>{used}", xml, count=1)


def spoil_xml(sound: str, marker: str, draw: Draw, secret: str) -> Spoilt:
    """A file of ArchEHR-QA's cases; `secret` is the address of a file that is none of theirs."""
    how = draw.random()
    if how < 0.15:
        return spoil_bytes(sound.encode(), marker, draw)
    if how < 0.55:
        what = draw.choice([*XML_TRICKS])
        return what, XML_TRICKS[what](sound, marker, secret).encode()
    what = draw.choice([*TEXTS])
    text = TEXTS[what](marker)
    # Half of them as references, which the control characters among them must not be.
    written = (
        "".join(f"&#{ord(one)};" for one in text[:2000])
        if draw.random() < 0.5
        else escape(text, {'"': "&quot;"})
    )
    place = draw.choice((r'(<case id=")[^"]*', r'(<sentence id=")[^"]*', r"(<clinician_question>)[^<]*"))
    changed = re.sub(place, lambda match: match[1] + written, sound, count=1)
    if draw.random() < 0.3:
        changed = re.sub(r"(<sentence [^>]*>)[^<]*", lambda match: match[1] + written, sound, count=1)
    return f"{what} in a text", changed.encode("utf-8", "surrogatepass")
