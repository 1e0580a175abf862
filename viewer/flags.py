"""What a flag of a case means, in a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass

_MEANINGS = {
    "missing_votes": "some votes failed; they count as missing, not as votes against",
    "incomplete_replies": "labels still missing after the correction turn were filled in",
    "failed_reflections": "a vote could not be reflected on; its first labels stand",
    "no_essential_sentence": "no sentence had enough votes",
    "widened_evidence": "no sentence met the setting, so the next best were used",
    "answer_breaks_rules": "the answer broke its rules and was shortened",
    "intent_unclassified": "the model named no known intent; demonstrations go by similarity",
    "no_clinician_question": "the case has no clinician question; another one was asked instead",
    "no_narrative": "the case has no patient's message to interpret",
    "question_breaks_rules": "the interpreted question broke its rules and was cut",
    "no_clinician_answer": "the key gives no clinician's answer to align",
    "incomplete_alignment": "the alignment named unknown sentences, or left some out",
    "dropped_demonstrations": "demonstrations were left out, as the prompt was too long",
    "cut_sentences": "the ranker read only the beginning of some sentences",
    "cut_question": "the ranker read only the beginning of the question",
    "incomplete_query": "the case lacks a part of the query that the recipe asks for",
    "dropped_sentences": "retrieved sentences were left out, as the prompt was too long",
    "no_citations": "the answer cites no sentence that it was shown",
    "unknown_citations": "what was not shown was cited; those citations were taken out",
    "malformed_citations": "citations that name no sentence were taken out of the answer",
    "nothing_found": "no document of the corpus shares a word with the question",
    "no_document_left": "no document that was found passed the filters",
    "no_evidence": "there was nothing to read, so the answer says nothing about the question",
    "missing_readings": "some passages could not be read; they count as missing, not as neutral",
    "cut_passages": "the reader read only the beginning of some passages",
    "evidence_disagrees": "some passages speak for yes and some for no",
    "dropped_passages": "the explanation was written without some passages, as the prompt was too long",
    "uncited_explanation": "the explanation cites no passage",
    "few_shots": "there are fewer answered questions of this type to show than the recipe asks for",
    "left_out_snippets": "the last snippets are beyond the recipe's limit of characters and were left out",
    "dropped_snippets": "the last snippets were left out, as the prompt was too long",
    "cut_snippets": "only the beginning of the first snippet was shown, as it is beyond the recipe's limit",
    "defaulted_to_yes": "replies that said neither yes nor no count as yes, as the recipe wants it",
    "tied_votes": "as many votes say yes as no, and a tie is yes",
    "no_agreed_entry": "no entry was in enough votes, so the list of the first vote stands",
    "no_reformulation": "the model gave no further query; the question alone was searched for",
    "cut_documents": "the reranker read only the beginning of some documents",
    "failed_ranking": "the model gave no order for some documents; the order before stands",
    "mended_ranking": "the model's order named unknown documents, or some twice; those were dropped",
    "dropped_documents": "the model was not shown some documents, as the prompt was too long",
    "fewer_documents": "fewer documents were found than an answer takes",
    "no_snippets": "there was no snippet; answers are from what the models know",
    "labelled_by_people": "the case has labels of people and was left alone",
}


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag with its meaning; empty for one that is not known here."""

    name: str
    meaning: str


def explain(flags: list[str]) -> list[Flag]:
    """Flags with their meanings, in their order."""
    return [Flag(flag, _MEANINGS.get(flag, "")) for flag in flags]
