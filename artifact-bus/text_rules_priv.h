/* SPDX-License-Identifier: Apache-2.0 */
/* What texts that cross the wire must look like. Each gives NULL where the text is good, else what is wrong with it. */
#pragma once

#include "base/compiler.h"

const char *bh_rule_run_id(const char *text);
const char *bh_rule_instance_id(const char *text);
const char *bh_rule_agent(const char *text);          /* [a-z0-9][a-z0-9_-]* */
const char *bh_rule_agent_or_empty(const char *text); /* the same, or "" */
const char *bh_rule_segment(const char *text);        /* one path segment that is no dot file */
const char *bh_rule_path(const char *text);           /* relative, without empty, '.' and '..' segments */
const char *bh_rule_env_name(const char *text);       /* no '=' */
const char *bh_rule_snapshot_key(const char *text);   /* 64 lower-case hex digits */
const char *bh_rule_digest(const char *text);         /* "sha256:…" */
const char *bh_rule_reason(const char *text);         /* "timeout(run)" */
