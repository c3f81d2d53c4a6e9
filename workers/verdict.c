/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of commands in words (verdict.h). Pure. */
#include "workers/verdict.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"

void bh_verdict_fini(struct bh_verdict *v)
{
    bh_free(v->detail);
    *v = (struct bh_verdict){0};
}

void bh_verdict_succeeded(struct bh_verdict *ret)
{
    *ret = (struct bh_verdict){.outcome = BH_OUTCOME_SUCCEEDED};
}

void bh_verdict_cancelled(struct bh_verdict *ret)
{
    *ret = (struct bh_verdict){.outcome = BH_OUTCOME_CANCELLED, .exit_code = -1, .detail = bh_strdup("cancelled")};
}

void bh_verdict_lost(struct bh_verdict *ret, const char *while_what)
{
    *ret = (struct bh_verdict){.outcome = BH_OUTCOME_LOST,
                               .reason = BH_REASON_BOX_LOST,
                               .exit_code = -1,
                               .detail = bh_asprintf("the box died during %s", while_what)};
}

void bh_verdict_host(struct bh_verdict *ret, const char *while_what, int code, const struct bh_err *err)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_buf_addf(&text, "%s: %s", while_what, err ? bh_err_message(err) : bh_code_info(code)->text);
    if (bh_err_get_detail(err))
        bh_buf_addf(&text, " (%s)", bh_err_get_detail(err));
    *ret = (struct bh_verdict){
        .outcome = BH_OUTCOME_FAILED, .reason = BH_REASON_HOST, .exit_code = -1, .detail = bh_buf_take(&text)};
}

void bh_verdict_failed(struct bh_verdict *ret, enum bh_reason reason, const char *fmt, ...)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    bh_buf_vaddf(&text, fmt, ap);
    va_end(ap);
    *ret = (struct bh_verdict){
        .outcome = BH_OUTCOME_FAILED, .reason = reason, .exit_code = -1, .detail = bh_buf_take(&text)};
}

void bh_verdict_copy(struct bh_verdict *ret, const struct bh_verdict *v)
{
    *ret = *v;
    ret->detail = bh_strdup(v->detail);
}

bool bh_errno_is_loss(int error)
{
    return error == EPIPE || error == ECONNRESET || error == ENOTCONN || error == ESHUTDOWN;
}

/* --- commands --- */

static char *escaped(const char *text)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    bh_escape_terminal(&out, text, strlen(text));
    return bh_buf_take(&out);
}

static void not_found(struct bh_verdict *ret, const struct bh_command_name *name, const char *command)
{
    bh_verdict_failed(ret, BH_REASON_EXIT, "%s could not start: command '%s' was not found in the box%s", name->what,
                      command, strchr(command, '/') ? " (or the interpreter that its first line names)" : "");
    ret->exit_code = 127;
}

/* Steps before the command that fail because of what its author wrote or what lies in the box. */
static bool is_in_the_box(const char *step)
{
    static const char *const steps[] = {"enter the working directory",
                                        "copy ",
                                        "empty ",
                                        "use /workspace",
                                        "make /workspace",
                                        "replace the symlink",
                                        "be a fork server",
                                        "understand what is said on BULKHEAD_WARM_FD"};
    for (size_t i = 0; i < BH_ARRAY_LEN(steps); i++) {
        if (bh_starts_with(step, steps[i]))
            return true;
    }
    return false;
}

static bool is_the_hosts(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EIO || error == ENOMEM || error == EMFILE ||
           error == ENFILE || error == EAGAIN;
}

/* --- limits --- */

struct hit {
    enum bh_limit limit;
    enum bh_reason reason; /* NONE: no limit was hit */
};

/* Which one, the worst first: what runs out of memory fails in other ways, too. */
static struct hit hit_of(const struct bh_exec_result *result)
{
    bool file_size = result->end == BH_EXEC_SIGNALED && result->status == SIGXFSZ;
    if (result->oom)
        return (struct hit){BH_LIMIT_MEMORY, BH_REASON_OOM};
    if (result->disk_full || file_size)
        return (struct hit){result->inodes && !file_size ? BH_LIMIT_INODES : BH_LIMIT_DISK, BH_REASON_DISK_FULL};
    if (result->pids)
        return (struct hit){BH_LIMIT_PIDS, BH_REASON_PIDS};
    return (struct hit){0};
}

/* Of a shared box what is its own limit, or what the agent has no smaller one of. */
static bool is_of_box(const struct bh_command_name *name, enum bh_limit limit)
{
    int64_t own = name->own ? name->own->of[limit] : 0, boxs = name->boxs ? name->boxs->of[limit] : 0;
    bool groups = limit == BH_LIMIT_MEMORY || limit == BH_LIMIT_PIDS;
    return name->box && (!groups || own <= 0 || (boxs > 0 && boxs < own));
}

