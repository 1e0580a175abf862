from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts import PromptError, replace_prompts
from prompts.versions import copy_prompts
from tests.prompts.versions import CONTRACTS, ONE_MESSAGE, changed, load_all, replaced

VERSIONS = ["default", ONE_MESSAGE]
CLASSIFY = "closing:\n  - role: user\n    text: ${narrative} ${question}"
ASKED_BY_CASE = "closing:\n  - role: user\n    text: ${narrative} ${question} ${sentences}"


def refused(version: str) -> str:
    with pytest.raises(PromptError) as caught:
        load_all(version)
    return str(caught.value)


def folder_with(folder: Path, **files: str) -> str:
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, "utf-8")
    return str(folder)


def test_an_unknown_version_names_the_known_ones() -> None:
    assert refused("papre") == "no prompts 'papre': there are default, ask, claims, laptop, or give a folder"


def test_a_version_holds_only_what_it_changes() -> None:
    default, laptop, claims = load_all("default"), load_all("laptop"), load_all("claims")
    changed_by_laptop = [name for name in CONTRACTS if laptop[name] != default[name]]
    assert sorted(changed_by_laptop) == [
        "answer_from_evidence",
        "answer_stated",
        "label_sentence",
        "verify_statement",
    ]
    assert [name for name in CONTRACTS if claims[name] != laptop[name]] == ["label_sentence"]
    assert claims["label_sentence"].version == "claims"
    assert claims["answer_from_evidence"].version == "laptop"


def test_a_folder_of_one_file_takes_the_others_from_the_default(tmp_path: Path) -> None:
    mine, default = load_all(folder_with(tmp_path / "mine", classify_intent=CLASSIFY)), load_all("default")
    assert [name for name in CONTRACTS if mine[name] != default[name]] == ["classify_intent"]
    assert mine["classify_intent"].version == str(tmp_path / "mine")
    assert mine["label_evidence"].version == "default"


def test_a_folder_names_its_base_by_name_or_by_a_path_from_itself(tmp_path: Path) -> None:
    one = folder_with(tmp_path / "one", base="base: laptop", classify_intent=CLASSIFY)
    two = load_all(folder_with(tmp_path / "two", base="base: ../one"))
    assert two["classify_intent"].version == one
    assert two["label_sentence"].version == "laptop"


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"base": "base: two", "classify_intent": CLASSIFY}, "no prompts '"),
        ({"base": "default"}, "base.yaml: must be one line, such as 'base: default'"),
        ({"base": "base: laptop\nother: x"}, "base.yaml: must be one line"),
        ({"base": "base: ."}, "the bases run in a circle"),
        ({}, "the folder has no prompt and no base.yaml"),
        ({"classify_intents": CLASSIFY}, "classify_intents.yaml is not the file of a prompt; did you mean"),
    ],
)
def test_a_folder_that_is_no_version_is_refused(tmp_path: Path, files: dict[str, str], fault: str) -> None:
    assert fault in refused(folder_with(tmp_path / "mine", **files))


def test_a_file_with_another_ending_is_refused(tmp_path: Path) -> None:
    version = folder_with(tmp_path / "mine", classify_intent=CLASSIFY)
    (tmp_path / "mine" / "label_evidence.yml").write_text("closing: []")
    assert "label_evidence.yml is not the file of a prompt; did you mean label_evidence.yaml?" in refused(
        version
    )


def test_copies_keep_their_bytes_and_name_their_base(tmp_path: Path) -> None:
    copy_prompts("claims", ["label_sentence", "label_evidence"], tmp_path / "mine")
    mine, claims = load_all(str(tmp_path / "mine")), load_all("claims")
    assert mine.hashes == claims.hashes
    own = [name for name in CONTRACTS if mine[name].version == str(tmp_path / "mine")]
    assert sorted(own) == ["label_evidence", "label_sentence"]
    with pytest.raises(PromptError, match="exists; give another folder"):
        copy_prompts("default", ["label_evidence"], tmp_path / "mine")


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_prompt_of_a_folder_is_used_and_checked(tmp_path: Path, name: str) -> None:
    required = min(CONTRACTS[name].required, default=None)
    if required is not None:
        version = replaced(tmp_path, name, f"${{{required}}}", "nothing")
        assert f"must use ${{{required}}}" in refused(version)


def test_the_prompt_that_interprets_cannot_be_shown_the_cases_question(tmp_path: Path) -> None:
    text = "closing:\n  - role: user\n    text: ${narrative} ${question}\ncorrection: ${faults}\n"
    message = refused(changed(tmp_path, "interpret_question", text))
    assert "its turns use unknown ${question}" in message


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("${sentences}", "${sentence}", "its turns must use ${sentences}"),
        ("${narrative}", "nothing", "its turns must use ${narrative}"),
        ("${question}", "${question} ${labels}", "its turns use unknown ${labels}; known: "),
        ("${question}", "${question} $5", "a '$' that starts no ${variable}"),
        ("${question}", "${question} ${", "a '$' that starts no ${variable}"),
        ("${labels}", "fixed", "its demonstration must use ${labels}"),
        ("role: user", "role: human", "role"),
        ("opening:", "openings:", "openings"),
        ("closing:", "closing: [", "label_evidence.yaml: "),
    ],
)
def test_a_fault_of_a_prompt_is_named(tmp_path: Path, old: str, new: str, fault: str) -> None:
    message = refused(replaced(tmp_path, "label_evidence", old, new))
    assert fault in message
    assert "label_evidence.yaml" in message
    assert "\n" not in message


