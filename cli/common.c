/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the verbs; prints and reads, decides nothing. */
#include "cli/common.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"

/* --- errors --- */

static void print_errors(const struct bh_args *args, const struct bh_errlist *errors)
{
    if (args && bh_args_json(args)) {
        BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
        struct bh_val *list = bh_val_set(v, "errors", bh_val_list());
        for (size_t i = 0; i < errors->len; i++)
            bh_val_add(list, bh_err_to_val(errors->items[i]));
        bh_cli_print_json(v);
        return;
    }
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    for (size_t i = 0; i < errors->len; i++) {
        bh_buf_clear(&text);
        bh_err_format(errors->items[i], &text);
        fputs(bh_err_file(errors->items[i]) ? "" : "bulkhead: ", stderr);
        fputs(text.data, stderr);
    }
}

int bh_cli_exit_of(const struct bh_errlist *errors)
{
    static const int order[] = {3, 6, 5};
    for (size_t k = 0; k < BH_ARRAY_LEN(order); k++) {
        for (size_t i = 0; i < errors->len; i++) {
            if (bh_code_info((int)bh_err_code(errors->items[i]))->exit_status == order[k])
                return order[k];
        }
    }
    return errors->len > 0 ? bh_code_info((int)bh_err_code(errors->items[0]))->exit_status : 0;
}

int bh_cli_fail_list(const struct bh_args *args, struct bh_errlist *errors)
{
    bh_errlist_sort(errors);
    int status = bh_cli_exit_of(errors);
    fflush(stdout);
    print_errors(args, errors);
    bh_errlist_fini(errors);
    return status;
}

int bh_cli_fail(const struct bh_args *args, struct bh_err *err)
{
    struct bh_errlist list = {0};
    bh_errlist_add(&list, err);
    return bh_cli_fail_list(args, &list);
}

/* --- parameters --- */

static void add_param(struct bh_cli_params *params, const char *name, size_t len, const char *value)
{
    struct bh_param_value *p = BH_PUSH(params->items, params->len, params->cap);
    p->name = bh_strndup(name, len);
    p->value = bh_strdup(value);
}

static int param_text(const char *name, const struct bh_val *v, struct bh_buf *out, struct bh_err **err)
{
    switch (bh_val_type(v)) {
    case BH_VAL_STR:
        bh_buf_add(out, bh_val_get_str(v), bh_val_str_len(v));
        return 0;
    case BH_VAL_BOOL:
    case BH_VAL_INT:
    case BH_VAL_NUM:
        bh_json_format(v, out);
        return 0;
    case BH_VAL_NULL:
    case BH_VAL_LIST:
    case BH_VAL_MAP:
        break;
    }
    return bh_err_set(err, BH_E_USAGE, 0, "the value of '%s' in the parameters file is neither text, number nor bool",
                      name);
}

static int read_params_file(const char *path, struct bh_cli_params *ret, struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_VAL struct bh_val *map = NULL;
    int rc = bh_read_file(path, BH_PIPELINE_MAX_BYTES, &text, err);
    if (rc == 0)
        rc = bh_json_parse(text.data, text.len, &map, err);
    if (rc == 0 && bh_val_type(map) != BH_VAL_MAP)
        rc = bh_err_set(err, BH_E_USAGE, 0, "it is no JSON object");
    for (size_t i = 0; rc == 0 && i < bh_val_len(map); i++) {
        BH_CLEANUP_BUF struct bh_buf value = BH_BUF_INIT;
        rc = param_text(bh_val_key_at(map, i), bh_val_at(map, i), &value, err);
        if (rc == 0)
            add_param(ret, bh_val_key_at(map, i), strlen(bh_val_key_at(map, i)), value.data);
    }
    return rc == 0 ? 0 : bh_err_wrap(err, rc, "parameters file '%s'", path);
}

int bh_cli_params_read(const struct bh_args *args, struct bh_cli_params *ret, struct bh_err **err)
{
    const char *file = bh_args_get(args, "params-file");
    int rc = file ? read_params_file(file, ret, err) : 0;
    size_t n = 0;
    BH_CLEANUP_FREE const char **given = bh_args_all(args, "param", &n);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const char *eq = strchr(given[i], '=');
        if (!eq || eq == given[i]) {
            rc = bh_err_set(err, BH_E_USAGE, 0, "'-p %s' is no NAME=VALUE", given[i]);
            bh_err_hint(err, "write for example -p topic=sandboxes");
        } else {
            add_param(ret, given[i], (size_t)(eq - given[i]), eq + 1);
        }
    }
    return rc;
}

void bh_cli_params_free(struct bh_cli_params *params)
{
    for (size_t i = 0; i < params->len; i++) {
        bh_free((char *)(uintptr_t)params->items[i].name);
        bh_free((char *)(uintptr_t)params->items[i].value);
    }
    bh_free(params->items);
    *params = (struct bh_cli_params){0};
}

/* --- documents --- */

static int read_text(const char *file, struct bh_buf *out, struct bh_err **err)
{
    const size_t max = BH_PIPELINE_MAX_BYTES;
    if (bh_streq(file, "-"))
        return bh_read_all(STDIN_FILENO, max, out, err);
    return bh_read_file(file, max, out, err);
}

/* A file that is not there is a slip of the command line; one that is too large is an invalid document. */
static int reading_failed(const char *file, struct bh_err *cause, struct bh_errlist *errors)
{
    if (bh_err_code(cause) == BH_E_TOO_LARGE) {
        bh_err_at(&cause, file, 0, 0, NULL);
        bh_err_hint(&cause, "a pipeline holds at most 4 MiB; move data into sources");
        bh_errlist_add(errors, cause);
        return -BH_E_TOO_LARGE;
    }
    struct bh_err *err = NULL;
    int rc = bh_err_set(&err, BH_E_USAGE, bh_err_errno(cause), "cannot read the pipeline '%s'", file);
    bh_err_hint(&err, "'bulkhead init' writes one to start from");
    bh_err_free(cause);
    bh_errlist_add(errors, err);
    return rc;
}

