-- The log. chain = sha256(previous chain, run, seq, at, kind, payload): scheduler/store/chain.h.
CREATE TABLE events (
    run TEXT NOT NULL,
    seq BIGINT NOT NULL,
    at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    chain BYTEA NOT NULL,
    PRIMARY KEY (run, seq)
);

-- What was submitted: the document and the submission, by name. Written once, before the first event.
CREATE TABLE run_texts (
    run TEXT NOT NULL,
    name TEXT NOT NULL,
    content TEXT,
    sum BYTEA NOT NULL,
    PRIMARY KEY (run, name)
);

-- How many rows a run has in each table below (run '' counts the runs): an index that lost one is noticed.
CREATE TABLE row_counts (
    run TEXT NOT NULL,
    name TEXT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (run, name)
);

-- Projections. Times are microseconds since 1970, 0 for not yet; sum is the digest of the row: scheduler/store/rows.h.
CREATE TABLE runs (
    run TEXT NOT NULL PRIMARY KEY,
    name TEXT,
    status TEXT,
    file TEXT,
    created BIGINT NOT NULL,
    started BIGINT NOT NULL,
    ended BIGINT NOT NULL,
    params TEXT,
    failure TEXT,
    sum BYTEA NOT NULL
);

CREATE TABLE agents (
    run TEXT NOT NULL,
    name TEXT NOT NULL,
    stage TEXT,
    topology TEXT,
    box TEXT,
    status TEXT,
    label TEXT,
    reason TEXT,
    position BIGINT NOT NULL,
    sum BYTEA NOT NULL,
    PRIMARY KEY (run, name)
);

CREATE TABLE attempts (
    run TEXT NOT NULL,
    instance TEXT NOT NULL,
    agent TEXT,
    status TEXT,
    reason TEXT,
    detail TEXT,
    box TEXT,
    attempt BIGINT NOT NULL,
    try BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    exit_code BIGINT NOT NULL,
    signal BIGINT NOT NULL,
    created BIGINT NOT NULL,
    started BIGINT NOT NULL,
    ended BIGINT NOT NULL,
    selected BIGINT NOT NULL,
    usage TEXT,
    kept_box TEXT,
    sum BYTEA NOT NULL,
    PRIMARY KEY (run, instance)
);

CREATE TABLE artifacts (
    run TEXT NOT NULL,
    name TEXT NOT NULL,
    digest TEXT,
    kind TEXT,
    agent TEXT,
    instance TEXT,
    label TEXT,
    provenance TEXT,
    size BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    executable BIGINT NOT NULL,
    private BIGINT NOT NULL,
    published BIGINT NOT NULL,
    sum BYTEA NOT NULL,
    PRIMARY KEY (run, name)
);
