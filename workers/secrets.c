/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the finding of values for executions (policies/secret.h does the finding) and what is made of them. A value is
 * in memory of its own kind only, but for the mask's copy. Must never let a value out that the audit log does not know
 * of.
 */
#include "workers/secrets.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "base/home.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "policies/audit.h"
#include "policies/secret.h"
#include "workers/helper.h"
#include "workers/mask.h"

enum { DESK_THREADS = 4 };

struct bh_secret_desk {
    struct event_base *loop;
    char *home;
    struct bh_helper *threads[DESK_THREADS];
    size_t next;
};

struct entry {
    char *text; /* "NAME=value", as bh_secret_alloc has it */
    size_t size;
};

struct bh_secrets {
    struct entry *entries;
    size_t n;
    struct bh_mask *mask;
};

struct bh_secrets_call {
    struct bh_job *job;
    struct bh_secret_desk *desk;
    struct bh_arena *arena; /* of the references and the tags */
    struct bh_lease_secret *refs;
    size_t n_refs;
    struct bh_val *tags; /* whose they are, for the audit log */
    int give_up_fd;
    bh_secrets_done_fn fn;
    void *arg;
    struct bh_secrets *found;
    struct bh_err *err;
    int code;
};

/* --- the desk --- */

struct bh_secret_desk *bh_secret_desk_new(struct event_base *loop, const char *home)
{
    struct bh_secret_desk *d = bh_alloc(sizeof(*d));
    d->loop = loop;
    d->home = bh_strdup(home);
    return d;
}

void bh_secret_desk_free(struct bh_secret_desk *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < DESK_THREADS; i++) {
        if (d->threads[i])
            bh_helper_free(d->threads[i]);
    }
    bh_free(d->home);
    bh_free(d);
}

/*
 * A process that holds values dumps no core: with 1 the kernel neither writes a file nor runs the program behind a
 * core_pattern that is a pipe. The hard limit stays, for what the launcher sets for itself.
 */
static void dump_nothing(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur > 1) {
        limit.rlim_cur = 1;
        (void)setrlimit(RLIMIT_CORE, &limit);
    }
}

static int next_thread(struct bh_secret_desk *d, struct bh_helper **ret, struct bh_err **err)
{
    size_t at = d->next++ % DESK_THREADS;
    int rc = d->threads[at] ? 0 : bh_helper_new(d->loop, &d->threads[at], err);
    dump_nothing();
    *ret = d->threads[at];
    return rc;
}

/* --- values --- */

void bh_secrets_free(struct bh_secrets *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        bh_secret_free(s->entries[i].text, s->entries[i].size);
    bh_free(s->entries);
    bh_mask_unref(s->mask);
    bh_free(s);
}

struct bh_mask *bh_secrets_mask(const struct bh_secrets *s)
{
    return bh_mask_ref(s->mask);
}

static bool is_replaced(const struct bh_secrets *s, const char *text)
{
    for (size_t i = 0; i < s->n; i++) {
        size_t name = strcspn(s->entries[i].text, "=") + 1;
        if (strncmp(s->entries[i].text, text, name) == 0)
            return true;
    }
    return false;
}

const char *const *bh_secrets_env(const struct bh_secrets *s, struct bh_arena *arena, const char *const *env)
{
    size_t n = 0, len = 0;
    while (env[n])
        n++;
    const char **list = bh_arena_alloc(arena, (n + s->n + 1) * sizeof(*list));
    for (size_t i = 0; i < n; i++) {
        if (!is_replaced(s, env[i]))
            list[len++] = env[i];
    }
    for (size_t i = 0; i < s->n; i++)
        list[len++] = s->entries[i].text;
    return list;
}

static int add_value(struct bh_secrets *s, const struct bh_lease_secret *ref, const struct bh_secret *value,
                     struct bh_err **err)
{
    struct entry *e = &s->entries[s->n];
    e->size = strlen(ref->variable) + 1 + value->len + 1;
    e->text = bh_secret_alloc(e->size);
    if (!e->text)
        return bh_err_set(err, BH_E_NOMEM, errno, "no memory for the secret '%s'", ref->name);
    (void)snprintf(e->text, e->size, "%s=%s", ref->variable, value->value);
    s->n++;
    bh_mask_add(s->mask, ref->name, value->value, value->len);
    return 0;
}

/* --- on a thread --- */

static int note(const struct bh_secrets_call *c, struct bh_err **err)
{
    BH_CLEANUP(bh_home_close) struct bh_home home = {.dirfd = -1};
    struct bh_audit_entry *entries = bh_calloc(c->n_refs + 1, sizeof(*entries));
    int rc = bh_home_open(c->desk->home, true, &home, err);
    for (size_t i = 0; i < c->n_refs; i++) {
        const struct bh_lease_secret *ref = &c->refs[i];
        struct bh_val *fields = bh_val_copy(c->tags);
        bh_val_set_str(fields, "secret", ref->name);
        bh_val_set_str(fields, "from", ref->env ? "env" : ref->file ? "file" : "command");
        bh_val_set_str(fields, "variable", ref->variable);
        entries[i] = (struct bh_audit_entry){BH_AUDIT_SECRET, fields};
    }
    if (rc == 0)
        rc = bh_audit_add_all(&home, entries, c->n_refs, err);
    bh_audit_entries_free(entries, c->n_refs);
    return rc;
}

