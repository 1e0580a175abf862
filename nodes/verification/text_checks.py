"""Details of a statement that its record does not have so, found without a model.

Numbers with their units, dates, sides, drugs, doses and routes are compared after normalisation, so that "two
weeks" is "14 days" and "by mouth" is "oral", and negated clauses are compared with affirmative ones.

Patterns of ours, because the libraries do not fit: quantulum3 reads "8.5 Fr" as statcoulombs and "K/uL" as
kelvin, and needs four seconds for its first sentence; negspacy and medspaCy need a spaCy model that finds
entities first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from cases.records import Sentence
from nodes.verification.negations import clauses, denials
from nodes.verification.undone import undone_places, undone_thing
from nodes.verification.words import Quantity, plain, quantities, stems, telling, word_set

FaultKind = Literal[
    "number", "unit", "date", "side", "drug", "dose", "route", "direction", "negation", "undone", "unrelated"
]


class Fault(TypedDict):
    """Details in which a statement differs from its record, or that its record lacks.

    Attributes:
        kind: Of the words that are wrong.
        text: In words that can be quoted to the model that wrote the statement.
        contradicts: Whether the record says otherwise; if false, it merely does not say so.
        sentence_ids: Of the record, that decide; empty if nothing is like it.
    """

    kind: FaultKind
    text: str
    contradicts: bool
    sentence_ids: list[str]


@dataclass(frozen=True, slots=True)
class _Line:
    """A sentence of the record; `words` are the stems that can tie a detail of it to a statement."""

    id: str
    text: str
    plain: str
    words: frozenset[str]
    cited: bool


def check_text(statement: str, cited: Sequence[Sentence], note: Sequence[Sentence]) -> list[Fault]:
    """Everything in a statement that its record does not have so.

    Args:
        statement: A sentence of an answer.
        cited: The sentences that it rests on; empty if they are not known.
        note: The whole record. A detail outside the cited sentences counts if its sentence shares several
            telling words with the statement.
    """
    ids = {one.id for one in cited}
    record = [
        _Line(one.id, one.text, plain(one.text), telling(one.text), one.id in ids or not ids)
        for one in [*cited, *(one for one in note if one.id not in ids)]
    ]
    return [fault for check in _CHECKS for fault in check(plain(statement), record)]


def nearest(text: str, sentences: Sequence[Sentence], most: int) -> list[str]:
    """Ids of the sentences that share most words with a text, in the order of the record."""
    words = set(stems(text))
    shares = {one.id: len(words.intersection(stems(one.text))) for one in sentences}
    best = sorted((id_ for id_ in shares if shares[id_]), key=lambda id_: -shares[id_])[:most]
    return [id_ for id_ in shares if id_ in best]


def _fault(kind: FaultKind, text: str, lines: Sequence[_Line] = (), contradicts: bool = False) -> Fault:
    return Fault(kind=kind, text=text, contradicts=contradicts, sentence_ids=[line.id for line in lines])


_TIES = 3
"""Telling words that a sentence outside the cited ones has to share with a statement."""


def _lends(line: _Line, words: frozenset[str]) -> bool:
    """Whether a detail of a sentence can belong to a statement with these telling words."""
    return not words or len(words & line.words) >= (1 if line.cited else _TIES)


def _numbers(statement: str, record: Sequence[_Line]) -> Iterable[Fault]:
    """Numbers that stand nowhere, or only in sentences on something else."""
    words, text = telling(statement), _DATE.sub(" ", statement)
    for wanted in dict.fromkeys(one for one in quantities(text) if not one.made):
        having = [(line, one) for line in record for one in quantities(line.plain) if wanted.agrees(one)]
        fitting = [(line, one) for line, one in having if _lends(line, words)]
        if not fitting:
            where = f'only of something else: "{having[0][0].text}"' if having else "nowhere"
            yield _fault("number", f"{wanted.text} is stated {where}", [line for line, _ in having[:1]])
        elif not any(wanted.same_unit(one) for _, one in fitting):
            line, one = fitting[0]
            yield _fault("unit", f"the record has {one.text}, not {wanted.text}", [line], contradicts=True)


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DATE = re.compile(
    rf"\b(?P<iso>\d{{4}}-\d\d-\d\d)\b|\b(?P<slashed>\d{{1,2}}/\d{{1,2}}/(?:\d{{4}}|\d\d))\b"
    rf"|\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<month>{_MONTH})(?:,? (?P<year>\d{{4}}))?"
    rf"|\b(?P<month2>{_MONTH}) (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<year2>\d{{4}}))?",
    re.IGNORECASE,
)


def _date_parts(match: re.Match[str]) -> frozenset[str]:
    """Day with month, and year if given; the two orders of 3/4/2021 are not told apart."""
    if (numbers := match["iso"] or match["slashed"]) is not None:
        parts = [part.lstrip("0") for part in re.split("[-/]", numbers)]
        year = next((part for part in parts if len(part) == 4), f"20{parts[-1]}")
        day = parts[1:] if match["iso"] else parts[:2]
        return frozenset({"/".join(sorted(day)), year})
    month = _MONTHS.index((match["month"] or match["month2"])[:3].lower()) + 1
    day = sorted(((match["day"] or match["day2"]).lstrip("0"), str(month)))
    written = match["year"] or match["year2"]
    return frozenset({"/".join(day), *([written] if written else [])})


def _dates(statement: str, record: Sequence[_Line]) -> Iterable[Fault]:
    known = [_date_parts(match) for line in record for match in _DATE.finditer(line.plain)]
    for match in _DATE.finditer(statement):
        parts = _date_parts(match)
        if not any(parts <= other or other <= parts for other in known):
            yield _fault("date", f"the date {match[0]} is stated nowhere")


# "Left" is also what patients do to wards, and "right" what is correct or at once.
_SIDE = re.compile(
    r"\b(?P<side>left|right|bilateral(?:ly)?|both)\b(?:-sided)?(?! (?:the|a|on|in|at|with|without|for|to|her"
    r"|his|against|once|after|before|away|now|hospital|untreated)\b)(?P<rest>(?: [\w-]+){0,3})",
    re.IGNORECASE,
)
_OPPOSITE = {"left": "right", "right": "left"}


def _sides(statement: str, record: Sequence[_Line]) -> Iterable[Fault]:
    """Left of right and right of left, of the same noun or if the record has only the other side."""
    found = [
        (line, match["side"].lower(), set(stems(match["rest"])))
        for line in record
        for match in _SIDE.finditer(line.plain)
    ]
    for match in _SIDE.finditer(statement):
        side, nouns = match["side"].lower(), set(stems(match["rest"]))
        if side not in _OPPOSITE:
            continue
        same = [(line, rest) for line, its, rest in found if its != _OPPOSITE[side]]
        other = [(line, rest) for line, its, rest in found if its == _OPPOSITE[side]]
        against = [line for line, rest in other if rest & nouns]
        fits = any(rest & nouns for _, rest in same)
        if not fits and (against or not any(line.cited for line, _ in same)):
            lines = (against or [line for line, _ in other])[:1]
            yield _fault(
                "side", f"the record does not say {match[0].strip()}", lines, contradicts=bool(lines)
            )


# Stems of international nonproprietary names (WHO 2018), and common names without one.
_DRUG_STEMS = (
    "olol|alol|dipine|pril|sartan|statin|fibrate|semide|thiazide|gliflozin|gliptin|glutide|glitazone|formin|xaban"
    "|gatran|parin|grel|grelor|teplase|cillin|cycline|floxacin|mycin|micin|penem|conazole|fungin|vir|prazole"
    "|tidine|setron|triptan|oxetine|azepam|azolam|azepine|barbital|racetam|caine|profen|coxib|asone|solone"
    "|sonide|terol|phylline|mab|tinib|ciclib|platin|taxel|rubicin|trexate|thioprine|limus|triptyline|zosin"
    "|peridol|apine|iprazole|dronate|codone|morphone|curium|lukast"
)
_DRUG_NAMES = word_set(
    "aspirin warfarin heparin insulin digoxin amiodarone nitroglycerin hydralazine clonidine norepinephrine"
    " epinephrine vasopressin dobutamine dopamine milrinone prednisone cortisone hydrocortisone colchicine"
    " allopurinol febuxostat acetaminophen paracetamol naproxen ketorolac diclofenac indomethacin morphine"
    " fentanyl tramadol methadone codeine naloxone gabapentin pregabalin phenytoin valproate divalproex"
    " lamotrigine topiramate lithium sertraline citalopram escitalopram bupropion venlafaxine trazodone"
    " mirtazapine donepezil memantine levodopa carbidopa baclofen metronidazole nitrofurantoin trimethoprim"
    " sulfamethoxazole rifampin isoniazid ethambutol pyrazinamide cefazolin cephalexin ceftriaxone cefepime"
    " cefuroxime cefdinir piperacillin amoxicillin linezolid levothyroxine methimazole propylthiouracil"
    " octreotide desmopressin glucagon glipizide glyburide glimepiride metoclopramide loperamide lactulose"
    " ursodiol mesalamine cyclosporine cyclophosphamide hydroxychloroquine sulfasalazine leflunomide"
    " tamoxifen letrozole anastrozole leucovorin thiamine diphenhydramine hydroxyzine meclizine cetirizine"
    " loratadine promethazine oxybutynin finasteride sildenafil albuterol salbutamol ipratropium mannitol"
    " spironolactone ketamine propofol isotretinoin mycophenolate atropine adenosine icosapent leuprolide"
    " methylphenidate naltrexone buprenorphine disulfiram acyclovir risperidone"
)
_DRUG = re.compile(
    rf"\b(?:{'|'.join(sorted(_DRUG_NAMES, key=len, reverse=True))}|[a-z]{{3,}}(?:{_DRUG_STEMS}))\b"
    r"(?:-(?!induced|based|related|associated)[a-z]{6,})?",
    re.IGNORECASE,
)
_SAME_DRUG: Mapping[str, str] = {
    "paracetamol": "acetaminophen",
    "salbutamol": "albuterol",
    "adrenaline": "epinephrine",
    "noradrenaline": "norepinephrine",
    "divalproex": "valproate",
}
_NO_DRUGS = word_set("april alpine reservoir elixir season")
"""Words that end as drugs do."""


def _drug_names(text: str) -> dict[str, str]:
    """Drugs of a text as it names them, by one name for each."""
    words = {match[0].lower(): match[0] for match in _DRUG.finditer(text)}
    return {_SAME_DRUG.get(word, word): name for word, name in words.items() if word not in _NO_DRUGS}


_IT = re.compile(r"^\s*(?:it|(?:this|the) (?:drug|medication|medicine))\b", re.IGNORECASE)


def named_drugs(sentences: Sequence[str]) -> list[str]:
    """The sentences of a text, each "it" at the beginning replaced by the drug of the sentence before.

    A sentence is checked by itself, where "it can be restarted" says nothing of a drug that must not be.
    """
    found = list(sentences)
    for place, before in enumerate(found[:-1], start=1):
        drugs = list(_drug_names(plain(before)).values())
        if len(drugs) == 1:
            found[place] = _IT.sub(drugs[0], found[place])
    return found


def _drugs(statement: str, record: Sequence[_Line]) -> Iterable[Fault]:
    words = telling(statement)
    for drug, name in _drug_names(statement).items():
        ties = words - telling(name)
        if not any(
            (drug in _drug_names(line.plain) or name.lower() in line.plain.lower())
            and (line.cited or _lends(line, ties))
            for line in record
        ):
            yield _fault("drug", f"the record does not name {name} here")


_DOSE_REACH = 40
"""Characters after a drug's name in which its dose can stand."""


