/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the events about gates. */
#include "cli/gate_facts.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

void bh_gate_facts_fini(struct bh_gate_facts *gates)
{
    for (size_t i = 0; i < gates->len; i++) {
        bh_free(gates->items[i].name);
        bh_val_free(gates->items[i].facts);
        bh_decision_fini(&gates->items[i].filed);
    }
    bh_free(gates->items);
    *gates = (struct bh_gate_facts){0};
}

static struct bh_gate_fact *place(struct bh_gate_facts *gates, const struct bh_val *payload)
{
    const char *name = bh_val_str_of(payload, "name");
    bool of_stage = bh_streq(bh_val_str_of(payload, "of"), "stage");
    for (size_t i = 0; i < gates->len; i++) {
        if (gates->items[i].of_stage == of_stage && bh_streq(gates->items[i].name, name))
            return &gates->items[i];
    }
    struct bh_gate_fact *gate = BH_PUSH(gates->items, gates->len, gates->cap);
    *gate = (struct bh_gate_fact){.name = bh_strdup(name ? name : ""), .of_stage = of_stage};
    return gate;
}

static bool status_of(const char *kind, const struct bh_val *payload, enum bh_gate_status *ret)
{
    if (bh_streq(kind, "gate.asked"))
        *ret = BH_GATE_IS_ASKED;
    else if (bh_streq(kind, "gate.expired"))
        *ret = BH_GATE_IS_EXPIRED;
    else if (bh_streq(kind, "gate.decided"))
        *ret = bh_streq(bh_val_str_of(payload, "verdict"), "approve") ? BH_GATE_IS_APPROVED : BH_GATE_IS_REJECTED;
    else
        return false;
    return true;
}

static int on_event(void *arg, int64_t seq BH_UNUSED, struct bh_wall at, const char *kind, const char *text,
                    struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *payload = NULL;
    enum bh_gate_status status;
    if (!bh_starts_with(kind, "gate."))
        return 0;
    int rc = bh_json_parse(text, strlen(text), &payload, err);
    if (rc != 0 || !status_of(kind, payload, &status))
        return rc;
    struct bh_gate_fact *gate = place(arg, payload);
    if (status == BH_GATE_IS_ASKED)
        gate->asked = at;
    gate->ended = status == BH_GATE_IS_ASKED ? (struct bh_wall){0} : at;
    gate->status = status;
    bh_val_free(gate->facts);
    gate->facts = BH_TAKE(payload);
    return 0;
}

/* A file that is no decision is none: whoever drives the run says so. */
static void read_filed(const struct bh_cli_run *run, struct bh_gate_fact *gate)
{
    const char *digest = bh_val_str_of(gate->facts, "digest");
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (digest && bh_decision_read(&run->home, run->id, digest, &gate->filed, &err) != 0)
        gate->filed = (struct bh_decision){0};
}

int bh_gate_facts_read(const struct bh_cli_run *run, struct bh_gate_facts *ret, struct bh_err **err)
{
    struct bh_gate_facts gates = {0};
    int rc = bh_store_replay(run->store, run->id, on_event, &gates, err);
    if (rc != 0) {
        bh_gate_facts_fini(&gates);
        return rc;
    }
    for (size_t i = 0; i < gates.len; i++)
        read_filed(run, &gates.items[i]);
    *ret = gates;
    return 0;
}

const struct bh_gate_fact *bh_gate_facts_find(const struct bh_gate_facts *gates, const char *name)
{
    const struct bh_gate_fact *best = NULL;
    for (size_t i = 0; i < gates->len; i++) {
        const struct bh_gate_fact *g = &gates->items[i];
        bool open = g->status == BH_GATE_IS_ASKED, best_open = best && best->status == BH_GATE_IS_ASKED;
        if (bh_streq(g->name, name) && (!best || open > best_open || (open == best_open && best->of_stage)))
            best = g;
    }
    return best;
}

