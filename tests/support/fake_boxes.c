/* SPDX-License-Identifier: Apache-2.0 */
/* The fake backend (fake_boxes.h). Every answer is an object in one list; the loop gives them in order. */
#include "tests/support/fake_boxes.h"

#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"

struct bh_exec {
    struct bh_box_head head;
    struct fake_box *box;
    struct bh_exec *next;
    bh_exec_done_fn fn;
    void *arg;
    bool hangs, stubborn, graceful;
    char **env;
    char *inputs, *prompt, *params, *needs;
    int in, out, err;
    char hit[8]; /* the limit that was hit, "": none */
};

struct fake_box {
    struct bh_box_head head;
    struct fake_box *next;
    char *key, *dir; /* run_dir/boxes/KEY */
    char *run_dir;
    struct bh_exec *execs;
    void (*on_lost)(void *arg);
    void *lost_arg;
    bool alive, lost;
};

enum answer_kind { CREATED, EXEC_ENDED, DONE, OPENED, LOST };
struct fake_answer {
    struct fake_answer *next;
    enum answer_kind kind;
    const char *call; /* "create" … */
    struct fake_box *box;
    struct bh_exec *exec;
    struct bh_exec_result result;
    int code, fd, error;
    bool ends_box;
    union {
        bh_box_created_fn created;
        bh_box_done_fn done;
        bh_box_opened_fn opened;
    } fn;
    void *arg;
    char *step;
};

static struct fake_boxes *fakes(struct bh_boxes *b)
{
    return (struct fake_boxes *)(void *)b;
}

static struct fake_box *box_of(struct bh_box *box)
{
    return (struct fake_box *)(void *)box;
}

static struct fake_boxes *of_box(struct fake_box *box)
{
    return fakes(box->head.boxes);
}

static struct fake_answer *queue(struct fake_boxes *f, enum answer_kind kind, const char *call, struct fake_box *box)
{
    struct fake_answer *a = bh_alloc(sizeof(*a));
    struct fake_answer **at = &f->answers;
    a->kind = kind;
    a->call = call;
    a->box = box;
    a->fd = -1;
    while (*at)
        at = &(*at)->next;
    *at = a;
    event_active(f->later, EV_TIMEOUT, 0);
    return a;
}

/* --- execs --- */

static void free_exec(struct bh_exec *e)
{
    for (struct bh_exec **at = &e->box->execs; *at; at = &(*at)->next) {
        if (*at == e) {
            *at = e->next;
            break;
        }
    }
    for (char **v = e->env; *v; v++)
        bh_free(*v);
    bh_free(e->env);
    bh_free(e->inputs);
    bh_free(e->prompt);
    bh_free(e->params);
    bh_free(e->needs);
    bh_close(e->in);
    bh_close(e->out);
    bh_close(e->err);
    bh_free(e);
}

static void end_exec(struct bh_exec *e, enum bh_exec_end end, int status, const char *step)
{
    struct fake_answer *a = queue(of_box(e->box), EXEC_ENDED, "exec", e->box);
    a->exec = e;
    a->step = step ? bh_strdup(step) : NULL;
    a->result = (struct bh_exec_result){.end = end, .status = status, .cpu_ms = 7, .max_rss_bytes = 4096};
    a->result.oom = bh_streq(e->hit, "oom");
    a->result.pids = bh_streq(e->hit, "pids");
    a->result.disk_full = bh_streq(e->hit, "disk");
    e->hangs = false;
}

static char *in_box(const struct bh_exec *e, const char *path)
{
    const struct {
        const char *name, *delivered;
    } own[] = {{"prompt.md", e->prompt}, {"params.json", e->params}, {"needs.json", e->needs}};
    for (size_t i = 0; i < BH_ARRAY_LEN(own); i++) {
        if (bh_streq(path, own[i].name))
            return bh_asprintf("%s/deliver/%s", e->box->dir, own[i].delivered ? own[i].delivered : "none");
    }
    if (bh_starts_with(path, "in/"))
        return bh_asprintf("%s/deliver/%s/%s", e->box->dir, e->inputs ? e->inputs : "none", path + 3);
    return bh_asprintf("%s/workspace/%s", e->box->dir, path);
}

