-- What held the limits of a run's boxes. A row written before has NULL and 0 here, and a sum without them: rows.c.
ALTER TABLE runs ADD COLUMN limits TEXT;
ALTER TABLE attempts ADD COLUMN limits TEXT;
ALTER TABLE attempts ADD COLUMN output_dropped BIGINT NOT NULL DEFAULT 0;
