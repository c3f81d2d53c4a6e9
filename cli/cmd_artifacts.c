/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead artifacts, get, provenance: what a run published. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "artifact-bus/cas.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"

struct artifacts {
    struct bh_artifact_row *rows; /* by name; the plain one before name@1, name@2 … name@10 */
    size_t n;
};

/* Of "name@N" the number, 0: it is a plain name. *ret_len: without it. */
static int64_t number_of(const char *name, size_t *ret_len)
{
    const char *at = strrchr(name, '@');
    int64_t n = 0;
    *ret_len = at ? (size_t)(at - name) : strlen(name);
    return at && bh_parse_int(at + 1, &n) == 0 ? n : at ? INT64_MAX : 0;
}

static int by_name(const void *a, const void *b)
{
    const struct bh_artifact_row *ra = a, *rb = b;
    size_t la, lb;
    int64_t na = number_of(ra->name, &la), nb = number_of(rb->name, &lb);
    int order = memcmp(ra->name, rb->name, la < lb ? la : lb);
    if (order == 0)
        order = (la > lb) - (la < lb);
    if (order == 0)
        order = (na > nb) - (na < nb);
    return order != 0 ? order : strcmp(ra->name, rb->name);
}

static int artifacts_open(const struct bh_args *args, struct bh_cli_run *run, struct artifacts *a, struct bh_err **err)
{
    int rc = bh_cli_run_open(args, args->operands[0], run, err);
    if (rc == 0)
        rc = bh_store_list_artifacts(run->store, run->id, &a->rows, &a->n, err);
    if (rc == 0 && a->n > 0)
        qsort(a->rows, a->n, sizeof(*a->rows), by_name);
    return rc;
}

static void artifacts_close(struct bh_cli_run *run, struct artifacts *a)
{
    bh_artifact_rows_free(a->rows, a->n);
    bh_cli_run_close(run);
}

static int no_artifact(const struct artifacts *a, const struct bh_cli_run *run, const char *name, struct bh_err **err)
{
    BH_CLEANUP_FREE const char **names = bh_calloc(a->n + 1, sizeof(*names));
    for (size_t i = 0; i < a->n; i++)
        names[i] = a->rows[i].name;
    const char *near = bh_nearest(name, names, a->n), *numbered = NULL;
    size_t len = strlen(name);
    for (size_t i = 0; i < a->n && !numbered; i++)
        numbered = bh_starts_with(names[i], name) && names[i][len] == '@' ? names[i] : NULL;
    int rc = bh_err_set(err, BH_E_NOT_FOUND, 0, "run '%s' has published no '%s'", run->id, name);
    if (numbered)
        bh_err_hint(err, "no attempt has the plain name; what each made is '%s' and so on", numbered);
    else if (near)
        bh_err_hint(err, "did you mean '%s'?", near);
    else
        bh_err_hint(err, "'bulkhead artifacts %s' lists what there is", run->id);
    return rc;
}

static int find(const struct artifacts *a, const struct bh_cli_run *run, const char *name,
                const struct bh_artifact_row **ret, struct bh_err **err)
{
    for (size_t i = 0; i < a->n; i++) {
        if (bh_streq(a->rows[i].name, name)) {
            *ret = &a->rows[i];
            return 0;
        }
    }
    return no_artifact(a, run, name, err);
}

/* "tainted", "trusted, private" */
static const char *labels_of(const struct bh_artifact_row *row)
{
    bool tainted = !bh_streq(row->label, "trusted");
    if (!row->private_)
        return row->label;
    return tainted ? "tainted, private" : "trusted, private";
}

/* --- artifacts --- */

/* The attempt that left it, where that is one of several; NULL: it has a plain name. */
static const struct bh_attempt_row *attempt_of(const struct bh_artifact_row *row, const struct bh_map *attempts)
{
    return strchr(row->name, '@') ? bh_map_get(attempts, row->instance) : NULL;
}

