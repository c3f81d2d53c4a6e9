/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advice on where the walls belong: what a document (here) and the record of a run (scheduler/advise) show, which
 * topology that calls for, and the change of the document's own lines that says so. Pure: text in, text out.
 *
 * Five rules and a concession; each is quiet unless it can cite what it saw.
 */
#pragma once

#include "base/clock.h"
#include "topologies/plan.h"

struct bh_val;

enum bh_advice_rule {
    BH_ADVICE_TRUST,    /* untrusted content beside secrets: split on the trust boundary, always */
    BH_ADVICE_INSTALLS, /* agents of one box need, or made, different environments: per-agent */
    BH_ADVICE_WEDGE,    /* one agent took down others that were fine: per-agent, and timeouts */
    BH_ADVICE_PRODUCER, /* a wrong artifact, and nobody can say whose: per-agent */
    BH_ADVICE_SETUP,    /* the same setup, over and over, longer than the work: per-attempt */
    BH_ADVICE_ONE_BOX,  /* the concession: separate boxes that only pass files along: one would do */
};
const char *bh_advice_rule_text(enum bh_advice_rule rule); /* "conflicting-installs" */

struct bh_evidence {
    const char *text;
    struct bh_pos pos;            /* in the document; line 0: not from there */
    const char *agent, *instance; /* NULL: of none */
    struct bh_wall at;            /* us 0: no time */
};

/* One entry of the document: set to `value`, or taken away where that is NULL. */
struct bh_change {
    const char *agent;       /* NULL: the top level */
    const char *key, *inner; /* inner: an entry of the map at `key`, else NULL */
    const char *value;
    const char *const *entries; /* not NULL: a new agent behind `agent`, pairs of key and value, ended by NULL */
};

struct bh_advice {
    enum bh_advice_rule rule;
    enum bh_topology topology; /* what it calls for */
    const char *summary;       /* a sentence */
    const char *action;        /* what the change does, in words; NULL: nothing more than the topology */
    const char **agents;
    size_t n_agents, cap_agents;
    const char *box; /* id, or NULL */
    struct bh_evidence *evidence;
    size_t n_evidence, cap_evidence;
    struct bh_change *changes;
    size_t n_changes, cap_changes;
    int64_t saved_ns;  /* BH_ADVICE_SETUP: what a snapshot would have saved; else 0 */
    bool by_hand;      /* the changes are not the whole of it: no patch is made */
    bool later;        /* there is a change, and those of the others come first: ask again after them */
    const char *patch; /* set by bh_advices_finish; NULL where the text cannot be changed mechanically */
};

struct bh_advices {
    struct bh_advice *items;
    size_t len, cap;
    bool no_concession;     /* of a run: it failed, or walls held something back */
    struct bh_arena *arena; /* everything that the items point to, unless it belongs to the document */
};
void bh_advices_init(struct bh_advices *list);
void bh_advices_fini(struct bh_advices *list);

/* What a rule is given: a document that loads. The plan is NULL where trust refuses it; the errors say why. */
struct bh_advise_subject {
    const char *file, *text;
    size_t len;
    const struct bh_pipeline *pipeline;
    const struct bh_plan *plan;
    const struct bh_errlist *errors;
};

/* The rules that read the document alone: trust, installs. */
void bh_advise_document(const struct bh_advise_subject *subject, struct bh_advices *list);
/* The concession, where nothing else was found; call it last. */
void bh_advise_one_box(const struct bh_advise_subject *subject, struct bh_advices *list);

/*
 * Sorts by rule and turns the changes into patches. Each patch is made on the text that the one before it leaves, so
 * that all of them apply in turn; one by which the document would not load any more, or would plan worse, is dropped.
 */
void bh_advices_finish(const struct bh_advise_subject *subject, struct bh_advices *list);

/* The members of `advice` in the answer of the command line. The caller owns it. */
struct bh_val *bh_advice_to_val(const struct bh_advice *advice, const char *file);

/* For the rules, here and above. Texts are copied unless they belong to the document. */
struct bh_advice *bh_advices_add(struct bh_advices *list, enum bh_advice_rule rule, enum bh_topology topology,
                                 const char *fmt, ...) BH_PRINTF(4, 5);
struct bh_evidence *bh_advice_cite(struct bh_advices *list, struct bh_advice *advice, struct bh_pos pos,
                                   const char *agent, const char *fmt, ...) BH_PRINTF(5, 6);
void bh_advice_name(struct bh_advices *list, struct bh_advice *advice, const char *agent); /* once each */
void bh_advice_change(struct bh_advices *list, struct bh_advice *advice, const char *agent, const char *key,
                      const char *value);
/* Takes one entry of the map at `key` away. */
void bh_advice_change_inner(struct bh_advices *list, struct bh_advice *advice, const char *agent, const char *key,
                            const char *inner);
/*
 * A box of its own for an agent of the document, whatever put it into a shared one. It keeps what the shared one gave
 * it (base, network, user, limits, files, setup); where that is not on one line, the change is left to the person.
 */
void bh_advice_own_box(const struct bh_advise_subject *subject, struct bh_advices *list, struct bh_advice *advice,
                       const struct bh_agent *agent);
