/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which agent stands in which box, one file per topology: auto.c says why an agent may not share, shared_box.c what a
 * shared box is and when it cannot hold, per_agent.c and per_attempt.c make boxes of one agent, box_trust.c refuses
 * what trust forbids. placement.c asks them in turn.
 */
#pragma once

#include "topologies/traits.h"

struct bh_place {
    struct bh_planner *pl;
    struct bh_box_traits crew;    /* what the crew's box has */
    size_t crew_box, tainted_box; /* SIZE_MAX: there is none yet */
    size_t *group_box;            /* per group */
};

/* What the document, or the agent where it says so itself, asks for. */
enum bh_topology bh_placement_topology(const struct bh_planner *pl, size_t agent);
/* boxes.NAME, or NULL. */
const struct bh_box_doc *bh_placement_box_doc(const struct bh_planner *pl, const char *name);
/* A new box without agents. Returns its index. */
size_t bh_placement_new_box(struct bh_planner *pl, const char *id, enum bh_topology topology,
                            const struct bh_box_doc *doc, const char *reason);
void bh_placement_put(struct bh_planner *pl, size_t agent, size_t box, const char *reason);

/* auto.c: the sentence that says why the agent stands alone; NULL where it may join its crew. */
const char *bh_auto_split(struct bh_place *place, size_t agent);

/* shared_box.c: the traits of a shared box from its document and members, and whether all of them fit. */
void bh_shared_box_settle(struct bh_planner *pl, size_t box);

/* per_agent.c */
void bh_per_agent_place(struct bh_planner *pl, size_t agent, enum bh_topology topology, const char *reason);

/* per_attempt.c: true where the agent is tried several times; then it has been placed. */
bool bh_per_attempt_place(struct bh_planner *pl, size_t agent);
/* Reports an agent of several attempts that wants to share; true where there was something to report. */
bool bh_per_attempt_refuse(struct bh_planner *pl, size_t agent, const char *box);

/* box_trust.c: after label and powers of the box are known. */
void bh_box_trust_check(struct bh_planner *pl, size_t box);

/* host_network.c: after the members of the box are known. */
void bh_host_network_check(struct bh_planner *pl, size_t box);
