CREATE TRIGGER sealed_notice_update BEFORE UPDATE ON notice
FOR EACH ROW EXECUTE FUNCTION refuse_change()

CREATE TRIGGER sealed_notice_delete BEFORE DELETE ON notice
FOR EACH ROW EXECUTE FUNCTION refuse_change()
