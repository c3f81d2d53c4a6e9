/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/wedge.h"

#include "base/mem.h"
#include "base/units.h"
#include "workers/evidence_priv.h"

#define STARVED 5 /* who could have run for a fifth of its time, and did not, was kept from it */

static const char *const names[] = {
    [BH_WEDGE_MEMORY] = "memory",  [BH_WEDGE_DISK] = "disk", [BH_WEDGE_PROCESSES] = "processes",
    [BH_WEDGE_SPIN] = "processor", [BH_WEDGE_PORT] = "port",
};

/* --- who it was --- */

/* In thousandths of a processor: what it used, and what it would have used if it had been let. */
static int64_t wanted_by(const struct bh_wedge_row *r)
{
    int64_t waited = r->share.waited_ms > 0 ? r->share.waited_ms : 0;
    return r->elapsed_ms > 0 && r->share.cpu_ms >= 0 ? (r->share.cpu_ms + waited) * 1000 / r->elapsed_ms : -1;
}

/* Of memory and processes nothing is left when they have ended; what one of them held most stands for who has just
 * died of it. */
static int64_t value_of(const struct bh_wedge *w, size_t i)
{
    const struct bh_wedge_row *r = &w->rows[i];
    switch (w->what) {
    case BH_WEDGE_MEMORY:
        return r->lives ? r->share.memory_bytes : i == 0 ? r->who->max_rss_bytes : 0;
    case BH_WEDGE_DISK:
        return r->share.written_bytes;
    case BH_WEDGE_PROCESSES:
        return r->share.processes;
    case BH_WEDGE_SPIN:
        return wanted_by(r);
    case BH_WEDGE_PORT:
        return i > 0 && r->lives ? (int64_t)r->share.n_ports : 0;
    }
    return -1;
}

static int64_t sum_of(const struct bh_wedge *w)
{
    int64_t sum = 0;
    for (size_t i = 0; i < w->n; i++) {
        int64_t value = value_of(w, i);
        sum += value > 0 ? value : 0;
    }
    return sum;
}

static size_t largest(const struct bh_wedge *w)
{
    size_t found = w->n;
    int64_t most = 0;
    for (size_t i = 0; i < w->n; i++) {
        if (value_of(w, i) > most) {
            most = value_of(w, i);
            found = i;
        }
    }
    return found;
}

/* Whoever wants nearly all processors that there are leaves none to others, also where the host is busy besides. */
static bool judge_spin(const struct bh_wedge *w)
{
    const struct bh_wedge_row *self = &w->rows[0];
    bool starved = self->share.waited_ms >= 0 && self->share.waited_ms * STARVED >= self->elapsed_ms;
    return starved && w->cause > 0 && w->cause < w->n && value_of(w, w->cause) * 5 >= w->limit * 4;
}

bool bh_wedge_judge(struct bh_wedge *w)
{
    int64_t whole = w->limit > 0 && w->what != BH_WEDGE_SPIN ? w->limit : sum_of(w);
    w->cause = largest(w);
    if (w->cause < w->n && w->what != BH_WEDGE_PORT && value_of(w, w->cause) * 2 < whole)
        w->cause = w->n;
    if (w->what == BH_WEDGE_SPIN)
        return judge_spin(w);
    return w->what == BH_WEDGE_PORT ? w->cause < w->n : w->n > 1 || w->cause == 0;
}

/* --- in words --- */

static void add_ports(struct bh_buf *out, const struct bh_box_share *share)
{
    bh_buf_adds(out, share->n_ports == 1 ? "listens on tcp port" : "listens on tcp ports");
    for (size_t i = 0; i < share->n_ports; i++)
        bh_buf_addf(out, "%s%u", i == 0 ? " " : ", ", share->ports[i]);
}

static void add_seconds(struct bh_buf *out, int64_t ms)
{
    bh_buf_addf(out, "%lld.%llds", (long long)(ms / 1000), (long long)(ms % 1000 / 100));
}

