/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the submitter's disk, once, beneath the folder of the document: every path is opened by bh_open_beneath, so
 * that a link in that folder cannot lead out of it. Paths that the person gives on the command line are hers and are
 * opened as they are.
 */
#include "scheduler/dispatch/submission.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "scheduler/run_local.h"

struct reader {
    const struct bh_plan *plan;
    struct bh_cas *cas; /* NULL: only look */
    bool hash;          /* without a cas: hash all the same */
    bool complete;      /* every source must be given */
    struct bh_errlist *errors;
    int folder;
    char *folder_path;
    struct bh_val *files, *prompts, *sources;
    struct bh_val *since; /* NULL: nobody asks */
    const char *entry;    /* of `files`: the one that is being read */
    int code;             /* of the first error */
};

static void complain(struct reader *r, struct bh_err *err, struct bh_pos pos, const char *path)
{
    bh_err_at(&err, r->plan->pipeline->file, pos.line, pos.column, path);
    if (r->code == 0)
        r->code = -(int)bh_err_code(err);
    bh_errlist_add(r->errors, err);
}

/* Words what kept a path of the document from being opened. */
static void complain_open(struct reader *r, int error, const char *what, const char *path, struct bh_pos pos,
                          const char *doc_path)
{
    struct bh_err *err = NULL;
    (void)bh_err_set(&err, BH_E_UNDEFINED, error, "cannot read %s '%s'", what, path);
    if (error == ELOOP)
        bh_err_hint(&err, "a link stands in the way; name the file itself, or give it with --source");
    else
        bh_err_hint(&err, "paths are taken from the folder of the pipeline, '%s'", r->folder_path);
    complain(r, err, pos, doc_path);
}

static struct bh_val *object_to_val(const char *path, const struct bh_object *object)
{
    char digest[BH_DIGEST_TEXT];
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "path", path);
    bh_val_set_str(v, "digest", bh_digest_format(&object->digest, digest));
    bh_val_set_int(v, "size", object->size);
    bh_val_set_bool(v, "executable", object->executable);
    return v;
}

bool bh_submission_object(const struct bh_val *entry, struct bh_object *ret)
{
    const char *digest = bh_val_str_of(entry, "digest");
    if (!digest || bh_digest_parse(digest, &ret->digest) != 0)
        return false;
    ret->size = bh_val_int_of(entry, "size");
    ret->executable = bh_val_bool_of(entry, "executable");
    return ret->size >= 0;
}

/* When what goes by this name was touched last: of a folder, any of its files. ctime, which nobody can set back. */
static void note_since(struct reader *r, const char *name, const struct stat *st)
{
    int64_t us = (int64_t)st->st_ctim.tv_sec * 1000000 + st->st_ctim.tv_nsec / 1000;
    if (r->since && us > bh_val_int_of(r->since, name))
        bh_val_set_int(r->since, name, us);
}

/* Where nothing is stored or hashed, *ret stays as it is. */
static int take_bytes(struct reader *r, int fd, bool executable, struct bh_object *ret, struct bh_err **err)
{
    if (r->cas)
        return bh_cas_put_fd(r->cas, fd, executable, -1, ret, err);
    ret->executable = executable;
    return r->hash ? bh_digest_fd(fd, &ret->digest, &ret->size, err) : 0;
}

/* Stores one regular file and adds its entry to `list`. `fd` is borrowed. */
static int store_file(struct reader *r, int fd, const struct stat *st, const char *path, struct bh_val *list,
                      struct bh_err **err)
{
    struct bh_object object = {0};
    note_since(r, r->entry, st);
    int rc = take_bytes(r, fd, (st->st_mode & 0111) != 0, &object, err);
    if (rc == 0 && (r->cas || r->hash))
        bh_val_add(list, object_to_val(path, &object));
    return rc;
}

static int store_dir(struct reader *r, int dirfd, const char *prefix, struct bh_val *list, size_t *count,
                     struct bh_err **err);