static void print_json(const struct artifacts *a, const struct bh_map *attempts)
{
    BH_CLEANUP_VAL struct bh_val *list = bh_val_list();
    for (size_t i = 0; i < a->n; i++) {
        const struct bh_artifact_row *row = &a->rows[i];
        bool source = !*row->agent;
        struct bh_val *v = bh_val_add(list, bh_val_map());
        bh_val_set_str(v, "name", row->name);
        bh_val_set_str(v, "digest", row->digest);
        bh_val_set_int(v, "size", row->size);
        bh_val_set_str(v, "kind", row->kind);
        bh_val_set_str(v, "agent", source ? NULL : row->agent);
        bh_val_set(v, "attempt", source ? bh_val_null() : bh_val_int(row->attempt));
        bh_val_set_str(v, "instance", source ? NULL : row->instance);
        bh_val_set_str(v, "label", row->label);
        bh_val_set_bool(v, "private", row->private_);
        bh_cli_set_time(v, "published", row->published);
        const struct bh_attempt_row *by = attempt_of(row, attempts);
        bh_val_set(v, "passed", by ? bh_val_bool(bh_streq(by->status, "succeeded")) : bh_val_null());
        bh_val_set(v, "selected", by ? bh_val_bool(by->selected) : bh_val_null());
    }
    bh_cli_print_json(list);
}

/* "selected", "failed by check", "passed": what became of the attempt. */
static char *fate_of(const struct bh_attempt_row *by)
{
    if (!by)
        return bh_strdup("");
    if (by->selected)
        return bh_strdup("selected");
    if (by->reason)
        return bh_asprintf("%s by %s", by->status, by->reason);
    return bh_strdup(bh_streq(by->status, "succeeded") ? "passed" : by->status);
}

static void print_text(const struct artifacts *a, const struct bh_map *attempts)
{
    static const char *const heads[] = {"NAME", "SIZE", "AGENT", "LABEL", "DIGEST", "ATTEMPT"};
    bool several = false;
    for (size_t i = 0; i < a->n; i++)
        several = several || attempt_of(&a->rows[i], attempts);
    struct bh_table *table = bh_table_new(heads, BH_ARRAY_LEN(heads) - !several);
    for (size_t i = 0; i < a->n; i++) {
        char size[BH_UNIT_TEXT];
        BH_CLEANUP_FREE char *fate = fate_of(attempt_of(&a->rows[i], attempts));
        BH_CLEANUP_FREE char *digest = bh_strndup(a->rows[i].digest, 19);
        const char *cells[] = {a->rows[i].name,
                               bh_format_size(a->rows[i].size, size),
                               *a->rows[i].agent ? a->rows[i].agent : "(source)",
                               labels_of(&a->rows[i]),
                               digest,
                               fate};
        bh_table_row(table, cells);
    }
    bh_table_print(table);
}

static int artifacts(const struct bh_args *args)
{
    struct bh_cli_run run;
    struct artifacts a = {0};
    struct bh_attempt_row *rows = NULL;
    size_t n = 0;
    struct bh_err *err = NULL;
    BH_CLEANUP_MAP struct bh_map *attempts = bh_map_new(NULL); /* by instance */
    int rc = artifacts_open(args, &run, &a, &err);
    if (rc == 0)
        rc = bh_store_list_attempts(run.store, run.id, &rows, &n, &err);
    for (size_t i = 0; i < n; i++)
        bh_map_put(attempts, rows[i].instance, &rows[i]);
    if (rc == 0 && bh_args_json(args))
        print_json(&a, attempts);
    else if (rc == 0)
        print_text(&a, attempts);
    bh_attempt_rows_free(rows, n);
    artifacts_close(&run, &a);
    return rc == 0 ? 0 : bh_cli_fail(args, err);
}

const struct bh_cmd bh_cmd_artifacts = {
    .name = "artifacts",
    .operands = "RUN",
    .summary = "list what a run published",
    .example = "bulkhead artifacts @latest",
    .min_operands = 1,
    .max_operands = 1,
    .run = artifacts,
};

/* --- get --- */

static int copy_bytes(int from, int to, struct bh_err **err)
{
    char buf[1 << 16];
    for (;;) {
        ssize_t n = read(from, buf, sizeof(buf));
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bh_err_set(err, BH_E_IO, errno, "cannot read the content store");
        if (bh_write_all(to, buf, (size_t)n) != 0)
            return bh_err_set(err, BH_E_IO, errno, "cannot write");
    }
}

/* Writes beside the target and renames, so that a half-written file never has the name; without --force an existing
 * name is never replaced. */
