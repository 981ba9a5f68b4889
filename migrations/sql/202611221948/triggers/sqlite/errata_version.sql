CREATE TRIGGER sealed_errata_version_update BEFORE UPDATE ON errata_version
BEGIN
    SELECT RAISE(ABORT, 'errata_version is added to, never changed');
END

CREATE TRIGGER sealed_errata_version_delete BEFORE DELETE ON errata_version
BEGIN
    SELECT RAISE(ABORT, 'errata_version is added to, never changed');
END
