/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the schema test asks of the loader:
 *   document_tool check FILE…   one line of JSON per file: {"file", "errors": [{code, line, column, path, message}],
 * "later": [key]} document_tool json FILE…    one line of JSON per file: the document with its scalars as the loader
 * reads them, or null document_tool tables        one line of JSON: table -> key -> required
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/units.h"
#include "base/val.h"
#include "topologies/load_priv.h"

enum { MAX_FILE = 16 << 20 };

static char *slurp(const char *path, size_t *ret_len)
{
    FILE *f = fopen(path, "rb");
    char *text = malloc(MAX_FILE);
    if (!f || !text) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    *ret_len = fread(text, 1, MAX_FILE, f);
    fclose(f);
    return text;
}

static void print_line(struct bh_val *v)
{
    struct bh_buf line = BH_BUF_INIT;
    bh_json_format(v, &line);
    puts(line.data);
    bh_buf_fini(&line);
    bh_val_free(v);
}

static void check(const char *path)
{
    size_t len;
    char *text = slurp(path, &len);
    struct bh_errlist errors = {0};
    struct bh_pipeline *p = NULL;
    struct bh_val *out = bh_val_map(), *list = bh_val_list(), *later = bh_val_list();
    int rc = bh_pipeline_load(path, text, len, &p, &errors);
    bh_val_set_str(out, "file", path);
    bh_val_set_int(out, "rc", rc);
    for (size_t i = 0; i < errors.len; i++)
        bh_val_add(list, bh_err_to_val(errors.items[i]));
    for (size_t i = 0; p && i < p->n_later; i++)
        bh_val_add(later, bh_val_str(p->later[i].key));
    bh_val_set(out, "errors", list);
    bh_val_set(out, "later", later);
    print_line(out);
    bh_pipeline_free(p);
    bh_errlist_fini(&errors);
    free(text);
}

static struct bh_val *scalar_val(const struct bh_node *n)
{
    const char *text = bh_node_text(n);
    int64_t i = 0;
    double d = 0;
    switch (bh_node_type(n)) {
    case BH_NODE_AS_INT:
        return bh_parse_int(text, &i) == 0 ? bh_val_int(i) : bh_val_str(text);
    case BH_NODE_AS_NUMBER:
        return bh_parse_number(text, &d) == 0 ? bh_val_num(d) : bh_val_str(text);
    case BH_NODE_AS_BOOL:
        return bh_val_bool(strcmp(text, "true") == 0);
    case BH_NODE_AS_NULL:
        return bh_val_null();
    case BH_NODE_AS_TEXT:
        break;
    }
    return bh_val_str(text);
}

static struct bh_val *node_val(const struct bh_node *n)
{
    struct bh_val *v;
    switch (bh_node_kind(n)) {
    case BH_NODE_EMPTY:
        return bh_val_null();
    case BH_NODE_SCALAR:
        return scalar_val(n);
    case BH_NODE_LIST:
        v = bh_val_list();
        for (size_t i = 0; i < bh_node_len(n); i++)
            bh_val_add(v, node_val(bh_node_at(n, i)));
        return v;
    case BH_NODE_MAP:
        v = bh_val_map();
        for (size_t i = 0; i < bh_node_len(n); i++)
            bh_val_set(v, bh_node_key_at(n, i), node_val(bh_node_at(n, i)));
        return v;
    }
    return NULL;
}

static void json(const char *path)
{
    size_t len;
    char *text = slurp(path, &len);
    struct bh_errlist errors = {0};
    struct bh_reader r;
    bh_reader_init(&r, path, &errors);
    bh_load_text(&r, text, len);
    print_line(node_val(r.p->root));
    bh_reader_fini(&r);
    bh_pipeline_free(r.p);
    bh_errlist_fini(&errors);
    free(text);
}

static void tables(void)
{
    struct bh_val *out = bh_val_map();
    for (size_t i = 0; bh_key_tables[i]; i++) {
        const struct bh_key_table *t = bh_key_tables[i];
        struct bh_val *keys = bh_val_set(out, t->name, bh_val_map());
        for (size_t k = 0; k < t->len; k++) {
            unsigned flags = t->keys[k].flags;
            if (!(flags & (t->refuse | BH_KEY_RESERVED)))
                bh_val_set_bool(keys, t->keys[k].name, (flags & BH_KEY_REQUIRED) != 0);
        }
    }
    print_line(out);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "tables") == 0) {
        tables();
        return 0;
    }
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[1], "json") == 0)
            json(argv[i]);
        else
            check(argv[i]);
    }
    return argc > 2 ? 0 : 2;
}