static int find_one(struct bh_secrets_call *c, const struct bh_lease_secret *ref, struct bh_secrets *into)
{
    BH_CLEANUP_SECRET struct bh_secret value = {0};
    const struct bh_secret_ref where = {
        .name = ref->name,
        .env = ref->env,
        .file = ref->file,
        .command = (const char *const *)ref->command,
        .n_command = ref->n_command,
        .give_up_fd = c->give_up_fd,
    };
    int rc = bh_secret_resolve(&where, &value, &c->err);
    return rc == 0 ? add_value(into, ref, &value, &c->err) : rc;
}

static void find_all(void *data)
{
    struct bh_secrets_call *c = data;
    struct bh_secrets *s = bh_alloc(sizeof(*s));
    *s = (struct bh_secrets){.entries = bh_calloc(c->n_refs + 1, sizeof(*s->entries)), .mask = bh_mask_new()};
    for (size_t i = 0; i < c->n_refs && c->code == 0; i++)
        c->code = find_one(c, &c->refs[i], s);
    if (c->code == 0)
        c->code = note(c, &c->err);
    if (c->code == 0)
        c->found = s;
    else
        bh_secrets_free(s);
}

/* --- on the loop --- */

static void give(void *owner, void *data)
{
    struct bh_secrets_call *c = owner;
    (void)data;
    c->job = NULL;
    c->fn(c->arg, BH_TAKE(c->found), c->code, c->err);
}

static void dispose(void *data)
{
    struct bh_secrets_call *c = data;
    bh_secrets_free(c->found);
    bh_err_free(c->err);
    bh_val_free(c->tags);
    bh_arena_free(c->arena);
    bh_close(c->give_up_fd);
    bh_free(c);
}

static struct bh_val *tags_of(const struct bh_lease *lease)
{
    struct bh_val *tags = bh_val_map();
    bh_val_set_str(tags, "run", lease->run.s);
    bh_val_set_str(tags, "agent", lease->agent);
    bh_val_set_int(tags, "attempt", lease->attempt);
    bh_val_set_int(tags, "try", lease->try_);
    bh_val_set_str(tags, "instance", lease->instance.s);
    bh_val_set_str(tags, "box", lease->box.id);
    return tags;
}

static void copy_refs(struct bh_secrets_call *c, const struct bh_lease *lease)
{
    c->arena = bh_arena_new();
    c->n_refs = lease->n_secrets;
    c->refs = bh_arena_alloc(c->arena, (c->n_refs + 1) * sizeof(*c->refs));
    for (size_t i = 0; i < c->n_refs; i++) {
        const struct bh_lease_secret *from = &lease->secrets[i];
        struct bh_lease_secret *to = &c->refs[i];
        *to = (struct bh_lease_secret){
            .variable = bh_arena_strdup(c->arena, from->variable),
            .name = bh_arena_strdup(c->arena, from->name),
            .env = bh_arena_strdup(c->arena, from->env),
            .file = bh_arena_strdup(c->arena, from->file),
            .command = bh_arena_alloc(c->arena, (from->n_command + 1) * sizeof(char *)),
            .n_command = from->n_command,
        };
        for (size_t k = 0; k < from->n_command; k++)
            to->command[k] = bh_arena_strdup(c->arena, from->command[k]);
    }
}

int bh_secrets_find(struct bh_secret_desk *d, const struct bh_lease *lease, bh_secrets_done_fn fn, void *arg,
                    struct bh_secrets_call **ret, struct bh_err **err)
{
    static const struct bh_job_ops ops = {find_all, give, dispose};
    if (lease->box.tainted)
        return bh_err_set(err, BH_E_POLICY, 0, "the box of agent '%s' is tainted, and is given no secret",
                          lease->agent);
    struct bh_helper *thread = NULL;
    int rc = next_thread(d, &thread, err);
    if (rc != 0)
        return rc;
    struct bh_secrets_call *c = bh_alloc(sizeof(*c));
    *c = (struct bh_secrets_call){.desk = d, .fn = fn, .arg = arg, .tags = tags_of(lease)};
    copy_refs(c, lease);
    c->give_up_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->job = bh_helper_submit(thread, &ops, c, c);
    *ret = c;
    return 0;
}

void bh_secrets_give_up(struct bh_secrets_call *call)
{
    if (!call || !call->job)
        return;
    if (call->give_up_fd >= 0)
        (void)eventfd_write(call->give_up_fd, 1);
    bh_job_forget(BH_TAKE(call->job));
}