/* A watch knows boxes, and not their names. */
static void add_note(struct bh_buf *out, const struct bh_command_name *name, const char *note, size_t len)
{
    static const char nameless[] = "the box ";
    const char *at = name->box ? memmem(note, len, nameless, strlen(nameless)) : NULL;
    if (at) {
        bh_escape_terminal(out, note, (size_t)(at - note));
        bh_buf_addf(out, "box '%s' ", name->box);
        len -= (size_t)(at - note) + strlen(nameless);
        note = at + strlen(nameless);
    }
    bh_escape_terminal(out, note, len);
}

/* "memory limit of 64MiB was reached", "memory limit of box 'x' (64MiB) was reached", or what the watch that saw it has
 * to say. */
static void add_hit(struct bh_buf *out, const struct bh_command_name *name, const struct bh_exec_result *result,
                    struct hit hit)
{
    char text[BH_LIMIT_TEXT];
    bool of_box = is_of_box(name, hit.limit);
    const struct bh_limits *limits = of_box && name->boxs ? name->boxs : name->limits;
    int64_t value = limits ? limits->of[hit.limit] : 0;
    if (result->note[0])
        add_note(out, name, result->note, strnlen(result->note, sizeof(result->note)));
    else if (of_box && value > 0)
        bh_buf_addf(out, "%s limit of box '%s' (%s) was reached", bh_limit_name(hit.limit), name->box,
                    bh_limit_format(hit.limit, value, text));
    else if (value > 0)
        bh_buf_addf(out, "%s limit of %s was reached", bh_limit_name(hit.limit),
                    bh_limit_format(hit.limit, value, text));
    else
        bh_buf_addf(out, "%s limit was reached", bh_limit_name(hit.limit));
}

static void add_end(struct bh_buf *out, const struct bh_exec_result *result)
{
    const char *text = result->end == BH_EXEC_SIGNALED ? sigabbrev_np(result->status) : NULL;
    if (result->end == BH_EXEC_BOX_LOST)
        bh_buf_adds(out, "died with its box");
    else if (result->end == BH_EXEC_NOT_STARTED)
        bh_buf_adds(out, "could not start");
    else if (result->end == BH_EXEC_EXITED)
        bh_buf_addf(out, "exited with code %d", result->status);
    else
        bh_buf_addf(out, "was ended by signal %d%s%s%s", result->status, text ? " (SIG" : "", text ? text : "",
                    text ? ")" : "");
}

static void of_hit(struct bh_verdict *ret, const struct bh_command_name *name, const struct bh_exec_result *result,
                   struct hit hit)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_buf_addf(&text, "%s ", name->what);
    add_end(&text, result);
    bh_buf_adds(&text, ": ");
    add_hit(&text, name, result, hit);
    bh_verdict_failed(ret, hit.reason, "%s", text.data);
}

char *bh_verdict_limits_text(const struct bh_enforced *held, bool best_effort)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    for (int i = 0; i < BH_N_LIMITS; i++) {
        if (held->by[i] != BH_BY_NOTHING)
            bh_buf_addf(&text, "%s%s=%s", text.len > 0 ? " " : "", bh_limit_name((enum bh_limit)i),
                        bh_enforcer_name((enum bh_enforcer)held->by[i]));
    }
    if (best_effort)
        bh_buf_addf(&text, "%s+best-effort", text.len > 0 ? " " : "");
    return text.len > 0 ? bh_buf_take(&text) : NULL;
}

/* Whether a box that has no room left is at its own limit: where that is watched alone, it is the host that is full. */
static bool is_own_disk(const struct bh_command_name *name, int error)
{
    unsigned by = name->held.by[BH_LIMIT_DISK];
    bool room = error == ENOSPC || error == EDQUOT || error == EFBIG;
    return room && (by == BH_BY_TMPFS || by == BH_BY_QUOTA);
}

/* --- what did not start --- */

/* The kernel takes a quarter of the stack's limit, and 128 KiB for one text. */
static void too_many_arguments(struct bh_verdict *ret, const struct bh_command_name *name, const char *command)
{
    bh_verdict_failed(ret, BH_REASON_EXIT,
                      "%s could not start: the arguments and the environment of command '%s' are %zu bytes; the kernel "
                      "takes 2 MiB of them together and 128 KiB for one: give it a file (files, prompt) instead",
                      name->what, command, name->args_bytes);
    ret->exit_code = 126;
}

