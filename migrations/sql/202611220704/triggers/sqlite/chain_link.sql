CREATE TRIGGER sealed_chain_link_update BEFORE UPDATE ON chain_link
BEGIN
    SELECT RAISE(ABORT, 'chain_link is added to, never changed');
END

CREATE TRIGGER sealed_chain_link_delete BEFORE DELETE ON chain_link
BEGIN
    SELECT RAISE(ABORT, 'chain_link is added to, never changed');
END
