"""Wordings: the texts that they change and those that they never change, and the numbers of repeats."""

from pathlib import Path

import pytest

from registry.errors import ProtocolError, VariantError
from registry.prompting.prompts import Prompt, PromptKeys, QuestionText, build_prompt
from registry.prompting.protocols.presets import PRESETS
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.variants import QuestionShape, VariantSetDefinition, VariantShown, parse_variants

QUESTION = QuestionText("q1", "high_school_physics", None, "What usually falls?", ("a stone", "a cloud", "light"), 0)
EXAMPLE = QuestionText("e1", "high_school_physics", None, "What floats?", ("wood", "iron"), 0)
TEMPLATES = """
source = "our own exams"

[[template]]
name = "exam"
task = "Tick one of the {options}."
place = "after"
question = "Q: {question}"
"""


def variants(spec: str | VariantSetDefinition, question: QuestionText = QUESTION) -> list[VariantShown]:
    definition = parse_variants(spec) if isinstance(spec, str) else spec
    return definition.variants(QuestionShape(question.external_id, len(question.options), question.answer))


def prompts(spec: str | VariantSetDefinition, protocol: str = "symbols", shots: int = 0) -> list[Prompt]:
    definition = protocol_definition(protocol, shots)
    return [build_prompt(definition, QUESTION, variant, [EXAMPLE][:shots]) for variant in variants(spec)]


# Wordings


def test_a_wordings_place_is_the_same_in_examples() -> None:
    built = prompts("wording", shots=1)
    assert built[2].text == (
        "What floats?\nA. wood\nB. iron\nThis multiple choice question is about high school physics. Answer it with the "
        "right one of the options A to C.\nAnswer: A\n\nWhat usually falls?\nA. a stone\nB. a cloud\nC. light\nThis "
        "multiple choice question is about high school physics. Answer it with the right one of the options A to C.\n"
        "Answer:"
    )
    assert built[4].text == (
        "One of the options A to C answers the following question correctly. Choose it.\n\nQuestion: What floats?\n"
        "A. wood\nB. iron\nAnswer: A\n\nQuestion: What usually falls?\nA. a stone\nB. a cloud\nC. light\nAnswer:"
    )


@pytest.mark.parametrize("protocol", PRESETS.keys() - {"cloze"})
def test_every_protocol_instructs_and_reads_the_same_under_every_wording(protocol: str) -> None:
    built = prompts("wording", protocol)
    assert len({prompt.text for prompt in built}) == 11
    assert {(prompt.continuations, prompt.answers) for prompt in built} == {(built[0].continuations, built[0].answers)}
    how = str(protocol_definition(protocol).get("instruction", "")).format(label_word="letter").partition(". ")[2]
    assert all(how in prompt.text for prompt in built)


def test_a_model_that_is_scored_is_not_told_to_reason() -> None:
    instruction = "Work it out one step at a time."
    assert instruction not in prompts("wording")[7].text
    assert instruction not in prompts("wording", "first-letter")[7].text
    assert instruction in prompts("wording", "match-dash")[7].text


def test_variant_0_is_in_the_protocol_s_own_words_and_alone_unchanged() -> None:
    built = variants("wording")
    assert [variant.ordinal for variant in built if variant.unchanged(3)] == [0]
    assert prompts("wording")[0] == prompts("original")[0]


def test_selected_templates_keep_ordinals_and_a_seed_chooses_the_format() -> None:
    assert [variant.ordinal for variant in variants("wording:templates=0+3+9-10")] == [0, 3, 9, 10]
    lines = [prompts(f"wording:templates=3,seed={seed}")[0].text.splitlines()[3] for seed in range(5)]
    assert lines == ["A. a stone", "A: a stone", "A) a stone", "(A) a stone", "[A] a stone"]


def test_a_protocol_that_lists_no_options_refuses_wordings() -> None:
    with pytest.raises(ProtocolError, match="wording 'question first': cloze does not list the options"):
        prompts("wording", "cloze")


def test_templates_of_a_file_are_named_by_their_content(tmp_path: Path) -> None:
    path = tmp_path / "exam.toml"
    path.write_text(TEMPLATES)
    definition = parse_variants(f"wording:file={path}", read_files=True)
    assert prompts(definition)[1].text == (
        "Q: What usually falls?\nA. a stone\nB. a cloud\nC. light\nTick one of the options A to C.\nAnswer:"
    )
    assert definition.name.startswith("wording:file=exam@")
    # The name identifies the evaluated wordings, but has no texts of its own.
    named = parse_variants(definition.name)
    assert named.name == definition.name
    with pytest.raises(VariantError, match="its file was not read"):
        variants(named)
    path.write_text(TEMPLATES.replace("Tick", "Mark"))
    assert parse_variants(f"wording:file={path}", read_files=True).specification() != definition.specification()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("place = ", "where = ", "template 1: where = 'after'; give texts for name, place"),
        ('"after"', '"beside"', "template 1: place 'beside': use before or after"),
        ("{options}", "{choices}", "task = 'Tick one of the {choices}.'; it may have these placeholders: {options}, "),
        ("{options}", "{options:>999999999}", "it may have these placeholders"),
        ("{options}", "{options.real}", "it may have these placeholders"),
        ("{options}", "{options}}", "it may have these placeholders"),
        ("{options}", "{subject}", "its task names the {subject}; give task_without_subject as well"),
        ('"Q: {question}"', '"Q"', "question 'Q' lacks {question}"),
        ('name = "exam"', "", "template 1 has no name; give one"),
        ('"exam"', '"own"', "template name 'own' is taken"),
        ("[[template]]", "[template]", "give 1 to 200 tables"),
    ],
)
def test_a_file_of_templates_is_refused_with_a_remedy(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "exam.toml"
    path.write_text(TEMPLATES.replace(old, new))
    with pytest.raises(VariantError) as refused:
        parse_variants(f"wording:file={path}", read_files=True)
    assert message in str(refused.value)


def test_a_file_is_read_only_if_the_program_is_the_users() -> None:
    with pytest.raises(VariantError, match="files are read by 'shuffleboard' alone"):
        parse_variants("wording:file=/etc/passwd")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wording:set=scores", "no templates 'scores' ship; use score, or file=FILE"),
        ("wording:templates=9-11", "templates '9-11'; use all, or ordinals from 0"),
        ("wording:seed=5", "seed 5: use 0"),
    ],
)
def test_what_cannot_be_asked_is_refused(text: str, message: str) -> None:
    with pytest.raises(VariantError) as refused:
        variants(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("spec", "listed", "unlisted"),
    [
        ("cyclic", "012", "000"),
        ("cyclic:repeats=2", "001122", "000000"),
        ("choice-only", "01", "01"),
        ("relabel:labels=digits+roman", "012", "012"),
        ("wording:templates=0-2", "012", "012"),
        ("wording:repeats=2,templates=0-1", "0011", "0011"),
        # Other examples make no other prompt.
        ("answer-moving", "0012", "0000"),
    ],
)
def test_repeats_of_a_prompt_share_its_number(spec: str, listed: str, unlisted: str) -> None:
    shape = QuestionShape("q1", 3, 0)
    for lists_options, numbers in ((True, listed), (False, unlisted)):
        keys = PromptKeys(parse_variants(spec), shape, lists_options=lists_options)
        assert "".join(str(keys.of(variant)) for variant in keys.variants) == numbers
