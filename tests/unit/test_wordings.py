"""Wordings, noise, paraphrases, and products of kinds: what they change, and what they never do."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.errors import ProtocolError, VariantError
from registry.prompting.noise import TARGETS, TYPES, Noise, synonyms
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


def test_a_wording_comes_before_the_question_or_after_its_options_in_examples_too() -> None:
    found = prompts("wording", shots=1)
    assert found[2].text == (
        "What floats?\nA. wood\nB. iron\nThis multiple choice question is about high school physics. Answer it with the "
        "right one of the options A to C.\nAnswer: A\n\nWhat usually falls?\nA. a stone\nB. a cloud\nC. light\nThis "
        "multiple choice question is about high school physics. Answer it with the right one of the options A to C.\n"
        "Answer:"
    )
    assert found[4].text == (
        "One of the options A to C answers the following question correctly. Choose it.\n\nQuestion: What floats?\n"
        "A. wood\nB. iron\nAnswer: A\n\nQuestion: What usually falls?\nA. a stone\nB. a cloud\nC. light\nAnswer:"
    )


@pytest.mark.parametrize("protocol", PRESETS.keys() - {"cloze"})
def test_every_protocol_says_how_to_answer_under_every_wording_and_reads_the_same_answers(protocol: str) -> None:
    found = prompts("wording", protocol)
    assert len({prompt.text for prompt in found}) == 11
    assert {(prompt.continuations, prompt.answers) for prompt in found} == {(found[0].continuations, found[0].answers)}
    how = str(protocol_definition(protocol).get("instruction", "")).format(label_word="letter").partition(". ")[2]
    assert all(how in prompt.text for prompt in found)


def test_a_model_that_is_scored_is_not_told_to_reason() -> None:
    told = "Work it out one step at a time."
    assert told not in prompts("wording")[7].text
    assert told not in prompts("wording", "first-letter")[7].text
    assert told in prompts("wording", "match-dash")[7].text


def test_variant_0_is_in_the_protocol_s_own_words_and_alone_unchanged() -> None:
    found = variants("wording")
    assert [variant.ordinal for variant in found if variant.unchanged(3)] == [0]
    assert prompts("wording")[0] == prompts("original")[0]


def test_some_templates_keep_their_ordinals_and_a_seed_sets_how_options_are_written() -> None:
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
    # The name finds what was asked, but has no texts of its own.
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


def test_a_file_is_read_only_where_the_program_is_the_user_s_own() -> None:
    with pytest.raises(VariantError, match="files are read by 'shuffleboard' alone"):
        parse_variants("wording:file=/etc/passwd")


# Paraphrases


def test_paraphrases_replace_the_question_s_text_alone(tmp_path: Path) -> None:
    path = tmp_path / "other words.jsonl"
    path.write_text(json.dumps({"id": "q1", "texts": ["What drops?", "Which one falls?"]}))
    definition = parse_variants(f"paraphrase:file={path}", read_files=True)
    assert definition.name.startswith("paraphrase:file=other-words@")
    assert [prompt.text.splitlines()[2] for prompt in prompts(definition)] == [
        "What usually falls?",
        "What drops?",
        "Which one falls?",
    ]
    with pytest.raises(VariantError, match="the file has no line for question q2"):
        definition.variants(QuestionShape("q2", 3, 0))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"id": "q1", "texts": []}'], "line 1: texts is .*give a list of 1 to 100 texts"),
        (['{"id": "q1", "texts": ["a"]}'] * 2, "line 2: id 'q1' is not a text, or stands twice"),
        (['{"id": "q1", "texts": ["a"]}', '{"id": "q2", "texts": ["a", "b"]}'], "question q2 has 2 texts and q1 has 1"),
        (["{"], "line 1: not valid JSON"),
        ([""], "contains no paraphrases"),
    ],
)
def test_a_file_of_paraphrases_is_refused_with_a_remedy(tmp_path: Path, lines: list[str], message: str) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(VariantError, match=message):
        parse_variants(f"paraphrase:file={path}", read_files=True)


# Noise

WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "the",
                "which",
                "usually",
                "not",
                "except",
                "least",
                "begin",
                "DNA",
                "3.5",
                "x^2",
                "$y$",
                "\\frac{a}{b}",
                "Paris",
                "paris",
                "colour,",
                "12",
                "cats.",
                "“why?”",
                "naïve",
                "水",
                "it's",
                "e.g.",
                "option",
            ]
        ),
        st.text(min_size=1, max_size=8),
    ),
    max_size=12,
).map(" ".join)
OPTIONS = st.lists(WORDS.filter(str.strip), min_size=2, max_size=6)


@settings(max_examples=150, deadline=None)
@given(
    text=WORDS,
    options=OPTIONS,
    what=st.sampled_from(sorted(TYPES)),
    to=st.sampled_from(TARGETS),
    rate=st.integers(1, 100),
    seed=st.integers(0, 9),
    data=st.data(),
)
def test_noise_keeps_the_answer_and_options_that_differ_apart(text, options, what, to, rate, seed, data) -> None:  # type: ignore[no-untyped-def]
    answer = data.draw(st.integers(0, len(options) - 1))
    noise = Noise(what, rate, f"{seed}:noise:q:1", to)
    shown = noise.options(options, answer)
    assert shown[answer] == options[answer]
    assert len(set(shown)) >= len(set(options))
    assert shown == tuple(options) or to != "question"
    assert noise.question(text) == text or to != "options"
    # The rate, give or take less than one place.
    places = len(TYPES[what].places(text))
    assert abs(len(noise.taken(text, "question")) - places * rate / 100) < 1
    for kept in ("not", "except", "least", "DNA", "3.5", "x^2", "$y$", "\\frac{a}{b}"):
        if what not in ("spacing", "punctuation"):
            assert noise.altered(text, "question").split().count(kept) >= text.split().count(kept)
    assert noise.altered(text, "question") == noise.altered(text, "question")


def test_over_many_questions_noise_takes_the_stated_share_of_the_places() -> None:
    text = "Which of these metals would a plumber choose for a narrow pipe in the cellar?"
    for what in ("typos", "case", "spacing", "punctuation"):
        places = len(TYPES[what].places(text))
        taken = sum(len(Noise(what, 15, f"0:noise:q{n}:1", "question").taken(text, "question")) for n in range(400))
        # Fractions of a place are drawn: binomial, so that four standard errors are below 1.5 points.
        assert taken / (400 * places) == pytest.approx(0.15, abs=0.015)


def test_noise_alters_what_its_type_says() -> None:
    def altered(what: str) -> str:
        return Noise(what, 100, "0:noise:q:1", "question").altered(
            "Often the movie, usually not long, starts late.", "q"
        )

    assert altered("spacing").split() == ["Often", "the", "movie,", "usually", "not", "long,", "starts", "late."]
    assert altered("case").casefold() == "often the movie, usually not long, starts late."
    assert altered("punctuation") == "Often, the, movie usually, not long starts, late"
    assert altered("synonyms") == "Frequently the film, normally not long, begins late."
    typed = altered("typos").replace(",", "").replace(".", "").split()
    assert all(
        abs(len(word) - len(was)) <= 1 for word, was in zip(typed, ["Often", "the", "movie", "usually"], strict=False)
    )


def test_a_synonym_has_a_synonym_only_of_the_same_beginning() -> None:
    vowels = "aeiou"
    assert all((word[0] in vowels) == (other[0] in vowels) for word, other in synonyms().items() if word in _NOMINAL)


_NOMINAL = {"big", "bigger", "tiny", "sofa", "couch", "movie", "physician", "difficult", "clever", "smart", "wealthy"}


def test_an_altered_option_that_reads_like_another_is_put_back() -> None:
    # Of two options that differ in their case alone, neither is changed into the other.
    noise = Noise("case", 100, "0:noise:q:1", "options")
    assert noise.options(["Polish", "polish", "Danish"], 2)[2] == "Danish"
    assert noise.options(["Polish", "polish", "Danish"], 2)[:2] == ("Polish", "polish")


# Products


def test_a_product_has_every_variant_of_one_kind_under_every_one_of_the_other() -> None:
    definition = parse_variants("cyclic*wording:templates=0-2")
    found = variants(definition)
    assert [variant.ordinal for variant in found] == list(range(9))
    assert [(variant.name, variant.order) for variant in found[3:5]] == [
        ("rotation 1 × own", (1, 2, 0)),
        ("rotation 1 × question first", (1, 2, 0)),
    ]
    assert [variant.ordinal for variant in found if variant.unchanged(3)] == [0]
    assert definition.levels(QuestionShape("q1", 3, 0))[5] == (1, 2)
    assert definition.axes == ("order", "wording")


def test_what_the_factors_change_is_changed_together() -> None:
    found = variants("relabel:labels=digits*noise:what=case,rate=100*cyclic*choice-only")
    last = found[-1]
    assert (last.labels, last.order, last.question_shown) == ("digits", (2, 0, 1), False)
    assert last.noise is not None


def test_the_inserted_option_of_a_factor_is_that_of_the_product() -> None:
    definition = parse_variants("wording:templates=0-1*divergent:subset=original+nota")
    assert definition.inserted() == {-1: "None of the above"}
    assert {variant.order for variant in variants(definition)} == {(0, 1, 2), (0, -1, 2), (0, 1, -1)}


@pytest.mark.parametrize("cells", [3, 10, 32, 44])
def test_a_sample_asks_every_level_of_an_axis_as_often_give_or_take_one(cells: int) -> None:
    whole = {variant.ordinal: variant for variant in variants("cyclic*wording", FOUR)}
    for seed in range(3):
        found = variants(f"cyclic*wording*sample:cells={cells},seed={seed}", FOUR)
        assert len(found) == cells
        assert all(variant == whole[variant.ordinal] for variant in found)
        levels = parse_variants("cyclic*wording").levels(QuestionShape("q", 4, 0))
        for axis, size in ((0, 4), (1, 11)):
            counts = Counter(levels[variant.ordinal][axis] for variant in found)
            assert max(counts.values()) - min((counts[level] for level in range(size)), default=0) <= 1


FOUR = QuestionText("q", None, None, "?", ("a", "b", "c", "d"), 0)


def test_the_name_of_a_product_is_read_back_and_its_factors_are_in_its_identity() -> None:
    definition = parse_variants("cyclic*wording*sample:cells=8")
    assert definition.name == "cyclic*wording:seed=0,set=score,templates=all*sample:cells=8,seed=0"
    assert parse_variants(definition.name) == definition
    stored = VariantSetDefinition(definition.kind, json.loads(json.dumps(definition.parameters)))
    assert variants(stored) == variants(definition)
    assert definition.made_by(definition.version)
    older = json.loads(json.dumps(definition.parameters))
    older["factors"][1]["version"] = 0
    assert not VariantSetDefinition(definition.kind, older).made_by(definition.version)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cyclic*full", "cyclic and full both vary the order; use one of them"),
        ("cyclic*divergent", "cyclic and divergent both order the options"),
        ("imported*wording", "recorded orders cannot be multiplied"),
        ("cyclic*", "unknown variant kind ''"),
        ("sample:cells=3", "unknown variant kind 'sample'"),
        ("wording*sample", "sample takes cells and seed; give sample:cells=N,seed=0"),
        ("wording*sample:cells=0", "give whole numbers, and at least one cell"),
        ("noise:rate=0", "rate 0: give a percentage of the places from 1 to 100"),
        ("noise:what=typos+smell", "what 'smell' is not a type; use all, or types joined by"),
        ("noise:m=0", "m is a number of draws of each type from 1 to 100, not 0"),
        ("wording:set=scores", "no templates 'scores' ship; use score, or file=FILE"),
        ("wording:templates=9-11", "templates '9-11'; use all, or ordinals from 0"),
        ("wording:seed=5", "seed 5: use 0"),
        ("paraphrase", "give the file with the questions in other words"),
        ("full*noise:m=100", "24 × 501 variants make 12,024 cells of a question of 4 options; at most 10,000"),
    ],
)
def test_what_cannot_be_asked_is_refused(text: str, message: str) -> None:
    with pytest.raises(VariantError) as refused:
        variants(text, FOUR)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("spec", "listed", "unlisted"),
    [
        ("cyclic", "012", "000"),
        ("cyclic*repeat", "001122", "000000"),
        ("choice-only", "01", "01"),
        ("relabel:labels=digits+roman", "012", "012"),
        ("wording:templates=0-2", "012", "012"),
        ("wording:templates=0-1*repeat", "0011", "0011"),
        ("original-inverse*wording:templates=0-1", "0123", "0101"),
        # Other examples make no other prompt.
        ("answer-moving", "0012", "0000"),
        ("answer-moving*wording:templates=0-1", "01012345", "01010101"),
        ("noise:what=case,rate=100", "01", "01"),
    ],
)
def test_repeats_of_a_prompt_share_its_number(spec: str, listed: str, unlisted: str) -> None:
    for lists_options, numbers in ((True, listed), (False, unlisted)):
        keys = PromptKeys(parse_variants(spec), QUESTION, lists_options=lists_options)
        assert "".join(str(keys.of(variant)) for variant in keys.variants) == numbers


def test_a_paraphrase_in_the_question_s_own_words_is_no_other_prompt() -> None:
    definition = VariantSetDefinition("paraphrase", {"file": ""}, {"texts": {"q1": [QUESTION.text, "What falls?"]}})
    keys = PromptKeys(definition, QUESTION, lists_options=True)
    assert ([keys.of(variant) for variant in keys.variants], keys.distinct) == ([0, 0, 1], 2)
