/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's first steps, without a pipeline at their end. */
#include "topologies/settings.h"

#include "topologies/bytes.h"
#include "topologies/load_priv.h"

/* Only comments and blank lines: what is said is nothing, and nothing is fine. */
static bool is_empty(const char *text, size_t len)
{
    bool comment = false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n')
            comment = false;
        else if (text[i] == '#')
            comment = true;
        else if (!comment && text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    }
    return true;
}

static void read_text(struct bh_reader *r, const char *text, size_t len, const struct bh_key_table *table, void *target)
{
    struct bh_pipeline *p = r->p;
    if (is_empty(text, len) || bh_bytes_check(p->file, text, len, r->errors) < 0)
        return;
    if (bh_tree_parse(p->file, text, len, p->arena, &p->root, r->errors) < 0 && !p->root)
        return;
    (void)bh_read_map(r, p->root, table, target);
}

int bh_settings_load(const char *file, const char *text, size_t len, const struct bh_key_table *table, void *target,
                     struct bh_errlist *errors)
{
    struct bh_reader r;
    size_t before = errors->len;
    bh_reader_init(&r, file, errors);
    read_text(&r, text, len, table, target);
    bh_reader_fini(&r);
    bh_pipeline_free(r.p);
    if (errors->len == before)
        return 0;
    bh_errlist_sort(errors);
    return -(int)bh_err_code(errors->items[before]);
}

void bh_settings_limits(struct bh_reader *r, struct bh_node *n, struct bh_limits *ret)
{
    struct bh_traits traits = {0};
    bh_read_limits(r, n, &traits);
    *ret = traits.said;
}
