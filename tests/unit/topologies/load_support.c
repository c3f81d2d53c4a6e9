/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/topologies/load_support.h"

#include "base/buf.h"
#include "base/text.h"

static void print_errors(const struct bh_errlist *errors)
{
    struct bh_buf text = BH_BUF_INIT;
    for (size_t i = 0; i < errors->len; i++) {
        bh_buf_addf(&text, "[%s] ", bh_code_info((int)bh_err_code(errors->items[i]))->text);
        bh_err_format(errors->items[i], &text);
    }
    print_error("%s", text.data);
    bh_buf_fini(&text);
}

struct bh_pipeline *t_load(const char *text)
{
    struct bh_errlist errors = {0};
    struct bh_pipeline *p = NULL;
    int rc = bh_pipeline_load("p.yaml", text, strlen(text), &p, &errors);
    if (rc != 0 || errors.len > 0)
        print_errors(&errors);
    assert_int_equal(rc, 0);
    assert_int_equal(errors.len, 0);
    bh_errlist_fini(&errors);
    return p;
}

static bool says(const struct bh_err *err, const char *part)
{
    const char *hint = bh_err_get_hint(err);
    return strstr(bh_err_message(err), part) || (hint && strstr(hint, part));
}

static bool is_wanted(const struct bh_err *err, const struct t_bad *row)
{
    return bh_err_code(err) == row->code && bh_err_line(err) == row->line && bh_err_column(err) == row->column &&
           bh_streq(bh_err_path(err), row->path) && bh_streq(bh_err_file(err), "p.yaml") && says(err, row->part);
}

static bool is_sorted(const struct bh_errlist *errors)
{
    for (size_t i = 1; i < errors->len; i++) {
        int a = bh_err_line(errors->items[i - 1]), b = bh_err_line(errors->items[i]);
        if (a > b || (a == b && bh_err_column(errors->items[i - 1]) > bh_err_column(errors->items[i])))
            return false;
    }
    return true;
}

static size_t check_row(const struct t_bad *row)
{
    struct bh_errlist errors = {0};
    struct bh_pipeline *p = NULL;
    int rc = bh_pipeline_load("p.yaml", row->text, strlen(row->text), &p, &errors);
    size_t found = 0;
    for (size_t i = 0; i < errors.len; i++)
        found += is_wanted(errors.items[i], row) ? 1 : 0;
    bool good = found == 1 && errors.len == row->others + 1 && !p && is_sorted(&errors) &&
                rc == -(int)bh_err_code(errors.items[0]);
    if (!good) {
        print_error("--- of\n%s\n--- wanted %d:%d %s [%s] '%s' and %zu others; got %d and\n", row->text, row->line,
                    row->column, row->path ? row->path : "-", bh_code_info((int)row->code)->text, row->part,
                    row->others, rc);
        print_errors(&errors);
    }
    bh_errlist_fini(&errors);
    bh_pipeline_free(p);
    return good ? 0 : 1;
}

void t_check_bad(const struct t_bad *rows, size_t n)
{
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong += check_row(&rows[i]);
    assert_int_equal(wrong, 0);
}