static int copy_out(int from, const char *to, bool force, mode_t mode, struct bh_err **err)
{
    BH_CLEANUP_FREE char *tmp = bh_asprintf("%s.bulkhead-%ld", to, (long)getpid());
    BH_CLEANUP_FD int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot make '%s'", to);
    int rc = copy_bytes(from, fd, err);
    if (rc == 0 && renameat2(AT_FDCWD, tmp, AT_FDCWD, to, force ? 0 : RENAME_NOREPLACE) != 0) {
        bool exists = errno == EEXIST;
        rc = bh_err_set(err, exists ? BH_E_EXISTS : BH_E_IO, exists ? 0 : errno,
                        exists ? "'%s' exists" : "cannot write '%s'", to);
        if (exists)
            bh_err_hint(err, "give another path with --to, or replace it with --force");
    }
    if (rc != 0)
        (void)unlink(tmp);
    return rc;
}

/* The target: --to PATH (a folder: the name goes into it), else the name's last segment in the current folder. */
static char *target_path(const struct bh_args *args, const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *last = slash ? slash + 1 : name;
    const char *to = bh_args_get(args, "to");
    struct stat st;
    if (!to)
        return bh_strdup(last);
    if (stat(to, &st) == 0 && S_ISDIR(st.st_mode))
        return bh_path_join(to, last);
    return bh_strdup(to);
}

/* The folder must be there: making it would turn a slip into a folder. */
static int check_target(const char *to, struct bh_err **err)
{
    struct stat st;
    bool as_folder = bh_ends_with(to, "/"); /* a folder that is there has got the name behind it by now */
    BH_CLEANUP_FREE char *parent = as_folder ? bh_strdup(to) : bh_path_dirname(to);
    if (stat(parent, &st) == 0 && S_ISDIR(st.st_mode) && !as_folder)
        return 0;
    int rc = bh_err_set(err, BH_E_USAGE, 0, "cannot write to '%s': there is no folder '%s'", to, parent);
    bh_err_hint(err, "make the folder first");
    return rc;
}

static void say_copied(const struct bh_args *args, const struct bh_artifact_row *row, const char *to)
{
    if (bh_args_json(args)) {
        BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
        bh_val_set_str(v, "name", row->name);
        bh_val_set_str(v, "to", to);
        bh_val_set_int(v, "size", row->size);
        bh_val_set_str(v, "digest", row->digest);
        bh_val_set_str(v, "label", row->label);
        bh_val_set_bool(v, "private", row->private_);
        bh_cli_print_json(v);
    } else if (!bh_args_has(args, "quiet")) {
        fprintf(stderr, "%s: %s, %lld bytes, %s\n", to, labels_of(row), (long long)row->size, row->digest);
    }
}

static int open_object(const struct bh_cli_run *run, const struct bh_artifact_row *row, int *ret_fd,
                       struct bh_err **err)
{
    BH_CLEANUP_FREE char *dir = bh_home_path(&run->home, "cas");
    struct bh_cas *cas = NULL;
    struct bh_digest digest;
    if (bh_digest_parse(row->digest, &digest) != 0)
        return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "'%s' has an unreadable digest", row->name);
    int rc = bh_cas_open(dir, dir, &cas, err);
    if (rc == 0)
        rc = bh_cas_verify(cas, &digest, err);
    if (rc == 0)
        rc = bh_cas_open_object(cas, &digest, ret_fd, err);
    bh_cas_close(cas);
    return rc;
}

/* A terminal obeys what it is shown. */
static int to_stdout(const struct bh_args *args, const struct bh_cli_run *run, const struct bh_artifact_row *row,
                     int from, struct bh_err **err)
{
    bool trusted = bh_streq(row->label, "trusted");
    if (trusted || !isatty(STDOUT_FILENO) || bh_args_has(args, "content"))
        return fflush(stdout) == 0 ? copy_bytes(from, STDOUT_FILENO, err)
                                   : bh_err_set(err, BH_E_IO, errno, "cannot write");
    int rc = bh_err_set(err, BH_E_USAGE, 0,
                        "'%s' is tainted, and standard output is a terminal, which obeys what it is "
                        "shown",
                        row->name);
    bh_err_hint(err,
                "look at it by 'bulkhead get %s %s --to - | less', copy it into a file with --to PATH, or see its "
                "bytes as they are with --content",
                run->id, row->name);
    return rc;
}