static void add_number(struct bh_buf *out, const struct bh_wedge *w, size_t i)
{
    char text[BH_UNIT_TEXT];
    const struct bh_wedge_row *r = &w->rows[i];
    int64_t value = value_of(w, i);
    if (w->what == BH_WEDGE_PORT) {
        add_ports(out, &r->share);
    } else if (value < 0) {
        bh_buf_adds(out, "is not known");
    } else if (w->what == BH_WEDGE_MEMORY) {
        bh_buf_addf(out, "held %s of memory", bh_format_size(value, text));
    } else if (w->what == BH_WEDGE_DISK) {
        bh_buf_addf(out, "wrote %s", bh_format_size(value, text));
    } else if (w->what == BH_WEDGE_PROCESSES) {
        bh_buf_addf(out, "had %lld processes", (long long)value);
    } else {
        bh_buf_adds(out, "used ");
        add_seconds(out, r->share.cpu_ms);
        bh_buf_adds(out, " of processor time in ");
        add_seconds(out, r->elapsed_ms);
        bh_buf_adds(out, " and waited for ");
        add_seconds(out, r->share.waited_ms > 0 ? r->share.waited_ms : 0);
    }
}

static void add_row(struct bh_buf *out, const struct bh_wedge *w, size_t i)
{
    bh_evidence_add_who(out, w->rows[i].who, 0, 1);
    bh_buf_addc(out, ' ');
    add_number(out, w, i);
}

static void add_cause(struct bh_buf *out, const struct bh_wedge *w)
{
    if (w->what == BH_WEDGE_SPIN) {
        bh_buf_adds(out, "it waited for a processor for ");
        add_seconds(out, w->rows[0].share.waited_ms);
        bh_buf_adds(out, " of that; ");
    }
    bh_buf_adds(out, "the cause, as the kernel counts: ");
    add_row(out, w, w->cause);
}

static bool is_told(const struct bh_wedge *w, size_t i)
{
    return w->what == BH_WEDGE_PORT ? value_of(w, i) > 0 : value_of(w, i) != 0 || i == 0;
}

char *bh_wedge_text(const struct bh_wedge *w)
{
    struct bh_buf out = BH_BUF_INIT;
    size_t told = 0;
    if (w->what == BH_WEDGE_PORT) {
        bh_buf_adds(&out, "beside it in the box: ");
    } else if (w->cause < w->n) {
        add_cause(&out, w);
    } else {
        bh_buf_adds(&out, "no one of these caused it alone, as the kernel counts: ");
    }
    for (size_t i = 0; i < w->n; i++) {
        if ((w->what != BH_WEDGE_PORT && i == w->cause) || !is_told(w, i))
            continue;
        bh_buf_adds(&out, told++ > 0 ? ", " : w->cause < w->n && w->what != BH_WEDGE_PORT ? "; " : "");
        add_row(&out, w, i);
    }
    return bh_buf_take(&out);
}

/* --- as JSON --- */

static void set_number(struct bh_val *v, const char *key, int64_t n)
{
    bh_val_set(v, key, n >= 0 ? bh_val_int(n) : bh_val_null());
}

static struct bh_val *row_to_val(const struct bh_wedge *w, size_t i)
{
    const struct bh_wedge_row *r = &w->rows[i];
    struct bh_val *v = bh_evidence_stay(r->who);
    bh_val_set_bool(v, "caused", i == w->cause);
    set_number(v, "elapsed_ms", r->elapsed_ms);
    set_number(v, "cpu_ms", r->share.cpu_ms);
    set_number(v, "waited_ms", r->share.waited_ms);
    set_number(v, "memory_bytes", w->what == BH_WEDGE_MEMORY ? value_of(w, i) : r->share.memory_bytes);
    set_number(v, "memory_peak_bytes", r->share.memory_peak_bytes);
    set_number(v, "written_bytes", r->share.written_bytes);
    set_number(v, "processes", r->share.processes);
    struct bh_val *ports = bh_val_set(v, "ports", bh_val_list());
    for (size_t k = 0; k < r->share.n_ports; k++)
        (void)bh_val_add(ports, bh_val_int(r->share.ports[k]));
    return v;
}

char *bh_wedge_json(const struct bh_wedge *w)
{
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "kind", "wedge");
    bh_val_set_str(v, "what", names[w->what]);
    bh_val_set_str(v, "box", w->box);
    set_number(v, "limit", w->limit > 0 ? w->limit : -1);
    bh_evidence_set_time(v, "found", bh_wall_now());
    bh_val_set_bool(v, "attributed", w->cause < w->n);
    bh_val_set_str(v, "caused_by", w->cause < w->n ? w->rows[w->cause].who->agent : NULL);
    struct bh_val *agents = bh_val_set(v, "agents", bh_val_list());
    for (size_t i = 0; i < w->n; i++)
        (void)bh_val_add(agents, row_to_val(w, i));
    return bh_evidence_json(v);
}
