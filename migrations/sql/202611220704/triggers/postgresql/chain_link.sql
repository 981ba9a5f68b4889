CREATE TRIGGER sealed_chain_link_update BEFORE UPDATE ON chain_link
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_chain_link_delete BEFORE DELETE ON chain_link
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_chain_link_truncate BEFORE TRUNCATE ON chain_link
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate_always()