static int get_one(const struct bh_args *args, const struct bh_cli_run *run, const struct artifacts *a,
                   struct bh_err **err)
{
    const struct bh_artifact_row *row = NULL;
    BH_CLEANUP_FD int from = -1;
    int rc = find(a, run, args->operands[1], &row, err);
    if (rc == 0)
        rc = open_object(run, row, &from, err);
    if (rc != 0)
        return rc;
    if (bh_streq(bh_args_get(args, "to"), "-"))
        return to_stdout(args, run, row, from, err);
    BH_CLEANUP_FREE char *to = target_path(args, row->name);
    mode_t mode = bh_args_has(args, "exec") || (row->executable && !bh_streq(row->label, "tainted")) ? 0777 : 0666;
    rc = check_target(to, err);
    if (rc == 0)
        rc = copy_out(from, to, bh_args_has(args, "force"), mode, err);
    if (rc == 0)
        say_copied(args, row, to);
    return rc;
}

static int get(const struct bh_args *args)
{
    struct bh_cli_run run;
    struct artifacts a = {0};
    struct bh_err *err = NULL;
    int rc = artifacts_open(args, &run, &a, &err);
    if (rc == 0)
        rc = get_one(args, &run, &a, &err);
    artifacts_close(&run, &a);
    return rc == 0 ? 0 : bh_cli_fail(args, err);
}

static const struct bh_opt get_opts[] = {
    {"to", 0, BH_OPT_VALUE, "PATH", "where to; a folder, a file, or - for standard output"},
    {"force", 0, BH_OPT_FLAG, NULL, "replace an existing file"},
    {"exec", 0, BH_OPT_FLAG, NULL, "make it executable"},
    {"content", 0, BH_OPT_FLAG, NULL, "bytes of a tainted artifact to a terminal, too"},
};

const struct bh_cmd bh_cmd_get = {
    .name = "get",
    .operands = "RUN NAME",
    .summary = "copy an artifact out of the content store",
    .more =
        "Never replaces a file without --force, and says the artifact's label. The bytes are verified first. "
        "Those of a tainted artifact go to a terminal only with --content. "
        "With -o json: {\"name\",\"to\",\"size\",\"digest\",\"label\",\"private\"}, unless the bytes themselves go to "
        "standard output.",
    .example = "bulkhead get @latest scores.csv --to ./scores.csv",
    .opts = get_opts,
    .n_opts = BH_ARRAY_LEN(get_opts),
    .min_operands = 2,
    .max_operands = 2,
    .run = get,
};

/* --- provenance --- */

static void print_chain(const struct artifacts *a, const char *name, int depth, struct bh_val *seen);

static void print_digest(const struct bh_val *record, const char *key, int depth)
{
    const char *digest = bh_val_str_of(record, key);
    if (digest)
        printf("%*s  %s %.19s\n", depth * 2, "", key, digest);
}

/* Of each word the first line, and whether there are more: of a string command the word is what the document says. */
static void print_command(const struct bh_val *record, int depth)
{
    const struct bh_val *argv = bh_val_get(record, "argv");
    const char *first = bh_val_get_str(bh_val_at(argv, 0));
    size_t n = bh_val_len(argv), from = n == 3 && bh_streq(first, "/bin/sh") ? 2 : 0;
    if (n == 0) {
        print_digest(record, "command", depth);
        return;
    }
    printf("%*s  command", depth * 2, "");
    for (size_t i = from; i < n; i++) {
        const char *word = bh_val_get_str(bh_val_at(argv, i));
        size_t len = strcspn(word, "\n");
        BH_CLEANUP_FREE char *line = bh_strndup(word, len);
        putchar(' ');
        bh_cli_print_escaped(line);
        if (word[len + strspn(word + len, "\n")])
            fputs(" …", stdout);
    }
    printf("  (%.19s)\n", bh_val_str_of(record, "command"));
}

/* By which gates an input came in. */
static void print_passed(const struct bh_val *input, int depth)
{
    const struct bh_val *passed = bh_val_get(input, "passed");
    for (size_t i = 0; i < bh_val_len(passed); i++) {
        const struct bh_val *pass = bh_val_at(passed, i);
        const char *by = bh_val_str_of(pass, "by"), *at = bh_val_str_of(pass, "at"),
                   *reason = bh_val_str_of(pass, "reason");
        BH_CLEANUP_FREE char *line = bh_asprintf(
            "%s came in by gate %s: %s by %s at %s%s%s", bh_val_str_of(input, "name"), bh_val_str_of(pass, "gate"),
            bh_val_str_of(pass, "how"), by ? by : "nobody", at ? at : "?", reason ? ": " : "", reason ? reason : "");
        printf("%*s  ", depth * 2, "");
        bh_cli_print_escaped(line);
        putchar('\n');
    }
}

