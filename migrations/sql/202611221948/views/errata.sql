-- errata: one row per version of a benchmark's errata and question that it says something of.
-- status: disputed, wrong-key (the published key is wrong, the right one is not known) or corrected-key. answer: the
-- option that is right after all, NULL unless the key was corrected. published_answer: that of the benchmark's file.
-- newest: the version holds; older ones stay, since snapshots and papers name them. A version without errata, in which all
-- were taken back, has no row.
select
    benchmark.name as benchmark,
    benchmark_version.version as benchmark_version,
    errata_version.number as errata_version,
    errata_version.digest,
    (errata_version.number = (
        select max(later.number)
        from errata_version as later
        where later.benchmark_version_id = errata_version.benchmark_version_id
    )) as newest,
    errata_version.at as version_at,
    erratum.question_id,
    question.external_id,
    erratum.status,
    question.answer as published_answer,
    erratum.answer,
    erratum.note,
    erratum.actor,
    erratum.at
from erratum
inner join errata_version on errata_version.id = erratum.errata_version_id
inner join question on question.id = erratum.question_id
inner join benchmark_version on benchmark_version.id = errata_version.benchmark_version_id
inner join benchmark on benchmark.id = benchmark_version.benchmark_id
