-- evaluation_question_scope: one row per question of an evaluation and scope that it counts in.
-- Scopes: "all"; "unflagged", without questions whose options refer to each other ("without-references") or are sorted
-- numbers ("without-sorted-numbers"); "subject:…"; "category:…" (subject_category).
select
    evaluation_question.evaluation_id,
    evaluation_question.question_id,
    case kinds.kind
        when 'subject' then 'subject:' || question.subject
        when 'category' then 'category:' || subject_category.category
        else kinds.kind
    end as scope
from evaluation_question
inner join question on question.id = evaluation_question.question_id
cross join (
    select 'all' as kind
    union all
    select 'unflagged' as kind
    union all
    select 'without-references' as kind
    union all
    select 'without-sorted-numbers' as kind
    union all
    select 'subject' as kind
    union all
    select 'category' as kind
) as kinds
left join subject_category
    on kinds.kind = 'category'
    and subject_category.subject = question.subject
where
    case kinds.kind
        when 'all' then true
        when 'unflagged' then not question.refers_to_options and not question.sorted_numeric
        when 'without-references' then not question.refers_to_options
        when 'without-sorted-numbers' then not question.sorted_numeric
        when 'subject' then question.subject is not null
        else subject_category.category is not null
    end