static void print_fd(struct bh_exec *e, int fd)
{
    char buf[4096];
    ssize_t n;
    while ((n = read(fd, buf, sizeof(buf))) > 0)
        BH_ASSERT(bh_write_all(e->out, buf, (size_t)n) == 0);
}

static void cat(struct bh_exec *e, const char *path)
{
    BH_CLEANUP_FREE char *real = in_box(e, path);
    BH_CLEANUP_FD int fd = open(real, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        BH_ASSERT(bh_write_all(e->out, "absent", 6) == 0);
    else
        print_fd(e, fd);
}

static void print_env(struct bh_exec *e, const char *name)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    size_t n = strlen(name);
    for (char **v = e->env; *v; v++) {
        if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
            bh_buf_addf(&text, "%s\n", *v);
    }
    if (text.len == 0)
        bh_buf_addf(&text, "%s unset\n", name);
    BH_ASSERT(bh_write_all(e->out, text.data, text.len) == 0);
}

static void print_text(int fd, const char *text)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    for (const char *p = text; *p; p++) {
        bool line_end = p[0] == '\\' && p[1] == 'n';
        bh_buf_addc(&out, line_end ? '\n' : *p);
        p += line_end;
    }
    BH_ASSERT(bh_write_all(fd, out.data, out.len) == 0);
}

/* "PATH=TEXT": the folders of PATH are made. */
static char *split(struct bh_exec *e, const char *word, const char **ret_text)
{
    const char *eq = strchr(word, '=');
    BH_CLEANUP_FREE char *name = eq ? bh_strndup(word, (size_t)(eq - word)) : bh_strdup(word);
    char *path = in_box(e, name);
    BH_CLEANUP_FREE char *dir = bh_path_dirname(path);
    BH_ASSERT(bh_mkdir_p(dir, 0755, NULL) == 0);
    *ret_text = eq ? eq + 1 : "";
    return path;
}

static void make_file(struct bh_exec *e, const char *word, mode_t mode)
{
    const char *text;
    BH_CLEANUP_FREE char *path = split(e, word, &text);
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    BH_ASSERT(fd >= 0 && bh_write_all(fd, text, strlen(text)) == 0);
}

static void make_other(struct bh_exec *e, const char *kind, const char *word)
{
    const char *text;
    BH_CLEANUP_FREE char *path = split(e, word, &text);
    if (bh_streq(kind, "mkdir"))
        BH_ASSERT(mkdir(path, 0755) == 0);
    else if (bh_streq(kind, "link"))
        BH_ASSERT(symlink(text, path) == 0);
    else
        BH_ASSERT(mkfifo(path, 0644) == 0);
}

static void hang(struct bh_exec *e, const char *how)
{
    e->hangs = true;
    e->stubborn = bh_streq(how, "stubborn");
    e->graceful = bh_streq(how, "graceful");
}

static void fail(struct bh_exec *e, const char *arg)
{
    const char *eq = strchr(arg, '=');
    end_exec(e, BH_EXEC_NOT_STARTED, (int)strtol(arg, NULL, 10), eq ? eq + 1 : "exec");
}

/* Returns false where the exec has ended or hangs. */
static bool do_step(struct bh_exec *e, const char *word)
{
    const char *colon = strchr(word, ':');
    BH_CLEANUP_FREE char *verb = colon ? bh_strndup(word, (size_t)(colon - word)) : bh_strdup(word);
    const char *arg = colon ? colon + 1 : "";
    if (bh_streq(verb, "out") || bh_streq(verb, "err"))
        print_text(bh_streq(verb, "out") ? e->out : e->err, arg);
    else if (bh_streq(verb, "write") || bh_streq(verb, "exec"))
        make_file(e, arg, bh_streq(verb, "exec") ? 0755 : 0644);
    else if (bh_streq(verb, "mkdir") || bh_streq(verb, "link") || bh_streq(verb, "fifo"))
        make_other(e, verb, arg);
    else if (bh_streq(verb, "cat"))
        cat(e, arg);
    else if (bh_streq(verb, "stdin"))
        print_fd(e, e->in);
    else if (bh_streq(verb, "env"))
        print_env(e, arg);
    else if (bh_streq(verb, "exit"))
        return end_exec(e, BH_EXEC_EXITED, (int)strtol(arg, NULL, 10), NULL), false;
    else if (bh_streq(verb, "signal"))
        return end_exec(e, BH_EXEC_SIGNALED, (int)strtol(arg, NULL, 10), NULL), false;
    else if (bh_streq(verb, "hit"))
        (void)snprintf(e->hit, sizeof(e->hit), "%s", arg);
    else if (bh_streq(verb, "fail"))
        return fail(e, arg), false;
    else
        return hang(e, verb), false;
    return true;
}