@pytest.mark.parametrize("text", ["", "[]", "a prompt", "closing: 3", "\x00"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    assert "classify_intent.yaml" in refused(changed(tmp_path, "classify_intent", text))


def test_a_correction_must_quote_the_faults(tmp_path: Path) -> None:
    version = replaced(tmp_path, "generate_answer", "${faults}", "something")
    assert "its correction must use ${faults}" in refused(version)
    version = replaced(tmp_path / "without", "generate_answer", "correction: |\n ", "#")
    assert refused(version).endswith("needs a 'correction' that quotes the ${faults}")


def test_demonstration_text_needs_its_place(tmp_path: Path) -> None:
    text = f"demonstration_text: ${{narrative}} ${{question}} ${{sentences}} ${{labels}}\n{ASKED_BY_CASE}"
    message = refused(changed(tmp_path, "label_evidence", text))
    assert "its turns must use ${demonstrations}" in message


def test_a_prompt_can_only_continue_one_that_exists(tmp_path: Path) -> None:
    version = replaced(tmp_path, "reflect_on_labels", "label_evidence", "labels_evidence")
    assert "labels_evidence" in refused(version)


def test_the_hash_changes_with_the_file(tmp_path: Path) -> None:
    original = load_all("default").hashes
    edited = load_all(replaced(tmp_path, "label_evidence", "You select", "You  select")).hashes
    differing = [name for name in CONTRACTS if original[name] != edited[name]]
    assert differing == ["label_evidence"]


def test_two_dollars_are_one(tmp_path: Path) -> None:
    prompts = load_all(
        changed(tmp_path, "classify_intent", "closing:\n- {role: user, text: '$$5 ${narrative} ${question}'}")
    )
    assert prompts["classify_intent"].render({"narrative": "n", "question": "q"}) == [("user", "$5 n q")]


def test_a_prompt_without_correction_turn_cannot_correct() -> None:
    with pytest.raises(PromptError, match="has no correction turn"):
        load_all("default")["label_evidence"].render_correction("it is empty")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CONTRACTS)
def test_a_packaged_prompt_renders_with_exactly_its_nodes_variables(version: str, name: str) -> None:
    contract = CONTRACTS[name]
    given_ = {variable: f"<{variable}>" for variable in contract.required | contract.optional}
    shown = {variable: f"<shown {variable}>" for variable in contract.demonstration}
    text = str(load_all(version)[name].render(given_, [shown]))
    assert all(value in text for value in shown.values())
    assert all(f"<{variable}>" in text for variable in contract.required)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CONTRACTS)
def test_a_variable_that_is_not_given_is_named(version: str, name: str) -> None:
    contract = CONTRACTS[name]
    for missing in contract.required:
        variables = dict.fromkeys((contract.required | contract.optional) - {missing}, "x")
        with pytest.raises(PromptError, match=rf"got no \$\{{{missing}\}}"):
            load_all(version)[name].render(variables)


@pytest.mark.parametrize("version", VERSIONS)
@given(
    text=st.text().map(str.strip)
    | st.sampled_from(["${question}", "$narrative", "$", "$$", "{question}", "%s"])
)
def test_a_value_is_never_read_as_a_template(version: str, text: str) -> None:
    rendered = load_all(version)["classify_intent"].render(
        {"narrative": text, "question": "Q", "intents": "I"}
    )
    plain = load_all(version)["classify_intent"].render(
        {"narrative": "\x00", "question": "Q", "intents": "I"}
    )
    assert rendered[-1][1] == plain[-1][1].replace("\x00", text)


def test_demonstrations_are_turns_before_the_case() -> None:
    shown = {"narrative": "n", "question": "q", "sentences": "s", "labels": "l"}
    case = {"narrative": "N", "question": "Q", "sentences": "S", "reply_form": "F"}
    turns = load_all("default")["label_evidence"].render(case, [shown, shown])
    assert [role for role, _ in turns] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert turns[2] == ("assistant", "l")


@pytest.mark.parametrize(("version", "uses"), [("default", True), (ONE_MESSAGE, False)])
@pytest.mark.parametrize("name", ["label_evidence", "reflect_on_labels"])
def test_a_prompt_knows_which_variables_it_uses(version: str, name: str, uses: bool) -> None:
    assert load_all(version)[name].uses("reply_form") is uses


def test_demonstrations_can_be_text_of_one_message() -> None:
    shown = {"narrative": "n", "question": "q", "sentences": "s", "labels": "${narrative}"}
    case = {"narrative": "N", "question": "Q", "sentences": "S"}
    ((role, text),) = load_all(ONE_MESSAGE)["label_evidence"].render(case, [shown, shown])
    assert role == "user"
    assert text.count("Labels:\n${narrative}") == 2


def test_one_prompt_can_come_from_another_file(tmp_path: Path) -> None:
    version = Path(replaced(tmp_path, "label_evidence", "You select", "You  select"))
    default = load_all("default")
    prompts = replace_prompts(
        default, {"label_evidence": version / "label_evidence.yaml"}, CONTRACTS.values()
    )
    assert [name for name in CONTRACTS if prompts[name] != default[name]] == ["label_evidence"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("label_evidense", "did you mean 'label_evidence'?"), ("label_evidence", "no such file 'gone.yaml'")],
)
def test_a_replacement_that_is_none_is_named(name: str, words: str) -> None:
    with pytest.raises(PromptError, match=words.replace("?", r"\?")):
        replace_prompts(load_all("default"), {name: Path("gone.yaml")}, CONTRACTS.values())


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("  yesno_2:", "  yesno_3:", "its texts lack 'yesno_2'"),
        ("texts:\n", "texts:\n  other: x\n", "unknown text 'other'; known: yesno_1"),
        ("Answer with yes or no.", "Answer ${question}.", "its text 'yesno_1' use unknown ${question}"),
    ],
)
def test_texts_of_a_prompt_are_held_to_its_contract(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert fault in refused(replaced(tmp_path, "answer_exactly", old, new))
