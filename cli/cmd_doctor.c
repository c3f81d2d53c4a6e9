/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead doctor: what this host can do, found out by doing it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/doctor.h"
#include "policies/site.h"
#include "workers/box/box.h"
#include "workers/box/launcher_client.h"
#include "workers/box/subids.h"
#include "workers/cgroup/cgroup.h"
#include "workers/disk/quota.h"

#define BH_NOT_TRIED "not tried"

void bh_report_add(struct bh_report *r, const struct bh_check *check)
{
    struct bh_val *v = bh_val_add(r->checks, bh_val_map());
    bh_val_set_str(v, "name", check->name);
    bh_val_set_bool(v, "ok", check->ok);
    bh_val_set_bool(v, "required", check->required);
    bh_val_set_str(v, "found", check->found);
    bh_val_set_str(v, "effect", check->ok ? NULL : check->effect);
    bh_val_set_str(v, "remedy", check->ok || (check->remedy && !*check->remedy) ? NULL : check->remedy);
    bool tried = !check->found || !bh_starts_with(check->found, BH_NOT_TRIED);
    r->missing += !check->ok && check->required && tried;
    r->not_tried += !tried;
}

static void add(struct bh_report *r, const char *name, bool ok, bool required, const char *found, const char *effect,
                const char *remedy)
{
    bh_report_add(r, &(struct bh_check){name, ok, required, found, effect, remedy});
}

/* An error says itself what was found; the rest comes with the row. */
static void add_error(struct bh_report *r, const char *name, struct bh_err *err, const char *effect)
{
    const char *hint = bh_err_get_hint(err);
    add(r, name, false, true, bh_err_message(err), effect, hint);
    bh_err_free(err);
}

/* Checks that need a launcher or a state directory, as they are called by who makes them. */
static const struct untried {
    const char *name;
    bool required;
} of_boxes[] =
    {
        {"user namespace", true},   {"mount namespace", true},
        {"pid namespace", true},    {"network namespace", true},
        {"ipc namespace", true},    {"uts namespace", true},
        {"cgroup namespace", true}, {"process calls", true},
        {"mount calls", true},      {"overlay in a user namespace", true},
        {"fresh /proc", true},      {"change of root", true},
        {"capabilities", true},     {"seccomp filter", true},
        {"Landlock", false},        {"set-up of boxes", true},
        {"range of ids", false},    {"ids of inputs", false},
        {"control groups", false},
},
  of_home[] = {{"project quota", false}, {"store", true}};

static void not_tried(struct bh_report *r, const char *name, bool required, const char *needs)
{
    BH_CLEANUP_FREE char *found = bh_asprintf(BH_NOT_TRIED ": needs what is missing above (%s)", needs);
    add(r, name, false, required, found, NULL, NULL);
}

static void boxes_not_tried(struct bh_report *r, const char *needs)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(of_boxes); i++)
        not_tried(r, of_boxes[i].name, of_boxes[i].required, needs);
}

static void home_not_tried(struct bh_report *r)
{
    not_tried(r, "file system of the state directory", false, "state directory");
    boxes_not_tried(r, "state directory");
    for (size_t i = 0; i < BH_ARRAY_LEN(of_home); i++)
        not_tried(r, of_home[i].name, of_home[i].required, "state directory");
}

/* What every run reads first; a bad one refuses them all. */
static void check_site(struct bh_report *r)
{
    struct bh_policy policy = {0};
    struct bh_errlist errors = {0};
    if (bh_policy_load(NULL, &policy, &errors) == 0) {
        BH_CLEANUP_BUF struct bh_buf found = BH_BUF_INIT;
        for (size_t i = 0; i < policy.n; i++)
            bh_buf_addf(&found, "%s%s%s", i ? ", " : "", policy.sites[i].file,
                        policy.sites[i].best_effort ? ", limits: best-effort" : "");
        add(r, "site policy", true, true, policy.n > 0 ? found.data : "none", NULL, NULL);
    } else {
        const struct bh_err *first = errors.items[0];
        const char *hint = bh_err_get_hint(first);
        add(r, "site policy", false, true, bh_err_message(first), "every run is refused",
            hint ? hint : "mend the file, or name another with $BULKHEAD_SITE");
    }
    bh_policy_fini(&policy);
    bh_errlist_fini(&errors);
}

static void check_store(struct bh_report *r, const struct bh_home *home)
{
    struct bh_store *store = NULL;
    struct bh_err *err = NULL;
    if (bh_store_open(home, BH_STORE_WRITE, &store, &err) == 0)
        add(r, "store", true, true, "opens", NULL, NULL);
    else
        add_error(r, "store", err, "no run can be recorded");
    bh_store_close(store);
}

