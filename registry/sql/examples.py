"""Worked queries for the SQL page, the published site and the documentation: question → query."""

from typing import Final

EXAMPLES: Final[dict[str, str]] = {
    "Which models lose most when the options move?": """\
SELECT model, benchmark, variants, accuracy, worst_accuracy, accuracy - worst_accuracy AS lost
FROM leaderboard
WHERE worst_accuracy IS NOT NULL
ORDER BY lost DESC, evaluation_id
LIMIT 20""",
    "How accurate is each model in its worst order?": """\
SELECT leaderboard.model, leaderboard.benchmark, variant AS worst_order, run_accuracy.accuracy
FROM run_accuracy
JOIN leaderboard USING (evaluation_id)
WHERE scope = 'all'
QUALIFY row_number() OVER (PARTITION BY evaluation_id ORDER BY run_accuracy.accuracy, variant) = 1
ORDER BY run_accuracy.accuracy DESC""",
    "Which ten questions do models above 50 % flip on most?": """\
SELECT question_id, leaderboard.benchmark, external_id,
    count(DISTINCT leaderboard.model) AS models, avg(question_metrics.fluctuation_rate) AS share_that_flips
FROM question_metrics
JOIN leaderboard USING (evaluation_id)
WHERE leaderboard.accuracy > 0.5 AND question_metrics.fluctuation_rate IS NOT NULL
GROUP BY ALL
ORDER BY share_that_flips DESC, models DESC, external_id, question_id
LIMIT 10""",
    "Which questions does every model flip on?": """\
SELECT leaderboard.benchmark, question_metrics.external_id, count(*) AS models
FROM question_metrics
JOIN leaderboard USING (evaluation_id)
WHERE question_metrics.fluctuation_rate IS NOT NULL
GROUP BY ALL
HAVING min(question_metrics.fluctuation_rate) = 1 AND count(*) > 1
ORDER BY external_id""",
    "Which position does each model prefer?": """\
SELECT model, benchmark, chosen_position AS position, count(*) AS prompts,
    count(*) / sum(count(*)) OVER (PARTITION BY evaluation_id) AS share
FROM prediction_detail
JOIN leaderboard USING (evaluation_id)
WHERE chosen_position IS NOT NULL
GROUP BY evaluation_id, model, benchmark, chosen_position
ORDER BY model, benchmark, position""",
    "How often is an answer right by the position of the key?": """\
SELECT model, benchmark, list_position(shown, answer) - 1 AS key_position,
    count(*) AS prompts, avg(correct::INTEGER) AS accuracy
FROM prediction_detail
JOIN leaderboard USING (evaluation_id)
WHERE own_options
GROUP BY ALL
ORDER BY model, benchmark, key_position""",
    "What is the history of a model's results?": """\
SELECT sealed_at, benchmark, protocol, variants, accuracy, worst_accuracy
FROM leaderboard
WHERE model = (SELECT model FROM leaderboard WHERE complete ORDER BY sealed_at DESC, evaluation_id LIMIT 1)
ORDER BY sealed_at""",
    "How has a board's first rank changed?": """\
SELECT board, as_of, model, column_name, value
FROM board_standings
WHERE rank = 1
ORDER BY board, column_name, as_of""",
    "Which models does a board not distinguish from the first?": """\
SELECT board, column_name, model, value, interval_low, interval_high
FROM board_standings
WHERE current AND tier = 1
ORDER BY board, column_name, value DESC""",
    "Which subjects are hardest?": """\
SELECT replace(scope, 'subject:', '') AS subject, count(*) AS models, avg(value) AS mean_accuracy
FROM evaluation_metrics
WHERE metric = 'accuracy' AND scope LIKE 'subject:%' AND value IS NOT NULL
GROUP BY ALL
ORDER BY mean_accuracy""",
    "Which metrics come with their interval?": """\
SELECT model, benchmark, metric, value, interval_low, interval_high, n
FROM evaluation_metrics
JOIN leaderboard USING (evaluation_id)
WHERE scope = 'all' AND metric IN ('accuracy', 'worst_accuracy', 'cora')
ORDER BY benchmark, metric, value DESC""",
    "Do larger models hold their answers better?": """\
SELECT model, parameters / 1e9 AS billion_parameters, accuracy, fluctuation_rate
FROM leaderboard
WHERE parameters IS NOT NULL AND fluctuation_rate IS NOT NULL
ORDER BY billion_parameters""",
    "How many answers could not be read?": """\
SELECT model, benchmark, count(*) AS prompts, avg((chosen_position IS NULL)::INTEGER) AS share_unread
FROM prediction_detail
JOIN leaderboard USING (evaluation_id)
GROUP BY ALL
ORDER BY share_unread DESC""",
    "Which rule read the answers of each model?": """\
SELECT model, benchmark, extraction_rule, prompts, correct / prompts AS accuracy
FROM extraction_counts
JOIN leaderboard USING (evaluation_id)
ORDER BY model, benchmark, prompts DESC""",
    "How sure are models when they are wrong?": """\
SELECT model, benchmark, correct, count(*) AS prompts, avg(list_max(label_probabilities)) AS mean_confidence
FROM prediction_detail
JOIN leaderboard USING (evaluation_id)
WHERE label_probabilities IS NOT NULL
GROUP BY ALL
ORDER BY model, benchmark, correct""",
    "What does one question look like in every order?": """\
SELECT variant, shown, chosen_position, chosen_option_text, correct
FROM prediction_detail
WHERE (evaluation_id, external_id) = (
    SELECT (evaluation_id, external_id) FROM question_metrics
    WHERE fluctuation_rate = 1 ORDER BY evaluation_id, external_id LIMIT 1
)
ORDER BY variant""",
    "Which answers differ between two evaluations of a model?": """\
SELECT one.evaluation_id, other.evaluation_id AS other_evaluation_id, count(*) AS prompts,
    avg((one.chosen_option IS DISTINCT FROM other.chosen_option)::INTEGER) AS share_different
FROM prediction_detail AS one
JOIN prediction_detail AS other USING (question_id, variant, shown)
JOIN leaderboard AS of_one ON of_one.evaluation_id = one.evaluation_id
JOIN leaderboard AS of_other ON of_other.evaluation_id = other.evaluation_id
WHERE one.evaluation_id < other.evaluation_id
    AND (of_one.model, of_one.protocol, of_one.shots, of_one.variants)
        = (of_other.model, of_other.protocol, of_other.shots, of_other.variants)
GROUP BY ALL
ORDER BY share_different DESC""",
    "What did an adversarial option do?": """\
SELECT model, benchmark, distractor, flipped, adversarial_effects.accuracy_original, adversarial_effects.accuracy
FROM adversarial_effects
JOIN leaderboard USING (evaluation_id)
ORDER BY flipped DESC""",
    "How do measured numbers compare with printed ones?": """\
SELECT model, benchmark, metric, origin, value
FROM measured_and_published
WHERE metric = 'accuracy'
ORDER BY model, benchmark, origin, value
LIMIT 100""",
    "Where and with what was each evaluation computed?": """\
SELECT model, benchmark, host, device, count(*) AS shards, sum(evaluation_provenance.elapsed_s) AS seconds
FROM evaluation_provenance
JOIN leaderboard USING (evaluation_id)
GROUP BY ALL
ORDER BY seconds DESC NULLS LAST""",
    "How hard is each question, and does it tell strong models from weak ones?": """\
WITH answers AS (
    SELECT evaluation_id, external_id, COALESCE(average_accuracy, accuracy) AS share_right
    FROM question_metrics
),
scores AS (
    SELECT benchmark, benchmark_version, protocol, shots, variants, external_id, share_right,
        SUM(share_right) OVER (PARTITION BY answers.evaluation_id) - share_right AS others
    FROM answers
    JOIN leaderboard ON leaderboard.evaluation_id = answers.evaluation_id
    WHERE complete AND sampled_from IS NULL AND share_right IS NOT NULL
),
items AS (
    SELECT benchmark, benchmark_version, protocol, shots, variants, external_id, COUNT(*) AS evaluations,
        AVG(share_right) AS difficulty,
        AVG(share_right * others) - AVG(share_right) * AVG(others) AS covariance,
        AVG(share_right * share_right) - AVG(share_right) * AVG(share_right) AS share_variance,
        AVG(others * others) - AVG(others) * AVG(others) AS others_variance
    FROM scores
    GROUP BY benchmark, benchmark_version, protocol, shots, variants, external_id
)
SELECT benchmark, protocol, variants, external_id, evaluations, difficulty,
    CASE
        WHEN share_variance > 0.000001 AND others_variance > 0.000001
        THEN covariance / SQRT(share_variance * others_variance)
    END AS discrimination
FROM items
ORDER BY discrimination, difficulty, external_id""",
    "How does accuracy change with the length of the thought?": """\
WITH lengths AS (
    SELECT evaluation_id, question_id, AVG(COALESCE(thought_characters, 0)) AS characters,
        AVG(CASE WHEN correct THEN 1.0 ELSE 0.0 END) AS accuracy
    FROM prediction_detail
    WHERE question_shown AND own_options AND evaluation_id IN (
        SELECT evaluation_id FROM prediction_detail WHERE thought_characters > 0
    )
    GROUP BY evaluation_id, question_id
),
quarters AS (
    SELECT evaluation_id, characters, accuracy,
        NTILE(4) OVER (PARTITION BY evaluation_id ORDER BY characters, question_id) AS quarter
    FROM lengths
)
SELECT model, benchmark, quarters.evaluation_id, quarter, COUNT(*) AS questions, MIN(characters) AS shortest,
    MAX(characters) AS longest, AVG(quarters.accuracy) AS mean_accuracy
FROM quarters
JOIN leaderboard ON leaderboard.evaluation_id = quarters.evaluation_id
GROUP BY model, benchmark, quarters.evaluation_id, quarter
ORDER BY model, benchmark, quarters.evaluation_id, quarter""",
    "How does a model do against others of its size?": """\
SELECT one.model, one.parameters, other.model AS other_model, other.parameters AS other_parameters, one.benchmark,
    one.variants, one.accuracy, one.accuracy - other.accuracy AS difference, one.evaluation_id AS left_evaluation,
    other.evaluation_id AS right_evaluation
FROM leaderboard AS one
JOIN leaderboard AS other
    ON other.benchmark = one.benchmark AND other.benchmark_version = one.benchmark_version
    AND other.protocol = one.protocol AND other.shots = one.shots AND other.variants = one.variants
    AND other.questions = one.questions AND other.model <> one.model
    AND 2 * other.parameters BETWEEN one.parameters AND 4 * one.parameters
WHERE one.complete AND other.complete
ORDER BY one.model, one.benchmark, one.variants, difference DESC""",
}