static void print_record(const struct artifacts *a, const struct bh_artifact_row *row, int depth, struct bh_val *seen)
{
    BH_CLEANUP_VAL struct bh_val *record = NULL;
    if (bh_json_parse(row->provenance, strlen(row->provenance), &record, NULL) != 0)
        return;
    printf("%*s%s  %.19s  %s\n", depth * 2, "", row->name, row->digest, labels_of(row));
    if (!*row->agent) {
        printf("%*s  source ", depth * 2, "");
        bh_cli_print_escaped(bh_val_str_of(record, "source") ? bh_val_str_of(record, "source") : "");
        putchar('\n');
        return;
    }
    printf("%*s  made by %s, attempt %lld (%s) in box %s\n", depth * 2, "", row->agent, (long long)row->attempt,
           row->instance, bh_val_str_of(record, "box"));
    print_command(record, depth);
    print_digest(record, "setup", depth);
    print_digest(record, "box_setup", depth);
    print_digest(record, "prepare", depth);
    print_digest(record, "check", depth);
    print_digest(record, "snapshot", depth);
    print_digest(record, "prompt", depth);
    const struct bh_val *files = bh_val_get(record, "files");
    for (size_t i = 0; i < bh_val_len(files); i++)
        printf("%*s  file %s %.19s\n", depth * 2, "", bh_val_str_of(bh_val_at(files, i), "path"),
               bh_val_str_of(bh_val_at(files, i), "digest"));
    const struct bh_val *inputs = bh_val_get(record, "inputs");
    for (size_t i = 0; i < bh_val_len(inputs); i++) {
        print_passed(bh_val_at(inputs, i), depth);
        print_chain(a, bh_val_str_of(bh_val_at(inputs, i), "name"), depth + 1, seen);
    }
}

static void print_chain(const struct artifacts *a, const char *name, int depth, struct bh_val *seen)
{
    if (!name)
        return;
    if (bh_val_get(seen, name)) {
        printf("%*s%s  (as above)\n", depth * 2, "", name);
        return;
    }
    bh_val_set_bool(seen, name, true);
    for (size_t i = 0; i < a->n; i++) {
        if (bh_streq(a->rows[i].name, name))
            print_record(a, &a->rows[i], depth, seen);
    }
}

/* The record and those of everything it was made from, each once. */
static void collect(const struct artifacts *a, const char *name, struct bh_val *into)
{
    if (!name || bh_val_get(into, name))
        return;
    for (size_t i = 0; i < a->n; i++) {
        struct bh_val *record = NULL;
        if (!bh_streq(a->rows[i].name, name))
            continue;
        if (bh_json_parse(a->rows[i].provenance, strlen(a->rows[i].provenance), &record, NULL) != 0)
            continue;
        bh_val_set(into, name, record);
        const struct bh_val *inputs = bh_val_get(record, "inputs");
        for (size_t k = 0; k < bh_val_len(inputs); k++)
            collect(a, bh_val_str_of(bh_val_at(inputs, k), "name"), into);
    }
}

static int provenance(const struct bh_args *args)
{
    struct bh_cli_run run;
    struct artifacts a = {0};
    struct bh_err *err = NULL;
    const struct bh_artifact_row *row = NULL;
    int rc = artifacts_open(args, &run, &a, &err);
    if (rc == 0)
        rc = find(&a, &run, args->operands[1], &row, &err);
    BH_CLEANUP_VAL struct bh_val *seen = bh_val_map();
    if (rc == 0 && bh_args_json(args)) {
        collect(&a, row->name, seen);
        BH_CLEANUP_VAL struct bh_val *list = bh_val_list();
        for (size_t i = 0; i < bh_val_len(seen); i++)
            bh_val_add(list, bh_val_copy(bh_val_at(seen, i)));
        bh_cli_print_json(list);
    } else if (rc == 0) {
        print_chain(&a, row->name, 0, seen);
    }
    artifacts_close(&run, &a);
    return rc == 0 ? 0 : bh_cli_fail(args, err);
}

const struct bh_cmd bh_cmd_provenance = {
    .name = "provenance",
    .operands = "RUN NAME",
    .summary = "where an artifact came from, back to the inputs",
    .more = "With -o json: a list, the artifact's own record first, then those of everything it was made from.",
    .example = "bulkhead provenance @latest scores.csv",
    .min_operands = 2,
    .max_operands = 2,
    .run = provenance,
};
