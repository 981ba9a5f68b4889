CREATE TRIGGER sealed_withdrawal_update BEFORE UPDATE ON withdrawal
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_withdrawal_delete BEFORE DELETE ON withdrawal
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_withdrawal_truncate BEFORE TRUNCATE ON withdrawal
FOR EACH STATEMENT EXECUTE FUNCTION refuse_truncate()