static void prepare(struct bh_exec *e, const struct bh_exec_spec *spec)
{
    for (size_t i = 0; i < spec->n_copies; i++) {
        const char *none;
        BH_CLEANUP_FREE char *from = bh_asprintf("%s/deliver/%s", e->box->dir, spec->copies[i].from);
        BH_CLEANUP_FREE char *to = split(e, spec->copies[i].to, &none);
        BH_CLEANUP_BUF struct bh_buf data = BH_BUF_INIT;
        BH_ASSERT(bh_read_file(from, 1 << 20, &data, NULL) == 0);
        BH_CLEANUP_FD int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, spec->copies[i].mode);
        BH_ASSERT(fd >= 0 && bh_write_all(fd, data.data, data.len) == 0);
    }
    for (size_t i = 0; spec->empty_first && spec->empty_first[i]; i++) {
        BH_CLEANUP_FREE char *path = in_box(e, spec->empty_first[i]);
        (void)bh_rmtree_at(AT_FDCWD, path);
    }
}

static void note_exec(const struct fake_box *box, const struct bh_exec_spec *spec)
{
    struct bh_buf *j = &fakes(box->head.boxes)->journal;
    bh_buf_addf(j, "exec %s", box->key);
    for (size_t i = 0; spec->argv[i]; i++)
        bh_buf_addf(j, " %s", spec->argv[i]);
    bh_buf_adds(j, spec->root ? " as root" : "");
    bh_buf_adds(j, spec->give_to_agent ? " give" : "");
    bh_buf_adds(j, spec->empty_first ? " empty" : "");
    bh_buf_addf(j, " in %s\n", spec->cwd);
}