static void check_groups(struct bh_report *r, int sock)
{
    struct bh_msg_hello hello;
    int fds[BH_MSG_MAX_FDS];
    size_t n = 0;
    struct bh_err *err = NULL;
    if (bh_launcher_hello(sock, &hello, fds, &n, &err) != 0) {
        add_error(r, "control groups", err, "limits of memory and processors cannot be kept");
        return;
    }
    for (size_t i = 0; i < n; i++)
        bh_close(fds[i]);
    struct bh_cgroup cg = {.kind = (enum bh_cgroup_kind)hello.cgroup_kind, .can = hello.cgroup_can};
    char found[sizeof(cg.found) + 64];
    memcpy(cg.found, hello.cgroup_found, sizeof(cg.found));
    bh_cgroup_describe(&cg, found, sizeof(found));
    bool all = (hello.cgroup_can & BH_CGROUP_LIMITS) == BH_CGROUP_LIMITS;
    add(r, "control groups", all, false, found,
        "pipelines that ask for limits which nothing here can keep (memory, cpus) are refused, and boxes run at the "
        "lowest priority",
        hello.cgroup_remedy);
}

static void check_boxes(struct bh_report *r, const struct bh_home *home)
{
    int sock = -1;
    int64_t pid;
    struct bh_err *err = NULL;
    struct bh_box_probe *probes = NULL;
    size_t n = 0;
    int rc = bh_launcher_start(home->path, -1, &sock, &pid, &err);
    if (rc == 0)
        rc = bh_boxes_probe(sock, &probes, &n, &err);
    if (rc != 0) {
        add_error(r, "boxes", err, "nothing can be isolated, so nothing runs");
        boxes_not_tried(r, "boxes");
    }
    for (size_t i = 0; i < n; i++)
        add(r, probes[i].name, probes[i].ok, probes[i].required, probes[i].found, probes[i].effect, probes[i].remedy);
    if (rc == 0)
        check_groups(r, sock);
    bh_box_probes_free(probes, n);
    bh_close(sock);
}

static void check_quota(struct bh_report *r, const struct bh_home *home)
{
    bool works = bh_disk_quota_works(home->path);
    add(r, "project quota", works, false, works ? "works" : "not to be had",
        "limits of disk and inodes are kept by watching what boxes write, or by a root in memory where that is small",
        "as root, on ext4: tune2fs -O project,quota -Q prjquota DEVICE and mount it with prjquota; on xfs: mount it "
        "with "
        "prjquota");
}

static void check_user(struct bh_report *r)
{
    BH_CLEANUP_FREE char *found = bh_asprintf("uid %ld", (long)geteuid());
    add(r, "user", true, false, found, NULL, NULL);
}

/* Each line of it by itself: the profile in a remedy is to be copied. */
static void print_more(const struct bh_val *check, const char *key)
{
    const char *text = bh_val_bool_of(check, "ok") ? NULL : bh_val_str_of(check, key);
    if (!text || !*text)
        return;
    printf("         %s: ", key);
    for (const char *line = text; line;) {
        const char *end = strchr(line, '\n');
        BH_CLEANUP_FREE char *one = bh_asprintf("%.*s", end ? (int)(end - line) : (int)strlen(line), line);
        bh_cli_print_escaped(one);
        putchar('\n');
        line = end ? end + 1 : NULL;
        if (line)
            fputs("         ", stdout);
    }
}

static void print_text(const struct bh_report *r)
{
    for (size_t i = 0; i < bh_val_len(r->checks); i++) {
        const struct bh_val *v = bh_val_at(r->checks, i);
        bool ok = bh_val_bool_of(v, "ok");
        printf("%-8s %-34s ", ok ? "ok" : bh_val_bool_of(v, "required") ? "MISSING" : "note", bh_val_str_of(v, "name"));
        bh_cli_print_escaped(bh_val_str_of(v, "found") ? bh_val_str_of(v, "found") : "");
        putchar('\n');
        print_more(v, "effect");
        print_more(v, "remedy");
    }
    if (r->missing == 0)
        printf("this host can run pipelines\n");
    else
        printf("this host cannot run pipelines: %zu required %s missing", r->missing,
               r->missing == 1 ? "thing is" : "things are");
    if (r->missing > 0 && r->not_tried > 0)
        printf(" (and %zu not tried for want of %s)", r->not_tried, r->missing == 1 ? "it" : "them");
    if (r->missing > 0)
        putchar('\n');
}

static int doctor(const struct bh_args *args)
{
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    struct bh_report r = {.checks = bh_val_set(v, "checks", bh_val_list())};
    struct bh_doctor_home at;
    (void)bh_subids_enter(); /* as run does */
    check_user(&r);
    bh_doctor_kernel(&r);
    bh_doctor_process(&r);
    check_site(&r);
    bh_doctor_home_open(&r, bh_args_get(args, "home"), &at);
    if (at.home.path) {
        bh_doctor_file_system(&r, &at.home);
        check_boxes(&r, &at.home); /* before the store: the launcher comes before any database */
        check_quota(&r, &at.home);
        check_store(&r, &at.home);
    } else {
        home_not_tried(&r);
    }
    bh_doctor_ids(&r);
    bh_doctor_python(&r);
    bh_doctor_home_close(&at);
    bh_val_set_bool(v, "ok", r.missing == 0);
    if (bh_args_json(args))
        bh_cli_print_json(v);
    else
        print_text(&r);
    return r.missing == 0 ? 0 : 7;
}

const struct bh_cmd bh_cmd_doctor = {
    .name = "doctor",
    .operands = "",
    .summary = "find out by trying what this host can do, and what follows where it cannot",
    .example = "bulkhead doctor",
    .run = doctor,
};