static int store_entry(struct reader *r, int dirfd, const char *name, const char *path, struct bh_val *list,
                       size_t *count, struct bh_err **err)
{
    if (++*count > BH_SUBMISSION_MAX_FILES) {
        int rc = bh_err_set(err, BH_E_TOO_LARGE, 0, "the folder holds more than %d entries", BH_SUBMISSION_MAX_FILES);
        bh_err_hint(err, "name the files that the agent needs, or give the folder as a source");
        return rc;
    }
    BH_CLEANUP_FD int fd = bh_open_beneath(dirfd, name, O_RDONLY | O_NONBLOCK, 0);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return bh_err_set(err, BH_E_UNDEFINED, errno, "cannot read '%s'", path);
    if (S_ISDIR(st.st_mode))
        return store_dir(r, fd, path, list, count, err);
    if (!S_ISREG(st.st_mode))
        return bh_err_set(err, BH_E_UNDEFINED, 0, "'%s' is neither a file nor a folder", path);
    return store_file(r, fd, &st, path, list, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bh_free(names[i]);
    bh_free(names);
}

/* The names of a folder, sorted, so that two submissions of one folder are the same. */
static int list_dir(int dirfd, char ***ret, size_t *ret_n, struct bh_err **err)
{
    DIR *dir = bh_dir_stream(openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir)
        return bh_err_set(err, BH_E_IO, errno, "cannot list the folder");
    char **names = NULL;
    size_t n = 0, cap = 0;
    for (struct dirent *e; n <= BH_SUBMISSION_MAX_FILES && (e = readdir(dir)) != NULL;) {
        if (!bh_streq(e->d_name, ".") && !bh_streq(e->d_name, ".."))
            *BH_PUSH(names, n, cap) = bh_strdup(e->d_name);
    }
    closedir(dir);
    if (n > 0)
        qsort(names, n, sizeof(*names), by_name);
    *ret = names;
    *ret_n = n;
    return 0;
}

static int store_dir(struct reader *r, int dirfd, const char *prefix, struct bh_val *list, size_t *count,
                     struct bh_err **err)
{
    char **names = NULL;
    size_t n = 0;
    int rc = list_dir(dirfd, &names, &n, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        BH_CLEANUP_FREE char *path = *prefix ? bh_asprintf("%s/%s", prefix, names[i]) : bh_strdup(names[i]);
        rc = store_entry(r, dirfd, names[i], path, list, count, err);
    }
    free_names(names, n);
    return rc;
}

/* One leading "./" is how people write it; what is left must be clean. */
static const char *without_dot(const char *path)
{
    while (bh_starts_with(path, "./") && path[2] != '\0')
        path += 2;
    return path;
}

static int open_named(const struct reader *r, const char *path, struct stat *st)
{
    int fd = bh_open_beneath(r->folder, without_dot(path), O_RDONLY | O_NONBLOCK, 0);
    if (fd >= 0 && fstat(fd, st) != 0) {
        bh_close(fd);
        return -1;
    }
    return fd;
}

/* `owner` is the document path of the agent or box whose `files` it is. */
static void read_files_entry(struct reader *r, const struct bh_pair *pair, const char *owner)
{
    const char *path = pair->value.s;
    if (bh_val_get(r->files, path))
        return;
    struct bh_val *list = bh_val_set(r->files, path, bh_val_list());
    BH_CLEANUP_FREE char *place = bh_asprintf("%s.files.%s", owner, pair->name.s);
    struct stat st;
    BH_CLEANUP_FD int fd = open_named(r, path, &st);
    if (fd < 0) {
        complain_open(r, errno, "the file", path, pair->value.pos, place);
        return;
    }
    struct bh_err *err = NULL;
    size_t count = 0;
    int rc;
    r->entry = path;
    if (S_ISDIR(st.st_mode))
        rc = store_dir(r, fd, "", list, &count, &err);
    else if (S_ISREG(st.st_mode))
        rc = store_file(r, fd, &st, "", list, &err);
    else
        rc = bh_err_set(&err, BH_E_UNDEFINED, 0, "it is neither a file nor a folder");
    if (rc != 0) {
        (void)bh_err_wrap(&err, rc, "cannot take '%s'", path);
        complain(r, err, pair->value.pos, place);
    }
}

static void read_prompt(struct reader *r, const struct bh_plan_agent *agent)
{
    const char *path = agent->prompt_file;
    if (!path || bh_val_get(r->prompts, path))
        return;
    struct bh_pos pos = agent->doc->prompt_file.pos;
    BH_CLEANUP_FREE char *place = bh_asprintf("%s.prompt", agent->doc->path);
    struct stat st;
    BH_CLEANUP_FD int fd = open_named(r, path, &st);
    if (fd < 0) {
        complain_open(r, errno, "the prompt", path, pos, place);
        bh_val_set(r->prompts, path, bh_val_str(""));
        return;
    }
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    struct bh_err *err = NULL;
    note_since(r, path, &st);
    int rc = bh_read_all(fd, BH_SUBMISSION_MAX_PROMPT, &text, &err);
    if (rc == 0 && bh_utf8_check(text.data, text.len) != text.len)
        rc = bh_err_set(&err, BH_E_ENCODING, 0, "it is not UTF-8 text");
    if (rc != 0) {
        (void)bh_err_wrap(&err, rc, "cannot take the prompt '%s'", path);
        complain(r, err, pos, place);
    }
    bh_val_set(r->prompts, path, bh_val_strn(text.data, rc == 0 ? text.len : 0));
}

static void complain_source(struct reader *r, struct bh_err *err, const struct bh_source *source)
{
    BH_CLEANUP_FREE char *place = bh_asprintf("sources.%s", source->name.s);
    complain(r, err, source->pos, place);
}

static void store_source(struct reader *r, const struct bh_source *source, int fd, const char *path)
{
    struct stat st;
    struct bh_err *err = NULL;
    struct bh_object object = {0};
    int rc = fstat(fd, &st) != 0 ? bh_err_set(&err, BH_E_IO, errno, "cannot look at it") : 0;
    if (rc == 0 && !S_ISREG(st.st_mode)) {
        rc = bh_err_set(&err, S_ISDIR(st.st_mode) ? BH_E_NOT_SUPPORTED : BH_E_UNDEFINED, 0, "it is %s",
                        S_ISDIR(st.st_mode) ? "a folder, and folders as sources are not supported yet"
                                            : "no regular file");
    }
    if (rc == 0)
        rc = take_bytes(r, fd, false, &object, &err);
    if (rc != 0) {
        (void)bh_err_wrap(&err, rc, "cannot take the source '%s' from '%s'", source->name.s, path);
        complain_source(r, err, source);
        return;
    }
    note_since(r, source->name.s, &st);
    bh_val_set(r->sources, source->name.s, object_to_val(path, &object));
}

static const char *given_source(const struct bh_run_source *sources, size_t n, const char *name)
{
    const char *path = NULL;
    for (size_t i = 0; i < n; i++) {
        if (bh_streq(sources[i].name, name))
            path = sources[i].path;
    }
    return path;
}

static void read_source(struct reader *r, const struct bh_source *source, const char *given)
{
    if (given) {
        BH_CLEANUP_FD int fd = open(given, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) {
            struct bh_err *err = NULL;
            (void)bh_err_set(&err, BH_E_USAGE, errno, "cannot read '%s', given for the source '%s'", given,
                             source->name.s);
            bh_err_hint(&err, "--source %s=PATH takes a file that you can read", source->name.s);
            complain(r, err, (struct bh_pos){0}, NULL);
            return;
        }
        store_source(r, source, fd, given);
    } else if (source->file.s) {
        struct stat st;
        BH_CLEANUP_FREE char *place = bh_asprintf("sources.%s.file", source->name.s);
        BH_CLEANUP_FD int fd = open_named(r, source->file.s, &st);
        if (fd < 0)
            complain_open(r, errno, "the source", source->file.s, source->file.pos, place);
        else
            store_source(r, source, fd, source->file.s);
    } else if (!source->dir.s && r->complete) {
        struct bh_err *err = NULL;
        (void)bh_err_set(&err, BH_E_USAGE, 0, "the source '%s' was not given", source->name.s);
        bh_err_hint(&err, "add --source %s=PATH", source->name.s);
        complain_source(r, err, source);
    }
}

static void check_given_sources(struct reader *r, const struct bh_run_source *sources, size_t n)
{
    const struct bh_pipeline *p = r->plan->pipeline;
    BH_CLEANUP_FREE const char **names = bh_calloc(p->n_sources + 1, sizeof(*names));
    for (size_t i = 0; i < p->n_sources; i++)
        names[i] = p->sources[i].name.s;
    for (size_t i = 0; i < n; i++) {
        bool known = false;
        for (size_t k = 0; k < p->n_sources; k++)
            known = known || bh_streq(names[k], sources[i].name);
        if (known)
            continue;
        struct bh_err *err = NULL;
        const char *near = bh_nearest(sources[i].name, names, p->n_sources);
        (void)bh_err_set(&err, BH_E_USAGE, 0, "the pipeline has no source '%s'", sources[i].name);
        if (near)
            bh_err_hint(&err, "did you mean '%s'?", near);
        complain(r, err, (struct bh_pos){0}, NULL);
    }
}

static void read_everything(struct reader *r, const struct bh_run_source *sources, size_t n_sources)
{
    const struct bh_pipeline *p = r->plan->pipeline;
    for (size_t i = 0; i < r->plan->n_agents; i++) {
        const struct bh_plan_agent *agent = &r->plan->agents[i];
        for (size_t k = 0; k < agent->n_files; k++)
            read_files_entry(r, &agent->files[k], agent->doc->path);
        BH_CLEANUP_FREE char *check = bh_asprintf("%s.check", agent->doc->path);
        for (size_t k = 0; k < agent->n_check_files; k++)
            read_files_entry(r, &agent->check_files[k], check);
        read_prompt(r, agent);
    }
    for (size_t i = 0; i < p->n_boxes; i++) {
        BH_CLEANUP_FREE char *owner = bh_asprintf("boxes.%s", p->boxes[i].name.s);
        for (size_t k = 0; k < p->boxes[i].files.len; k++)
            read_files_entry(r, &p->boxes[i].files.items[k], owner);
    }
    check_given_sources(r, sources, n_sources);
    for (size_t i = 0; i < p->n_sources; i++)
        read_source(r, &p->sources[i], given_source(sources, n_sources, p->sources[i].name.s));
}

int bh_submission_make(const struct bh_plan *plan, const char *file, const struct bh_run_source *sources,
                       size_t n_sources, bool complete, struct bh_cas *cas, struct bh_val **ret,
                       struct bh_errlist *errors)
{
    BH_CLEANUP_FREE char *folder = bh_path_dirname(file);
    BH_CLEANUP_FD int dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct reader r = {
        .plan = plan, .cas = cas, .complete = complete, .errors = errors, .folder = dirfd, .folder_path = folder};
    r.hash = !cas && ret;
    if (dirfd < 0) {
        struct bh_err *err = NULL;
        int rc = bh_err_set(&err, BH_E_IO, errno, "cannot open the folder '%s' of the pipeline", folder);
        bh_errlist_add(errors, err);
        return rc;
    }
    BH_CLEANUP_VAL struct bh_val *submission = bh_val_map();
    r.files = bh_val_set(submission, "files", bh_val_map());
    r.prompts = bh_val_set(submission, "prompts", bh_val_map());
    r.sources = bh_val_set(submission, "sources", bh_val_map());
    r.since = bh_val_set(submission, "since", bh_val_map());
    read_everything(&r, sources, n_sources);
    if (r.code == 0 && ret)
        *ret = BH_TAKE(submission);
    return r.code;
}

/* Marks the agent and everything that it waits for; a stack, for chains may be long. */
static void want(const struct bh_plan *plan, size_t agent, bool *wanted)
{
    BH_CLEANUP_FREE size_t *stack = bh_calloc(plan->n_agents + 1, sizeof(*stack));
    size_t top = 0;
    if (!wanted[agent])
        stack[top++] = agent;
    wanted[agent] = true;
    while (top > 0) {
        const struct bh_plan_agent *a = &plan->agents[stack[--top]];
        for (size_t i = 0; i < a->n_after; i++) {
            size_t other = a->after[i].agent;
            if (!wanted[other])
                stack[top++] = other;
            wanted[other] = true;
        }
    }
}

static bool named(const struct bh_val *names, const char *name)
{
    for (size_t i = 0; i < bh_val_len(names); i++) {
        if (bh_streq(bh_val_get_str(bh_val_at(names, i)), name))
            return true;
    }
    return false;
}

void bh_submission_wanted(const struct bh_plan *plan, const struct bh_val *submission, bool *wanted)
{
    const struct bh_val *only = bh_val_get(bh_val_get(submission, "options"), "only");
    for (size_t i = 0; i < plan->n_agents; i++) {
        if (bh_val_len(only) == 0)
            wanted[i] = true;
        else if (named(only, plan->agents[i].name))
            want(plan, i, wanted);
    }
}

/* Adds the keys whose values differ. */
static void compare(const struct bh_val *was, const struct bh_val *is, struct bh_val *changed)
{
    for (size_t i = 0; i < bh_val_len(was); i++) {
        const char *name = bh_val_key_at(was, i);
        if (!bh_val_equal(bh_val_at(was, i), bh_val_get(is, name)))
            bh_val_add(changed, bh_val_str(name));
    }
}

/* Sources by the path in the document; those that the command line gave lie where the document does not say. */
static void compare_sources(const struct bh_plan *plan, const struct bh_val *was, const struct bh_val *is,
                            struct bh_val *changed)
{
    for (size_t i = 0; i < plan->pipeline->n_sources; i++) {
        const struct bh_source *source = &plan->pipeline->sources[i];
        const struct bh_val *old = bh_val_get(was, source->name.s);
        if (!source->file.s || !bh_streq(bh_val_str_of(old, "path"), source->file.s))
            continue;
        if (!bh_val_equal(old, bh_val_get(is, source->name.s)))
            bh_val_add(changed, bh_val_str(source->file.s));
    }
}

struct bh_val *bh_submission_changed(const struct bh_plan *plan, const char *file, const struct bh_val *submission)
{
    struct bh_val *changed = bh_val_list();
    BH_CLEANUP_FREE char *folder = bh_path_dirname(file);
    BH_CLEANUP_FD int dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct bh_errlist ignored = {0}; /* what cannot be read is missing from what is read, and so has changed */
    BH_CLEANUP_VAL struct bh_val *now = bh_val_map();
    struct reader r = {.plan = plan, .hash = true, .errors = &ignored, .folder = dirfd, .folder_path = folder};
    if (dirfd < 0)
        return changed;
    r.files = bh_val_set(now, "files", bh_val_map());
    r.prompts = bh_val_set(now, "prompts", bh_val_map());
    r.sources = bh_val_set(now, "sources", bh_val_map());
    read_everything(&r, NULL, 0);
    compare(bh_val_get(submission, "files"), r.files, changed);
    compare(bh_val_get(submission, "prompts"), r.prompts, changed);
    compare_sources(plan, bh_val_get(submission, "sources"), r.sources, changed);
    bh_errlist_fini(&ignored);
    return changed;
}

const struct bh_val *bh_submission_files(const struct bh_val *submission, const char *path)
{
    return bh_val_get(bh_val_get(submission, "files"), path);
}

const char *bh_submission_prompt(const struct bh_val *submission, const char *path)
{
    return bh_val_str_of(bh_val_get(submission, "prompts"), path);
}

const struct bh_val *bh_submission_source(const struct bh_val *submission, const char *name)
{
    return bh_val_get(bh_val_get(submission, "sources"), name);
}