static char **copy_env(const char *const *env)
{
    size_t n = 0;
    while (env[n])
        n++;
    char **copy = bh_calloc(n + 1, sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        copy[i] = bh_strdup(env[i]);
    return copy;
}

static struct bh_exec *fake_exec(struct bh_box *b, const struct bh_exec_spec *spec, bh_exec_done_fn fn, void *arg)
{
    struct fake_box *box = box_of(b);
    struct bh_exec *e = bh_alloc(sizeof(*e));
    *e = (struct bh_exec){
        .head = box->head,
        .box = box,
        .next = box->execs,
        .fn = fn,
        .arg = arg,
        .env = copy_env(spec->env),
        .inputs = bh_strdup(spec->inputs),
        .prompt = bh_strdup(spec->prompt),
        .params = bh_strdup(spec->params),
        .needs = bh_strdup(spec->needs),
        .in = fcntl(spec->stdin_fd, F_DUPFD_CLOEXEC, 0),
        .out = fcntl(spec->stdout_fd, F_DUPFD_CLOEXEC, 0),
        .err = fcntl(spec->stderr_fd, F_DUPFD_CLOEXEC, 0),
    };
    box->execs = e;
    note_exec(box, spec);
    if (box->lost) {
        end_exec(e, BH_EXEC_BOX_LOST, 0, NULL);
        return e;
    }
    if (bh_streq(spec->argv[0], "missing")) {
        end_exec(e, BH_EXEC_NOT_STARTED, ENOENT, "exec");
        return e;
    }
    prepare(e, spec);
    bool more = true;
    for (size_t i = 1; more && spec->argv[i]; i++)
        more = do_step(e, spec->argv[i]);
    if (more)
        end_exec(e, BH_EXEC_EXITED, 0, NULL);
    return e;
}

static void fake_kill(struct bh_exec *e, int sig)
{
    bh_buf_addf(&of_box(e->box)->journal, "kill %d\n", sig);
    if (!e->hangs || (sig != SIGKILL && e->stubborn))
        return;
    if (sig == SIGTERM && e->graceful)
        end_exec(e, BH_EXEC_EXITED, 0, NULL);
    else
        end_exec(e, BH_EXEC_SIGNALED, sig, NULL);
}

/* --- boxes --- */

static void fake_create(struct bh_boxes *b, const struct bh_box_spec *spec, bh_box_created_fn fn, void *arg,
                        void (*on_lost)(void *arg))
{
    struct fake_boxes *f = fakes(b);
    struct fake_box *box = bh_alloc(sizeof(*box));
    box->head.boxes = b;
    box->key = bh_strdup(spec->key);
    box->run_dir = bh_strdup(spec->run_dir);
    box->dir = bh_asprintf("%s/boxes/%s", spec->run_dir, spec->key);
    box->on_lost = on_lost;
    box->lost_arg = arg;
    box->next = f->boxes;
    f->boxes = box;
    bh_buf_addf(&f->journal, "create %s%s", spec->key, spec->shared ? " shared" : "");
    for (size_t i = 0; i < spec->n_layers; i++)
        bh_buf_addf(&f->journal, " on %s", spec->layers[i]);
    for (size_t i = 0; i < spec->n_snapshots; i++)
        bh_buf_addf(&f->journal, " from %s", spec->snapshots[i]);
    if (spec->workspace_of)
        bh_buf_addf(&f->journal, " workspace of %s", spec->workspace_of);
    bh_buf_addc(&f->journal, '\n');
    struct fake_answer *a = queue(f, CREATED, "create", box);
    a->code = f->fail_create;
    a->fn.created = fn;
    a->arg = arg;
    f->fail_create = 0;
    if (a->code != 0)
        return;
    BH_CLEANUP_FREE char *out = bh_path_join(box->dir, "workspace/out");
    BH_ASSERT(access(box->dir, F_OK) < 0); /* "its folder must not exist yet" */
    BH_ASSERT(bh_mkdir_p(out, 0755, NULL) == 0);
    box->alive = true;
}

static void fake_barrier(struct bh_box *b, bh_box_done_fn fn, void *arg)
{
    struct fake_boxes *f = of_box(box_of(b));
    struct fake_answer *a = queue(f, DONE, "barrier", box_of(b));
    bh_buf_addf(&f->journal, "barrier %s\n", box_of(b)->key);
    a->code = f->fail_barrier;
    a->fn.done = fn;
    a->arg = arg;
    f->fail_barrier = 0;
}

static int open_real(const struct fake_box *box, const char *root, const char *path)
{
    BH_CLEANUP_FREE char *workspace = bh_path_join(box->dir, "workspace");
    BH_CLEANUP_FD int top = open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    BH_CLEANUP_FD int base = top < 0 ? -1 : bh_open_beneath(top, root, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (base < 0)
        return -1;
    int fd = bh_open_beneath(base, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd >= 0 || errno != ENOTDIR)
        return fd;
    return bh_open_beneath(base, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
}

static void fake_open(struct bh_box *b, const char *root, const char *path, bh_box_opened_fn fn, void *arg)
{
    struct fake_boxes *f = of_box(box_of(b));
    struct fake_answer *a = queue(f, OPENED, "open", box_of(b));
    bh_buf_addf(&f->journal, "open %s %s\n", root, path);
    if (f->on_open)
        f->on_open(f->on_open_arg, path);
    a->fd = box_of(b)->lost ? -1 : open_real(box_of(b), root, path);
    a->error = a->fd >= 0 ? 0 : box_of(b)->lost ? EPIPE : errno;
    a->fn.opened = fn;
    a->arg = arg;
}

/* Of the host: whoever connects is none of a box. */
static void fake_listen(struct bh_box *b, int port, bh_box_opened_fn fn, void *arg)
{
    const struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct fake_answer *a = queue(of_box(box_of(b)), OPENED, "listen", box_of(b));
    bh_buf_addf(&of_box(box_of(b))->journal, "listen %s %d\n", box_of(b)->key, port);
    a->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    BH_ASSERT(a->fd >= 0 && bind(a->fd, (const struct sockaddr *)(const void *)&at, sizeof(at)) == 0 &&
              listen(a->fd, 16) == 0);
    a->fn.opened = fn;
    a->arg = arg;
}

static void end_all_execs(struct fake_box *box)
{
    for (struct bh_exec *e = box->execs; e; e = e->next) {
        if (e->hangs)
            end_exec(e, BH_EXEC_BOX_LOST, 0, NULL);
    }
}

static void fake_freeze(struct bh_box *b, const char *layer, bh_box_done_fn fn, void *arg)
{
    struct fake_box *box = box_of(b);
    struct fake_boxes *f = of_box(box);
    bh_buf_addf(&f->journal, "freeze %s as %s\n", box->key, layer);
    end_all_execs(box);
    BH_CLEANUP_FREE char *to = bh_asprintf("%s/layers/%s", box->run_dir, layer);
    int code = f->fail_freeze;
    f->fail_freeze = 0;
    if (code == 0 && rename(box->dir, to) < 0)
        code = -BH_E_IO;
    struct fake_answer *a = queue(f, DONE, "freeze", box);
    a->code = code;
    a->ends_box = true;
    a->fn.done = fn;
    a->arg = arg;
}

static void fake_destroy(struct bh_box *b, bool keep, bh_box_done_fn fn, void *arg)
{
    struct fake_box *box = box_of(b);
    struct fake_boxes *f = of_box(box);
    bh_buf_addf(&f->journal, "destroy %s%s\n", box->key, keep ? " keep" : "");
    end_all_execs(box);
    BH_CLEANUP_FREE char *upper = bh_path_join(box->dir, "upper/root");
    if (!keep)
        (void)bh_rmtree_at(AT_FDCWD, box->dir);
    else if (box->alive)
        BH_ASSERT(bh_mkdir_p(upper, 0755, NULL) == 0);
    struct fake_answer *a = queue(f, DONE, "destroy", box);
    a->ends_box = true;
    a->fn.done = fn;
    a->arg = arg;
}

static void free_box(struct fake_boxes *f, struct fake_box *box)
{
    for (struct fake_box **at = &f->boxes; *at; at = &(*at)->next) {
        if (*at == box) {
            *at = box->next;
            break;
        }
    }
    while (box->execs)
        free_exec(box->execs);
    bh_free(box->key);
    bh_free(box->dir);
    bh_free(box->run_dir);
    bh_free(box);
}

/* --- answers --- */

static void give_done(struct fake_answer *a)
{
    struct bh_err *err = NULL;
    if (a->code != 0)
        (void)bh_err_set(&err, (enum bh_code) - a->code, a->error, "the fake refuses to %s", a->call);
    if (a->kind == CREATED)
        a->fn.created(a->arg, a->code == 0 ? (struct bh_box *)(void *)a->box : NULL, a->code, err);
    else
        a->fn.done(a->arg, a->code, err);
    bh_err_free(err);
}

static void give(struct fake_boxes *f, struct fake_answer *a)
{
    switch (a->kind) {
    case CREATED:
        give_done(a);
        if (a->code != 0)
            free_box(f, a->box);
        break;
    case DONE:
        if (a->ends_box)
            a->box->alive = false;
        give_done(a);
        if (a->ends_box)
            free_box(f, a->box);
        break;
    case EXEC_ENDED:
        a->result.step = a->step;
        a->exec->fn(a->exec->arg, &a->result);
        free_exec(a->exec);
        break;
    case OPENED:
        a->fn.opened(a->arg, a->fd, a->error);
        break;
    case LOST:
        a->box->on_lost(a->box->lost_arg);
        break;
    }
    bh_free(a->step);
    bh_free(a);
}

static struct fake_answer *take_first(struct fake_boxes *f)
{
    for (struct fake_answer **at = &f->answers; *at; at = &(*at)->next) {
        struct fake_answer *a = *at;
        if (f->held && bh_streq(a->call, f->held))
            continue;
        *at = a->next;
        a->next = NULL;
        return a;
    }
    return NULL;
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
    struct fake_boxes *f = arg;
    (void)fd;
    (void)what;
    struct fake_answer *a = take_first(f);
    if (!a)
        return;
    event_active(f->later, EV_TIMEOUT, 0);
    give(f, a);
}

static void fake_close(struct bh_boxes *b)
{
    struct fake_boxes *f = fakes(b);
    struct fake_answer *a;
    f->held = NULL;
    for (struct fake_box *box = f->boxes; box; box = box->next)
        end_all_execs(box);
    while ((a = take_first(f)) != NULL)
        give(f, a);
    while (f->boxes)
        free_box(f, f->boxes);
    event_free(f->later);
    bh_buf_fini(&f->journal);
    bh_free(f);
}

static uint32_t fake_enforceable(const struct bh_boxes *boxes)
{
    (void)boxes;
    return (1u << BH_N_LIMITS) - 1;
}

static struct bh_enforced fake_enforced(const struct bh_box *box, const struct bh_limits *own BH_UNUSED)
{
    (void)box;
    return (struct bh_enforced){.by = {[BH_LIMIT_MEMORY] = BH_BY_CGROUP2, [BH_LIMIT_DISK] = BH_BY_WATCHDOG}};
}

static int64_t fake_disk_bytes(const struct bh_box *box)
{
    (void)box;
    return 4711;
}

static uint64_t fake_moment(struct bh_box *box)
{
    (void)box;
    return 1;
}

static bool fake_writers(struct bh_box *box, uint64_t since, uint64_t file, const char *path,
                         struct bh_box_writers *ret)
{
    const struct fake_boxes *f = of_box(box_of(box));
    (void)since;
    (void)file;
    (void)path;
    *ret = f->tell;
    return f->tells;
}

static size_t fake_census(struct bh_box *box, struct bh_box_share *ret, size_t max)
{
    const struct fake_boxes *f = of_box(box_of(box));
    size_t n = f->n_shares < max ? f->n_shares : max;
    memcpy(ret, f->shares, n * sizeof(*ret));
    return n;
}

static const struct bh_box_ops fake_ops = {
    .name = "fake",
    .enforceable = fake_enforceable,
    .enforced = fake_enforced,
    .disk_bytes = fake_disk_bytes,
    .close = fake_close,
    .create = fake_create,
    .exec = fake_exec,
    .kill = fake_kill,
    .barrier = fake_barrier,
    .open_output = fake_open,
    .listen = fake_listen,
    .moment = fake_moment,
    .writers = fake_writers,
    .census = fake_census,
    .freeze = fake_freeze,
    .destroy = fake_destroy,
};

/* --- for the test --- */

struct fake_boxes *fake_boxes_new(struct event_base *loop)
{
    struct fake_boxes *f = bh_alloc(sizeof(*f));
    f->base.ops = &fake_ops;
    f->loop = loop;
    f->later = evtimer_new(loop, on_later, f);
    bh_buf_init(&f->journal);
    return f;
}

void fake_boxes_go_on(struct fake_boxes *f)
{
    f->held = NULL;
    event_active(f->later, EV_TIMEOUT, 0);
}

bool fake_boxes_has_held(const struct fake_boxes *f)
{
    for (const struct fake_answer *a = f->answers; a; a = a->next) {
        if (f->held && bh_streq(a->call, f->held))
            return true;
    }
    return false;
}

bool fake_boxes_is_quiet(const struct fake_boxes *f)
{
    return !f->answers;
}

/* What was asked of the box and is not answered yet is answered as of one that is gone. */
static void drop_asks(struct fake_boxes *f, const struct fake_box *box)
{
    for (struct fake_answer *a = f->answers; a; a = a->next) {
        if (a->box != box || (!bh_streq(a->call, "barrier") && !bh_streq(a->call, "open")))
            continue;
        bh_close(BH_TAKE_FD(a->fd));
        a->call = "lost";
        a->code = a->kind == DONE ? -BH_E_HOST : 0;
        a->error = EPIPE;
    }
    event_active(f->later, EV_TIMEOUT, 0);
}

void fake_boxes_lose(struct fake_boxes *f, const char *key)
{
    for (struct fake_box *box = f->boxes; box; box = box->next) {
        if (!bh_streq(box->key, key))
            continue;
        box->lost = true;
        end_all_execs(box);
        drop_asks(f, box);
        (void)queue(f, LOST, "lost", box);
        return;
    }
    BH_ASSERT(!"no such box");
}

size_t fake_boxes_alive(const struct fake_boxes *f)
{
    size_t n = 0;
    for (const struct fake_box *box = f->boxes; box; box = box->next)
        n += box->alive;
    return n;
}

bool fake_boxes_did(const struct fake_boxes *f, const char *line)
{
    size_t n = strlen(line);
    for (const char *at = f->journal.data; (at = strstr(at, line)) != NULL; at++) {
        if ((at == f->journal.data || at[-1] == '\n') && at[n] == '\n')
            return true;
    }
    return false;
}
