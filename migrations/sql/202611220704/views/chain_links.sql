-- chain_links: one row per seal, withdrawal or snapshot of a board, in the order in which this registry made them.
-- subject: the digest of what the link is about; labels: NULL but for seals. digest covers the row and, through previous,
-- every row before it: the last digest stands for the whole list.
select
    chain_link.position,
    chain_link.kind,
    chain_link.subject,
    chain_link.labels,
    chain_link.at,
    chain_link.previous,
    chain_link.digest
from chain_link
