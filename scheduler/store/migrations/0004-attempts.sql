-- What an execution was for (NULL: the attempt itself; 'setup', 'prepare': what attempts start from), the snapshot that
-- it started from or made, whether that had been made before, and the attempt's score as a decimal. A row written
-- before has nothing in them.
ALTER TABLE attempts ADD COLUMN kind TEXT;
ALTER TABLE attempts ADD COLUMN snapshot TEXT;
ALTER TABLE attempts ADD COLUMN snapshot_reused BIGINT NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN score TEXT;