def _doses(text: str) -> Iterable[tuple[str, Quantity]]:
    """Drugs with the first mass after each, before the next drug."""
    matches = list(_DRUG.finditer(text))
    ends = [*(match.start() for match in matches[1:]), len(text)]
    for match, until in zip(matches, ends, strict=False):
        for one in quantities(text[match.end() : min(until, match.end() + _DOSE_REACH)]):
            if one.unit in ("g", "unit"):
                yield _SAME_DRUG.get(match[0].lower(), match[0].lower()), one
                break


def _dosages(statement: str, record: Sequence[_Line]) -> Iterable[Fault]:
    """Doses other than those that the record has for the drug."""
    known = [(line, drug, one) for line in record for drug, one in _doses(line.plain)]
    for drug, wanted in _doses(statement):
        own = [(line, one) for line, name, one in known if name == drug]
        if own and not any(wanted.same_unit(one) and wanted.agrees(one) for _, one in own):
            line, one = own[0]
            text = f"the dose of {drug} is {one.text}, not {wanted.text}"
            yield _fault("dose", text, [line], contradicts=True)


_ROUTES = tuple(
    re.compile(rf"\b(?:{words})\b", flags)
    for words, flags in (
        (r"oral(?:ly)?|by mouth|PO|per os|tablets?|capsules?|pills?", re.IGNORECASE),
        (r"intravenous(?:ly)?|IV|i\.v\.|infusion|infused|drip|by vein", re.IGNORECASE),
        (r"[Ii]ntramuscular(?:ly)?|IM", 0),
        (r"[Ss]ubcutaneous(?:ly)?|SC|SQ|[Uu]nder the skin", 0),
        (r"inhal\w+|nebuli[sz]\w+|puffs?", re.IGNORECASE),
        (r"topical(?:ly)?|cream|ointment|patch(?:es)?", re.IGNORECASE),
        (r"rectal(?:ly)?|suppositor\w+|enemas?", re.IGNORECASE),
        (r"sublingual(?:ly)?|under the tongue", re.IGNORECASE),
    )
)


