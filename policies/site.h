/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the administrator of a host allows any pipeline: small YAML files. /etc/bulkhead/site.yaml is the system's; the
 * caller's own is the one that BULKHEAD_SITE names, else $XDG_CONFIG_HOME/bulkhead/site.yaml. Where both are there,
 * both must allow: the stricter wins. Without one the documents get what they ask for, except what needs somebody's
 * leave: the host's network, addresses that are not public, mounts.
 *
 *   limits: best-effort            # limits that the host cannot enforce are watched; default: enforced
 *   disk_budget: 50GiB
 *   caps: {limits: {memory: 8GiB, cpus: 4}, timeout: 2h, attempts: 8, parallel: 16}
 *   allow:                         # a key that is there allows what it lists and nothing else
 *     bases: [host, oci-archive:tools.tar]
 *     hosts: ["*.example.org:443", public]
 *     secrets: ["env:ANTHROPIC_*"]             # env:VAR, file:PATH, command:PROGRAM
 *     endpoints: ["https://api.anthropic.com"] # upstreams
 *     mounts: [/srv/data]                      # folders, with what is below them
 *     ranges: [10.1.0.0/16]                    # addresses beyond the public ones
 *     host_network: true                       # default false
 *     root: false                              # `user: root`; default true
 *     endorse: false                           # default true
 *   pipelines:                     # whoever fits gets these rules in place of those above, key by key; the last wins
 *     - {name: "nightly-*", labels: {team: search}, caps: {…}, allow: {…}}
 *
 * In patterns `*` stays within a segment between slashes and `**` crosses, as in the globs of documents.
 */
#pragma once

#include "base/err.h"
#include "topologies/limits.h"

struct bh_plan;

#define BH_SITE_FILE "/etc/bulkhead/site.yaml"

struct bh_site_list {
    char **items;
    size_t n;
    int line; /* of the key; 0: it is not there, and anything goes (of RANGES and MOUNTS: nothing) */
};
struct bh_site_number {
    int64_t most;
    int line; /* 0: no such cap */
};
struct bh_site_word {
    bool yes;
    int line; /* 0: nothing was said */
};

enum bh_site_what { BH_SITE_BASES, BH_SITE_HOSTS, BH_SITE_SECRETS, BH_SITE_ENDPOINTS, BH_SITE_MOUNTS, BH_SITE_RANGES };
enum bh_site_leave { BH_SITE_HOST_NETWORK, BH_SITE_ROOT, BH_SITE_ENDORSE };
enum { BH_N_SITE_LISTS = BH_SITE_RANGES + 1, BH_N_SITE_LEAVES = BH_SITE_ENDORSE + 1 };

struct bh_site_rules {
    struct bh_site_list lists[BH_N_SITE_LISTS];
    struct bh_site_word leaves[BH_N_SITE_LEAVES];
    struct bh_site_number limits[BH_N_LIMITS], timeout_ns, attempts, parallel;
};

struct bh_site_pipeline { /* who fits: name and all labels; NULL and 0: everybody */
    char *name;
    char **labels, **values;
    size_t n_labels;
    struct bh_site_rules rules;
};

struct bh_site {
    char *file; /* that was read; NULL: there is none */
    /* limits: best-effort. Limits that this host cannot enforce are watched as far as possible, not refused. */
    bool best_effort;
    /* disk_budget: 50GiB. How much a state directory may hold for new boxes to be made in it; 0: nobody says. */
    int64_t disk_budget;
    struct bh_site_rules rules;
    struct bh_site_pipeline *pipelines;
    size_t n_pipelines;
};

/* The files that count here. */
struct bh_policy {
    struct bh_site sites[2];
    size_t n;
};

/*
 * Reads the files. Whatever is wrong with one is -BH_E_POLICY, with its place: it says what may not be done, so nothing
 * is done without it. It must be a file that root or the caller owns and nobody else can write. `named` takes the place
 * of the caller's own file and must exist; NULL: the usual one. Blocks on the disk.
 */
int bh_policy_load(const char *named, struct bh_policy *ret, struct bh_errlist *errors) BH_MUST_CHECK;
void bh_policy_fini(struct bh_policy *policy);

/* One file. `must_exist`: its absence is an error. */
int bh_site_read(const char *file, bool must_exist, struct bh_site *ret, struct bh_errlist *errors) BH_MUST_CHECK;
void bh_site_fini(struct bh_site *site);

/* --- what they say together --- */

bool bh_policy_best_effort(const struct bh_policy *policy); /* there is a file, and all of them say so */
/* The least of them; 0: none. *ret_file is borrowed. */
int64_t bh_policy_disk_budget(const struct bh_policy *policy, const char **ret_file);
int64_t bh_policy_parallel(const struct bh_policy *policy,
                           const struct bh_plan *plan); /* 0: as many as there is room */

/* Everything of a plan that some file refuses, each with the line of the rule: -BH_E_POLICY. Pure. */
int bh_policy_check(const struct bh_policy *policy, const struct bh_plan *plan,
                    struct bh_errlist *errors) BH_MUST_CHECK;

/*
 * The address ranges beyond the public ones that a pipeline of this name may reach: those that each file lists, in the
 * words of the document's `labels` for `agent` (an index into the plan). The texts are the caller's, in *ret (free each
 * and the list).
 */
void bh_policy_ranges(const struct bh_policy *policy, const struct bh_plan *plan, size_t agent, char ***ret,
                      size_t *ret_n);