/* What kept it from starting: the command itself (its author mends it), what lies in the box, or the host. */
static void of_not_started(struct bh_verdict *ret, const struct bh_command_name *name,
                           const struct bh_exec_result *result)
{
    const char *step = result->step ? result->step : "exec";
    const char *why = strerror(result->status);
    bool exec = bh_streq(step, "exec"), host = is_the_hosts(result->status);
    BH_CLEANUP_FREE char *what = escaped(exec ? name->argv0 : step);
    struct hit hit = hit_of(result);
    if (hit.reason == BH_REASON_NONE && is_own_disk(name, result->status))
        hit = (struct hit){BH_LIMIT_DISK, BH_REASON_DISK_FULL};
    if (hit.reason != BH_REASON_NONE) {
        BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
        add_hit(&text, name, result, hit);
        bh_verdict_failed(ret, hit.reason, "%s could not start: cannot %s%s: %s: %s", name->what, exec ? "exec " : "",
                          what, why, text.data);
    } else if (exec && result->status == E2BIG) {
        too_many_arguments(ret, name, what);
    } else if (exec && result->status == ENOENT) {
        not_found(ret, name, what);
    } else if (exec && !host) {
        bh_verdict_failed(ret, BH_REASON_EXIT, "%s could not start: command '%s': %s", name->what, what, why);
        ret->exit_code = 126;
    } else if (is_in_the_box(step) && !host) {
        bh_verdict_failed(ret, BH_REASON_EXIT, "%s could not start: cannot %s: %s", name->what, what, why);
        ret->exit_code = 126;
    } else {
        bh_verdict_failed(ret, BH_REASON_HOST, "%s could not start: cannot %s%s: %s", name->what, exec ? "exec " : "",
                          what, why);
    }
}

/* --- what ran --- */

static void of_timeout(struct bh_verdict *ret, const struct bh_command_name *name, const struct bh_command_end *end)
{
    char limit[BH_UNIT_TEXT];
    struct hit hit = hit_of(&end->result);
    BH_CLEANUP_BUF struct bh_buf also = BH_BUF_INIT;
    if (hit.reason != BH_REASON_NONE) {
        bh_buf_adds(&also, end->result.note[0] ? "; " : is_of_box(name, hit.limit) ? "; the " : "; its ");
        add_hit(&also, name, &end->result, hit);
    }
    bh_verdict_failed(ret, BH_REASON_TIMEOUT, "%s took longer than %s%s%s", name->what,
                      bh_format_duration(name->timeout_ns, limit), end->killed ? " and did not end when asked to" : "",
                      also.len > 0 ? also.data : "");
    ret->phase = name->phase;
}

static void of_signal(struct bh_verdict *ret, const struct bh_command_name *name, int sig)
{
    const char *text = sigabbrev_np(sig);
    if (text)
        bh_verdict_failed(ret, BH_REASON_SIGNAL, "%s was ended by signal %d (SIG%s)", name->what, sig, text);
    else
        bh_verdict_failed(ret, BH_REASON_SIGNAL, "%s was ended by signal %d", name->what, sig);
}

/* A shell gives 128 and the signal for a command of its own that died; for this one it is worth a word. */
static void of_exit(struct bh_verdict *ret, const struct bh_command_name *name, int status)
{
    char text[BH_LIMIT_TEXT];
    int64_t disk = name->limits ? name->limits->of[BH_LIMIT_DISK] : 0;
    if (status == 128 + SIGXFSZ && disk > 0)
        bh_verdict_failed(ret, BH_REASON_EXIT,
                          "%s exited with code %d, as a shell does when a file became larger than it may: the disk "
                          "limit is %s",
                          name->what, status, bh_limit_format(BH_LIMIT_DISK, disk, text));
    else
        bh_verdict_failed(ret, BH_REASON_EXIT, "%s exited with code %d", name->what, status);
}

bool bh_verdict_of_command(struct bh_verdict *ret, const struct bh_command_name *name, const struct bh_command_end *end)
{
    const struct bh_exec_result *result = &end->result;
    struct hit hit = hit_of(result);
    bool good = result->end == BH_EXEC_EXITED && result->status == 0;
    if (result->end == BH_EXEC_BOX_LOST && hit.reason == BH_REASON_NONE)
        bh_verdict_lost(ret, name->what);
    else if (end->stopped)
        bh_verdict_cancelled(ret);
    else if (result->end == BH_EXEC_NOT_STARTED)
        of_not_started(ret, name, result);
    else if (end->timed_out)
        of_timeout(ret, name, end);
    else if (hit.reason != BH_REASON_NONE && !good)
        of_hit(ret, name, result, hit);
    else if (result->end == BH_EXEC_SIGNALED)
        of_signal(ret, name, result->status);
    else if (!good)
        of_exit(ret, name, result->status);
    else
        bh_verdict_succeeded(ret);
    if (result->end == BH_EXEC_EXITED)
        ret->exit_code = result->status;
    else if (result->end == BH_EXEC_SIGNALED)
        ret->signal = result->status;
    return ret->outcome == BH_OUTCOME_SUCCEEDED;
}

void bh_verdict_to_result(struct bh_verdict *v, const char *note, struct bh_result *result)
{
    result->outcome = v->outcome;
    if (v->reason != BH_REASON_NONE)
        result->reason = bh_strdup(bh_reason_text(v->reason, v->phase));
    result->exit_code = v->exit_code;
    result->signal = v->signal;
    if (v->detail && note)
        result->detail = bh_asprintf("%s; %s", v->detail, note);
    else if (note)
        result->detail = bh_strdup(note);
    else
        result->detail = BH_TAKE(v->detail);
}