def _routes(statement: str, record: Sequence[_Line]) -> Iterable[Fault]:
    """A route that the record lacks, of a drug for which it has another one."""
    named = set(_drug_names(statement))
    lines = [line for line in record if named & set(_drug_names(line.plain))]
    for route in _ROUTES:
        match = route.search(statement)
        if match is None or any(route.search(line.plain) for line in record):
            continue
        against = [line for line in lines if any(one.search(line.plain) for one in _ROUTES)]
        if against:
            yield _fault("route", f"the record does not say {match[0]}", against[:1], contradicts=True)


_UP = word_set(
    "increase increases increased increasing higher greater more rise rises rose rising raise raises raised"
    " elevate elevates elevated upregulates upregulated gain gained enhance enhances enhanced accelerate"
    " accelerates accelerated promote promotes promoted"
)
_DOWN = word_set(
    "decrease decreases decreased decreasing lower lowers lowered less fewer fall falls fell falling fallen"
    " reduce reduces reduced reducing reduction decline declines declined declining downregulates"
    " downregulated lose loses lost loss diminish diminishes diminished impair impairs impaired suppress"
    " suppresses suppressed slow slows slowed inhibit inhibits inhibited attenuate attenuates attenuated drop"
    " drops dropped"
)
_DENYING = word_set("no not never without nor")
_NEAR, _JUST_BEFORE = 6, 3
"""Words around a direction that can be what moves, and before it that can deny it."""


