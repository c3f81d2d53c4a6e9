/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/evidence_text.h"

#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "base/val.h"

static const char *text_of(const struct bh_val *v, const char *key)
{
    const char *text = bh_val_str_of(v, key);
    return text ? text : "?";
}

/* "agent 'b' (attempt 1, try 1), from T to T" */
static void add_stay(struct bh_buf *out, const char *lead, const struct bh_val *v)
{
    const char *ended = bh_val_str_of(v, "ended");
    bh_buf_addf(out, "    %s agent '%s' (attempt %lld, try %lld), from %s %s%s", lead, text_of(v, "agent"),
                (long long)bh_val_int_of(v, "attempt"), (long long)bh_val_int_of(v, "try"), text_of(v, "began"),
                ended ? "to " : "on", ended ? ended : "");
}

static void tell_collision(const struct bh_val *v, struct bh_buf *out)
{
    static const struct {
        const char *key, *lead;
    } digests[] = {{"digest", "was collected as"}, {"digest_later", "was later"}};
    const struct bh_val *writers = bh_val_get(v, "writers"), *alive = bh_val_get(v, "alive");
    bh_buf_addf(out, "  evidence: '%s' (%s) of box '%s' was changed last at %s\n", text_of(v, "artifact"),
                text_of(v, "path"), text_of(v, "box"), text_of(v, "changed"));
    for (size_t i = 0; i < BH_ARRAY_LEN(digests); i++) {
        if (bh_val_str_of(v, digests[i].key))
            bh_buf_addf(out, "    %s %s\n", digests[i].lead, text_of(v, digests[i].key));
    }
    add_stay(out, "owned by", bh_val_get(v, "owner"));
    bh_buf_addc(out, '\n');
    for (size_t i = 0; i < bh_val_len(writers); i++) {
        add_stay(out, "written by", bh_val_at(writers, i));
        const char *wrote = bh_val_str_of(bh_val_at(writers, i), "wrote");
        bh_buf_addf(out, wrote ? ", as the kernel tells: last at %s\n" : ", as the kernel tells: it has it open\n",
                    wrote);
    }
    for (size_t i = 0; i < bh_val_len(alive); i++) {
        add_stay(out, "meanwhile there was", bh_val_at(alive, i));
        bh_buf_addc(out, '\n');
    }
}

static void add_size(struct bh_buf *out, const struct bh_val *v, const char *key, const char *what)
{
    char text[BH_UNIT_TEXT];
    if (bh_val_type(bh_val_get(v, key)) == BH_VAL_INT)
        bh_buf_addf(out, ", %s %s", what, bh_format_size(bh_val_int_of(v, key), text));
}

static void tell_share(const struct bh_val *v, bool itself, struct bh_buf *out)
{
    const struct bh_val *ports = bh_val_get(v, "ports");
    add_stay(out, bh_val_bool_of(v, "caused") ? "caused by" : itself ? "it is" : "beside it", v);
    if (bh_val_type(bh_val_get(v, "cpu_ms")) == BH_VAL_INT)
        bh_buf_addf(out, ": %lld ms of processor time", (long long)bh_val_int_of(v, "cpu_ms"));
    add_size(out, v, "memory_bytes", "memory");
    add_size(out, v, "written_bytes", "written");
    if (bh_val_type(bh_val_get(v, "processes")) == BH_VAL_INT)
        bh_buf_addf(out, ", processes: %lld", (long long)bh_val_int_of(v, "processes"));
    for (size_t i = 0; i < bh_val_len(ports); i++)
        bh_buf_addf(out, ", tcp port %lld", (long long)bh_val_get_int(bh_val_at(ports, i)));
    bh_buf_addc(out, '\n');
}

static void tell_wedge(const struct bh_val *v, struct bh_buf *out)
{
    const struct bh_val *agents = bh_val_get(v, "agents");
    bh_buf_addf(out, "  evidence: who had what of box '%s' (%s) at %s\n", text_of(v, "box"), text_of(v, "what"),
                text_of(v, "found"));
    for (size_t i = 0; i < bh_val_len(agents); i++)
        tell_share(bh_val_at(agents, i), i == 0, out);
}

void bh_evidence_tell(const char *json, struct bh_buf *out)
{
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    if (!json || bh_json_parse(json, strlen(json), &v, NULL) != 0)
        return;
    if (bh_streq(bh_val_str_of(v, "kind"), "collision"))
        tell_collision(v, out);
    else if (bh_streq(bh_val_str_of(v, "kind"), "wedge"))
        tell_wedge(v, out);
}
