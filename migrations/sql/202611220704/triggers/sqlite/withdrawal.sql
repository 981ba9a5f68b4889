CREATE TRIGGER sealed_withdrawal_update BEFORE UPDATE ON withdrawal
BEGIN
    SELECT RAISE(ABORT, 'withdrawal is added to, never changed');
END

CREATE TRIGGER sealed_withdrawal_delete BEFORE DELETE ON withdrawal
BEGIN
    SELECT RAISE(ABORT, 'withdrawal is added to, never changed');
END