def _directions(text: str) -> Iterable[tuple[str, bool, frozenset[str]]]:
    """Words of direction with whether they point up, and stems near them; denied ones are left out."""
    words = [word.lower() for word in re.findall(r"[a-z][\w-]*|[.;,:()]", text, re.IGNORECASE)]
    for place, word in enumerate(words):
        if (word in _UP or word in _DOWN) and not _DENYING.intersection(
            words[max(0, place - _JUST_BEFORE) : place]
        ):
            near = [*words[max(0, place - _NEAR) : place], *words[place + 1 : place + 1 + _NEAR]]
            about = [other for other in near if other not in _UP | _DOWN]
            yield word, word in _UP, frozenset(stems(" ".join(about)))


def _moves(statement: str, record: Sequence[_Line]) -> Iterable[Fault]:
    """What rises in the statement and only falls in the record, or the other way round."""
    known = [(line, *one) for line in record if line.cited for one in _directions(line.plain)]
    for word, up, about in _directions(statement):
        most = max((len(about & its) for *_, its in known), default=0)
        best = [(line, its_up) for line, _, its_up, its in known if len(about & its) == most]
        if most and all(its_up != up for _, its_up in best):
            line = best[0][0]
            yield _fault(
                "direction", f'"{word}", but the record says: "{line.text}"', [line], contradicts=True
            )


_LEAST_ALIKE = 2
"""Words that a clause has to share with a sentence for the two to be compared."""


def _negations(statement: str, record: Sequence[_Line]) -> Iterable[Fault]:
    """Clauses that are denied where the most similar sentence is not, or the other way round.

    At least half of the shared words have to differ, since cues seldom govern exactly what they deny.
    """
    lines = [(line, _denials_with_undone(line)) for line in record if line.cited]
    for clause in clauses(statement):
        alike = [len(clause.keys() & there.keys()) for _, there in lines]
        most = max(alike, default=0)
        if most < _LEAST_ALIKE:
            continue
        best = [pair for pair, number in zip(lines, alike, strict=True) if number == most]
        if all(_opposed(clause, there) * 2 >= most for _, there in best):
            line = best[0][0]
            yield _fault("negation", f'the record says otherwise: "{line.text}"', [line], contradicts=True)


def _denials_with_undone(line: _Line) -> Mapping[str, frozenset[bool]]:
    """A thing that "was considered but not done" is affirmed by one clause and denied by the next."""
    thing = dict.fromkeys(stems(" ".join(undone_thing(line.text))), frozenset({True, False}))
    return {**denials(line.plain), **thing}


def _opposed(clause: Mapping[str, frozenset[bool]], there: Mapping[str, frozenset[bool]]) -> int:
    return sum(stem in there and ways.isdisjoint(there[stem]) for stem, ways in clause.items())


def _undone(statement: str, record: Sequence[_Line]) -> Iterable[Fault]:
    """Results of things that the record has only as not done."""
    for place in undone_places(statement, [line.text for line in record]):
        line = record[place]
        text = f'the record says that it was not done: "{line.text}"'
        yield _fault("undone", text, [line], contradicts=True)


def _unrelated(statement: str, record: Sequence[_Line]) -> Iterable[Fault]:
    """A statement that shares no telling word and no drug with its record."""
    words, drugs = telling(statement), _drug_names(statement).keys()
    if words and not any(words & line.words or drugs & _drug_names(line.plain).keys() for line in record):
        yield _fault("unrelated", "no word of it is in the record")


_CHECKS: Sequence[Callable[[str, Sequence[_Line]], Iterable[Fault]]] = (
    _numbers,
    _dates,
    _sides,
    _drugs,
    _dosages,
    _routes,
    _moves,
    _negations,
    _undone,
    _unrelated,
)