int bh_cli_document_read(const char *file, struct bh_cli_document *doc, struct bh_errlist *errors)
{
    struct bh_err *err = NULL;
    doc->file = bh_streq(file, "-") ? "./<stdin>" : file;
    bh_buf_init(&doc->text);
    if (read_text(file, &doc->text, &err) != 0)
        return reading_failed(file, err, errors);
    return bh_pipeline_load(doc->file, doc->text.data, doc->text.len, &doc->pipeline, errors);
}

int bh_cli_document_plan(struct bh_cli_document *doc, const struct bh_plan_options *options, struct bh_errlist *errors)
{
    return bh_plan_make(doc->pipeline, options, &doc->plan, errors);
}

void bh_cli_document_fini(struct bh_cli_document *doc)
{
    bh_plan_free(doc->plan);
    bh_pipeline_free(doc->pipeline);
    if (doc->text.data)
        bh_buf_fini(&doc->text);
    *doc = (struct bh_cli_document){0};
}

/* --- runs --- */

int bh_cli_store_open(const struct bh_args *args, struct bh_cli_run *ret, struct bh_err **err)
{
    *ret = (struct bh_cli_run){.home = {.dirfd = -1}};
    int rc = bh_home_open(bh_args_get(args, "home"), false, &ret->home, err);
    if (rc == 0)
        rc = bh_store_open(&ret->home, BH_STORE_READ, &ret->store, err);
    return rc;
}

int bh_cli_run_open(const struct bh_args *args, const char *name, struct bh_cli_run *ret, struct bh_err **err)
{
    int rc = bh_cli_store_open(args, ret, err);
    if (rc == -BH_E_NOT_FOUND) { /* no state at all: say it of the run, which is what was asked for */
        bh_err_free(BH_TAKE(*err));
        return bh_err_set(err, BH_E_NOT_FOUND, 0, "no run '%s'", name);
    }
    if (rc == 0)
        rc = bh_store_resolve(ret->store, name, &ret->id, err);
    if (rc == 0)
        rc = bh_store_get_run(ret->store, ret->id, &ret->row, err);
    return rc;
}

void bh_cli_run_close(struct bh_cli_run *run)
{
    bh_run_row_fini(&run->row);
    bh_free(run->id);
    bh_store_close(run->store);
    bh_home_close(&run->home);
}

/* --- printing --- */

struct bh_table {
    size_t n, n_rows, cap_rows;
    char ***rows; /* the first is the heads */
};

struct bh_table *bh_table_new(const char *const *heads, size_t n)
{
    struct bh_table *t = bh_alloc(sizeof(*t));
    t->n = n;
    bh_table_row(t, heads);
    return t;
}

void bh_table_row(struct bh_table *t, const char *const *cells)
{
    char **row = bh_calloc(t->n, sizeof(*row));
    for (size_t i = 0; i < t->n; i++) {
        struct bh_buf cell = BH_BUF_INIT;
        const char *text = cells[i] && *cells[i] ? cells[i] : "-";
        bh_escape_terminal(&cell, text, strlen(text));
        row[i] = bh_buf_take(&cell);
    }
    *BH_PUSH(t->rows, t->n_rows, t->cap_rows) = row;
}

/* How many columns a text takes: characters, not bytes. */
static size_t text_width(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

void bh_table_free(struct bh_table *t)
{
    for (size_t r = 0; r < t->n_rows; r++) {
        for (size_t i = 0; i < t->n; i++)
            bh_free(t->rows[r][i]);
        bh_free(t->rows[r]);
    }
    bh_free(t->rows);
    bh_free(t);
}

void bh_table_print(struct bh_table *t)
{
    BH_CLEANUP_FREE size_t *widths = bh_calloc(t->n, sizeof(*widths));
    for (size_t r = 0; r < t->n_rows; r++) {
        for (size_t i = 0; i < t->n; i++) {
            size_t w = text_width(t->rows[r][i]);
            widths[i] = w > widths[i] ? w : widths[i];
        }
    }
    for (size_t r = 0; r < t->n_rows; r++) {
        for (size_t i = 0; i < t->n; i++) {
            int pad = i + 1 < t->n ? (int)(widths[i] - text_width(t->rows[r][i])) + 2 : 0;
            printf("%s%*s", t->rows[r][i], pad, "");
        }
        putchar('\n');
    }
    bh_table_free(t);
}

void bh_cli_print_json(const struct bh_val *v)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_json_format(v, &text);
    puts(text.data);
}

void bh_cli_print_escaped(const char *text)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    bh_escape_terminal(&out, text, strlen(text));
    fputs(out.data, stdout);
}

void bh_cli_set_time(struct bh_val *map, const char *key, struct bh_wall t)
{
    char text[BH_WALL_TEXT];
    bh_val_set_str(map, key, t.us ? bh_wall_format(t, text) : NULL);
}

bool bh_cli_may_ask(const struct bh_args *args)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && !bh_args_json(args);
}

bool bh_cli_says_yes(const char *question)
{
    char line[16] = "";
    fprintf(stderr, "%s [y/N] ", question);
    (void)fflush(stderr);
    return fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y');
}

bool bh_cli_colour(int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && !(no && *no) && !bh_streq(term, "dumb");
}
