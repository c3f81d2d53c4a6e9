-- Whether some run knows content as tainted is asked for every file and source of a new run.
CREATE INDEX artifacts_tainted ON artifacts (digest) WHERE label = 'tainted';
