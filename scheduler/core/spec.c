/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a spec. Knows nothing of where it came from. */
#include "scheduler/core/spec.h"

#include "base/mem.h"

void bh_spec_free(struct bh_spec *spec)
{
    if (!spec)
        return;
    for (size_t i = 0; spec->nodes && i < spec->n_nodes; i++) {
        bh_free(spec->nodes[i].name);
        bh_free(spec->nodes[i].deps);
        bh_free(spec->nodes[i].forks);
    }
    for (size_t i = 0; spec->groups && i < spec->n_groups; i++)
        bh_free(spec->groups[i].nodes);
    for (size_t i = 0; spec->gates && i < spec->n_gates; i++) {
        bh_free(spec->gates[i].id);
        bh_free(spec->gates[i].after);
        bh_free(spec->gates[i].nodes);
    }
    for (size_t i = 0; spec->boxes && i < spec->n_boxes; i++)
        bh_free(spec->boxes[i].id);
    bh_free(spec->nodes);
    bh_free(spec->groups);
    bh_free(spec->gates);
    bh_free(spec->boxes);
    bh_free(spec);
}