const char *bh_gate_status_text(enum bh_gate_status status)
{
    static const char *const texts[] = {[BH_GATE_IS_ASKED] = "asked",
                                        [BH_GATE_IS_APPROVED] = "approved",
                                        [BH_GATE_IS_REJECTED] = "rejected",
                                        [BH_GATE_IS_EXPIRED] = "expired"};
    return texts[status];
}

const struct bh_decision *bh_gate_pending(const struct bh_gate_fact *gate)
{
    bool told = gate->status == BH_GATE_IS_APPROVED || (gate->status == BH_GATE_IS_REJECTED && !gate->filed.approved);
    return gate->filed.by && !told ? &gate->filed : NULL;
}

bool bh_gate_is_waiting(const struct bh_cli_run *run, const struct bh_gate_fact *gate)
{
    return gate->status == BH_GATE_IS_ASKED && !bh_gate_pending(gate) && bh_streq(run->row.status, "running");
}

static struct bh_val *pending_to_val(const struct bh_decision *d)
{
    if (!d)
        return bh_val_null();
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "verdict", d->approved ? "approve" : "reject");
    bh_val_set_str(v, "by", d->by);
    bh_cli_set_time(v, "at", d->at);
    bh_val_set_str(v, "reason", d->reason);
    return v;
}

struct bh_val *bh_gate_facts_to_val(const struct bh_cli_run *run, const struct bh_gate_facts *gates)
{
    static const char *const keys[] = {"digest", "by", "reason", "how"};
    struct bh_val *list = bh_val_list();
    for (size_t i = 0; i < gates->len; i++) {
        const struct bh_gate_fact *g = &gates->items[i];
        struct bh_val *v = bh_val_add(list, bh_val_map());
        bh_val_set_str(v, "gate", g->name);
        bh_val_set_str(v, "of", g->of_stage ? "stage" : "agent");
        bh_val_set_str(v, "status", bh_gate_status_text(g->status));
        bh_val_set_bool(v, "waiting", bh_gate_is_waiting(run, g));
        bh_cli_set_time(v, "asked", g->asked);
        bh_cli_set_time(v, "ended", g->ended);
        for (size_t k = 0; k < BH_ARRAY_LEN(keys); k++)
            bh_val_set_str(v, keys[k], bh_val_str_of(g->facts, keys[k]));
        bh_val_set(v, "pending", pending_to_val(bh_gate_pending(g)));
        const struct bh_val *artifacts = bh_val_get(g->facts, "artifacts");
        bh_val_set(v, "artifacts", artifacts ? bh_val_copy(artifacts) : bh_val_list());
    }
    return list;
}

size_t bh_gate_count_tainted(const struct bh_val *artifacts)
{
    size_t n = 0;
    for (size_t i = 0; i < bh_val_len(artifacts); i++)
        n += bh_streq(bh_val_str_of(bh_val_at(artifacts, i), "label"), "tainted");
    return n;
}

void bh_gate_tell_size(const struct bh_gate_fact *gate, struct bh_buf *out)
{
    const struct bh_val *artifacts = bh_val_get(gate->facts, "artifacts");
    size_t n = bh_val_len(artifacts), tainted = bh_gate_count_tainted(artifacts);
    bh_buf_addf(out, "%zu %sartifact%s", n, n > 0 && tainted == n ? "tainted " : "", n == 1 ? "" : "s");
    if (tainted > 0 && tainted < n)
        bh_buf_addf(out, " (%zu of them tainted)", tainted);
}

void bh_gate_tell_pending(const struct bh_cli_run *run, const struct bh_gate_fact *gate, struct bh_buf *out)
{
    const struct bh_decision *d = bh_gate_pending(gate);
    bh_buf_addf(out, "%s by %s%s%s; ", d->approved ? "approved" : "rejected", d->by, d->reason ? ": " : "",
                d->reason ? d->reason : "");
    if (bh_home_run_is_owned(&run->home, run->id))
        bh_buf_adds(out, "the run takes it up now");
    else
        bh_buf_addf(out, "counts at 'bulkhead run --resume %s'", run->id);
}
