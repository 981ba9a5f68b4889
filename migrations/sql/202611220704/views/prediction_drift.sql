-- prediction_drift: one row per prompt and pair of sealed evaluations that put it to the same model, in both orders of the
-- pair: replicates, or revisions of the model such as two precisions, on one benchmark version, protocol and variant set.
-- Name both evaluations in a condition: without one, every pair of the registry is compared.
-- flipped: the answers differ; no valid answer equals no valid answer here. Probabilities are NULL where there are none.
select
    prediction.evaluation_id,
    other.evaluation_id as other_evaluation_id,
    prediction.question_id,
    question.external_id,
    prediction.variant,
    prediction.chosen_option,
    other.chosen_option as other_chosen_option,
    (prediction.chosen_option is distinct from other.chosen_option) as flipped,
    prediction.correct,
    other.correct as other_correct,
    prediction.answer_probability,
    other.answer_probability as other_answer_probability,
    other.answer_probability - prediction.answer_probability as answer_probability_change
from evaluation
inner join model_revision on model_revision.id = evaluation.model_revision_id
inner join model_revision as other_revision on other_revision.model_id = model_revision.model_id
inner join evaluation as other_evaluation
    on other_evaluation.model_revision_id = other_revision.id
    and other_evaluation.benchmark_version_id = evaluation.benchmark_version_id
    and other_evaluation.protocol_id = evaluation.protocol_id
    and other_evaluation.variant_set_id = evaluation.variant_set_id
    and other_evaluation.id <> evaluation.id
inner join prediction on prediction.evaluation_id = evaluation.id
inner join prediction as other
    on other.evaluation_id = other_evaluation.id
    and other.question_id = prediction.question_id
    and other.variant = prediction.variant
    and other.shown = prediction.shown
inner join question on question.id = prediction.question_id
where evaluation.seal is not null and other_evaluation.seal is not null
