-- option_probability: one row per stored prompt and position shown.
-- option: the benchmark's ordinal of what stood there (inserted options are negative).
-- probability is NULL where none was recorded; it is renormalised over the labels shown.
select
    prediction.evaluation_id,
    prediction.question_id,
    prediction.variant,
    (place.ordinality - 1)::integer as position,
    place.option::integer as option,
    prediction.label_logprobs[place.ordinality] as logprob_nats,
    prediction.label_probabilities[place.ordinality] as probability,
    prediction.logprobs_without_question[place.ordinality] as logprob_without_question_nats
from prediction
cross join lateral unnest(prediction.shown) with ordinality as place (option, ordinality)
