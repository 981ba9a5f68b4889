-- option_probability: one row per stored prompt and position shown.
-- option: the benchmark's ordinal of what stood there (inserted options are negative).
-- probability is NULL where none was recorded; it is renormalised over the labels shown.
select
    prediction.evaluation_id,
    prediction.question_id,
    prediction.variant,
    place.key as position,
    place.value as option,
    json_extract(prediction.label_logprobs, '$[' || place.key || ']') as logprob_nats,
    json_extract(prediction.label_probabilities, '$[' || place.key || ']') as probability,
    json_extract(prediction.logprobs_without_question, '$[' || place.key || ']') as logprob_without_question_nats
from prediction, json_each(prediction.shown) as place
