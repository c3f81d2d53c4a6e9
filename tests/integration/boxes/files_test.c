/* SPDX-License-Identifier: Apache-2.0 */
/* What goes into a box and comes out of it: inputs, copies, own files, outputs, layers. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"

static struct kit_box box;

static int set_up(void **state)
{
    (void)state;
    if (kit_create(&kit, &box, NULL) != 0)
        fail_msg("create: %s", box.message);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    T_INT(kit_destroy(&box, false), 0);
    return 0;
}

static void run_in(struct kit_box *b, struct bh_exec_spec spec, const char *text, const char *want)
{
    struct kit_exec e = {.spec = spec};
    kit_sh_with(b, &e, text);
    if (e.result.end != BH_EXEC_EXITED || strcmp(e.out.data, want) != 0)
        fail_msg("'%s': end %d status %d %s, printed '%s' and '%s', not '%s'", text, (int)e.result.end, e.result.status,
                 e.step, e.out.data, e.err.data, want);
    kit_exec_fini(&e);
}

static void run(const char *text, const char *want)
{
    run_in(&box, (struct bh_exec_spec){0}, text, want);
}

/* --- inputs --- */

static void inputs_appear(void **state)
{
    (void)state;
    kit_deliver(&box, "in1/a.txt", "hello\n");
    kit_deliver(&box, "in1/deep/b.txt", "deep\n");
    struct bh_exec_spec spec = {.inputs = "in1"};
    run_in(&box, spec, "cat in/a.txt in/deep/b.txt; stat -c '%U %a' in/a.txt", "hello\ndeep\nagent 444\n");
    run_in(&box, spec, "find in -type f | sort | tr '\\n' ' '", "in/a.txt in/deep/b.txt ");
    run("ls -A in", ""); /* an exec without inputs has none of another's */
    spec.root = true;
    run_in(&box, spec, "cat in/a.txt", "hello\n");
}

static void inputs_cannot_be_changed(void **state)
{
    static const char *const attempts[] = {
        "echo x > in/a.txt",
        "echo x >> in/a.txt",
        "rm -f in/a.txt",
        "mv in/a.txt in/b.txt",
        "touch in/new",
        "chmod 777 in/a.txt",
        "rmdir in",
        "mv in in2",
        "ln in/a.txt out/link",
        "truncate -s 0 in/a.txt",
        "touch -d 2001-01-01 in/a.txt",
        "ln -sf x in",
        "exec 3<in/a.txt && echo x > /proc/self/fd/3",
    };
    (void)state;
    kit_deliver(&box, "in1/a.txt", "hello\n");
    for (size_t i = 0; i < 2 * BH_ARRAY_LEN(attempts); i++) {
        struct kit_exec e = {.spec = {.inputs = "in1", .root = i >= BH_ARRAY_LEN(attempts)}};
        kit_sh_with(&box, &e, attempts[i % BH_ARRAY_LEN(attempts)]);
        if (e.result.end != BH_EXEC_EXITED || e.result.status == 0)
            fail_msg("'%s' went well", attempts[i % BH_ARRAY_LEN(attempts)]);
        kit_exec_fini(&e);
    }
    run_in(&box, (struct bh_exec_spec){.inputs = "in1"}, "cat in/a.txt", "hello\n");
}

/* An inode of its own: nobody outside meets a lock that an agent takes on its input. */
static void a_lock_on_an_input_stays_inside(void **state)
{
    struct kit_exec e = {.spec.inputs = "in1"};
    const char *argv[] = {"/bin/sh", "-c", "exec 3<in/a.txt; flock -x 3; echo locked; exec sleep 1000", NULL};
    char byte;
    (void)state;
    kit_deliver(&box, "in1/a.txt", "hello\n");
    e.spec.argv = argv;
    kit_start(&box, &e);
    T_INT(read(e.out_fd, &byte, 1), 1); /* it has the lock */
    BH_CLEANUP_FREE char *path = kit_path(&box, "deliver/in1/a.txt");
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    T_INT(flock(fd, LOCK_EX | LOCK_NB), 0);
    kit.boxes->ops->kill(e.exec, SIGKILL);
    kit_finish(&box, &e);
    kit_exec_fini(&e);
}

static void deliver_is_nowhere_to_be_seen(void **state)
{
    (void)state;
    kit_deliver(&box, "in1/a.txt", "x");
    kit_deliver(&box, "hidden-name", "x");
    struct bh_exec_spec spec = {.inputs = "in1", .root = true};
    run_in(&box, spec,
           "find / -xdev -name hidden-name 2>/dev/null; find / -name 'hidden-name' -not -path '/proc/*' 2>/dev/null; "
           "grep -c deliver /proc/self/mountinfo; true",
           "0\n");
    kit_deliver(&box, "in2/b.txt", "x");
    run_in(&box, spec, "ls in", "a.txt\n"); /* what comes later belongs to somebody else */
}

static void missing_inputs_are_an_error(void **state)
{
    (void)state;
    struct kit_exec e = {.spec.inputs = "none"};
    kit_sh_with(&box, &e, "exit 0");
    T_INT(e.result.end, BH_EXEC_NOT_STARTED);
    T_INT(e.result.status, ENOENT);
    T_TRUE(strstr(e.step, "'none'"));
    kit_exec_fini(&e);
    e = (struct kit_exec){.spec.inputs = "../upper"};
    kit_sh_with(&box, &e, "exit 0");
    T_INT(e.result.end, BH_EXEC_NOT_STARTED);
    kit_exec_fini(&e);
}

/* --- copies and own files --- */

static void copies_arrive(void **state)
{
    (void)state;
    kit_deliver(&box, "files/tool", "#!/bin/sh\necho tool\n");
    kit_deliver(&box, "files/data", "data\n");
    const struct bh_box_copy copies[] = {{"files/tool", "bin/tool", 0755}, {"files/data", "a/b/data", 0644}};
    struct bh_exec_spec spec = {.copies = copies, .n_copies = 2};
    run_in(&box, spec, "bin/tool; cat a/b/data; stat -c '%U %a' bin/tool a/b/data a; echo more >> a/b/data && echo own",
           "tool\ndata\nagent 755\nagent 644\nagent 755\nown\n");
    run_in(&box, spec, "cat a/b/data", "data\n"); /* again: replaced */
}

static void copies_replace_planted_links(void **state)
{
    (void)state;
    kit_deliver(&box, "f", "new\n");
    const struct bh_box_copy copies[] = {{"f", "dir/f", 0644}, {"f", "file", 0644}};
    struct bh_exec_spec spec = {.copies = copies, .n_copies = 2};
    run("echo old > target; mkdir away; ln -s away dir; ln -s target file; ln -s /etc in2", "");
    run_in(&box, spec, "cat target dir/f file; ls -A away; [ -h dir ] || [ -h file ] || echo replaced",
           "old\nnew\nnew\nreplaced\n");
}

static void own_files_are_there(void **state)
{
    (void)state;
    kit_deliver(&box, "p", "the prompt\n");
    kit_deliver(&box, "j", "{}\n");
    struct bh_exec_spec spec = {.prompt = "p", .params = "j", .needs = "j"};
    run_in(&box, spec, "cat prompt.md params.json needs.json; stat -c %U prompt.md", "the prompt\n{}\n{}\nagent\n");
}

static void a_missing_copy_is_named(void **state)
{
    (void)state;
    const struct bh_box_copy copies[] = {{"nothing", "files/x", 0644}};
    struct kit_exec e = {.spec = {.copies = copies, .n_copies = 1}};
    kit_sh_with(&box, &e, "exit 0");
    T_INT(e.result.end, BH_EXEC_NOT_STARTED);
    T_INT(e.result.status, ENOENT);
    T_TRUE(strstr(e.step, "copy files/x"));
    kit_exec_fini(&e);
}

static void empties_first(void **state)
{
    (void)state;
    const char *const empty[] = {"out/tree", "out/file", "nothing", NULL};
    run("mkdir -p out/tree/deep; touch out/tree/deep/f out/file out/kept; ln -s /etc/passwd out/tree/link", "");
    run_in(&box, (struct bh_exec_spec){.empty_first = empty}, "ls -A out", "kept\n");
}

static void setup_gives_to_the_agent(void **state)
{
    (void)state;
    run_in(&box, (struct bh_exec_spec){.root = true, .give_to_agent = true},
           "mkdir -p /workspace/made/deep /home/agent/.cache; echo x > /workspace/made/deep/f; ln -s / "
           "/workspace/link; echo ok",
           "ok\n");
    run("stat -c %U made made/deep/f link /home/agent/.cache; echo y > made/deep/f && mkdir made/z && echo mine",
        "agent\nagent\nagent\nagent\nmine\n");
}

/* --- outputs --- */

static int open_output(const char *root, const char *path, int want_errno)
{
    int error = 0, fd = kit_open_output(&box, root, path, &error);
    if (error != want_errno || (fd >= 0) != (want_errno == 0))
        fail_msg("%s, %s: fd %d, %s, wanted %s", root, path, fd, strerror(error), strerror(want_errno));
    return fd;
}

static void outputs_come_out(void **state)
{
    struct stat st;
    char bytes[16] = "";
    (void)state;
    run("echo content > out/a; mkdir -p out/d/e; echo x > out/d/e/f; echo other > b; chmod 000 out/a", "");
    T_INT(kit_barrier(&box), 0);
    BH_CLEANUP_FD int a = open_output("out", "a", 0);
    T_INT(read(a, bytes, sizeof(bytes)), 8);
    T_TRUE(fstat(a, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 8);
    BH_CLEANUP_FD int b = open_output(".", "b", 0);
    T_INT(read(b, bytes, sizeof(bytes)), 6);
    BH_CLEANUP_FD int d = open_output("out", "d", 0);
    T_TRUE(fstat(d, &st) == 0 && S_ISDIR(st.st_mode));
    BH_CLEANUP_FD int f = bh_open_beneath(d, "e/f", O_RDONLY, 0);
    T_INT(read(f, bytes, sizeof(bytes)), 2);
    open_output("out", "none", ENOENT);
    open_output("none", "a", ENOENT);
}

static void outputs_lead_nowhere_else(void **state)
{
    struct stat st;
    (void)state;
    run("ln -s /etc/passwd out/link; ln -s .. out/up; ln -s /etc out/dir; mkfifo out/fifo; ln -s out other; "
        "ln -s /proc/1/root out/proc",
        "");
    T_INT(kit_barrier(&box), 0);
    open_output("out", "link", ELOOP);
    open_output("out", "up/b", ELOOP);
    open_output("out", "dir/passwd", ELOOP);
    open_output("out", "proc", ELOOP);
    open_output("out", "../../etc/passwd", EINVAL);
    open_output("out", "..", EINVAL);
    open_output("..", "etc/passwd", EINVAL);
    open_output("out", "/etc/passwd", EINVAL);
    open_output("other", "link", ELOOP);
    BH_CLEANUP_FD int fifo = open_output("out", "fifo", 0); /* and that did not block */
    T_TRUE(fstat(fifo, &st) == 0 && S_ISFIFO(st.st_mode));
}

static void nobody_writes_after_a_barrier(void **state)
{
    (void)state;
    run("(setsid sh -c 'exec 3>>out/log; while :; do echo x >&3; done' &) ; mkdir held; (cd held; exec 4>f; setsid "
        "sleep 1000 &) "
        "; until [ -s out/log ]; do :; done; echo started",
        "started\n");
    T_INT(kit_barrier(&box), 0);
    BH_CLEANUP_FD int fd = open_output("out", "log", 0);
    struct stat before, after;
    T_TRUE(fstat(fd, &before) == 0);
    T_INT(kit_barrier(&box), 0);
    T_TRUE(fstat(fd, &after) == 0);
    T_INT(after.st_size, before.st_size);
    run("echo again > out/more && echo writable", "writable\n"); /* the next exec may write again */
    T_INT(kit_barrier(&box), 0);
    bh_close(open_output("out", "more", 0));
}

/* --- layers --- */

static void create_on(struct kit_box *b, const char *layer, bool writable_usr)
{
    if (kit_create(&kit, b, &(struct kit_how){.layer = layer, .writable_usr = writable_usr}) != 0)
        fail_msg("create on '%s': %s", layer, b->message);
}

static void a_layer_has_files_and_deletions(void **state)
{
    struct kit_box a, b, c;
    (void)state;
    T_INT(kit_create(&kit, &a, &(struct kit_how){.writable_usr = true}), 0);
    run_in(&a, (struct bh_exec_spec){.root = true},
           "echo one > /workspace/f; mkdir /workspace/d; echo x > /workspace/d/x; rm /etc/inputrc /etc/hostname; mkdir "
           "/usr/bh; "
           "echo tool > /usr/bh/tool",
           "");
    T_INT(kit_freeze(&a, "base-1"), 0);
    create_on(&b, "base-1", false);
    run_in(&b, (struct bh_exec_spec){0},
           "cat f d/x /usr/bh/tool; ls /etc/hostname /etc/inputrc /etc/passwd 2>/dev/null; ls /usr/bin/env",
           "one\nx\ntool\n/etc/passwd\n/usr/bin/env\n");
    run_in(&b, (struct bh_exec_spec){.root = true}, "touch /usr/bh/y 2>/dev/null || echo read-only", "read-only\n");
    run_in(&b, (struct bh_exec_spec){.root = true}, "rm -r d; echo two > f; mkdir d; echo new > d/y", "");
    T_INT(kit_freeze(&b, "base-2"), 0);
    create_on(&c, "base-2", true);
    run_in(&c, (struct bh_exec_spec){0}, "cat f; ls d; cat /usr/bh/tool; ls /etc/hostname 2>/dev/null; true",
           "two\ny\ntool\n");
    run_in(&c, (struct bh_exec_spec){.root = true}, "touch /usr/bh/y && echo writable", "writable\n");
    T_INT(kit_destroy(&c, false), 0);
    create_on(&c, "base-1", false); /* what stands on a layer did not change it */
    run_in(&c, (struct bh_exec_spec){0}, "cat f; ls d", "one\nx\n");
    T_INT(kit_destroy(&c, false), 0);
}

static void forty_layers_are_fine(void **state)
{
    struct kit_box b;
    char name[16], below[16] = "";
    (void)state;
    for (int i = 0; i < 40; i++) {
        T_INT(kit_create(&kit, &b, &(struct kit_how){.layer = below[0] ? below : NULL}), 0);
        BH_CLEANUP_FREE char *text = bh_asprintf("echo %d > f%d; echo %d > last; rm -f f%d; true", i, i, i, i - 3);
        run_in(&b, (struct bh_exec_spec){0}, text, "");
        (void)snprintf(name, sizeof(name), "forty-%d", i);
        T_INT(kit_freeze(&b, name), 0);
        (void)snprintf(below, sizeof(below), "%s", name);
    }
    create_on(&b, "forty-39", false);
    run_in(&b, (struct bh_exec_spec){0}, "ls; cat last f39", "f37\nf38\nf39\nin\nlast\nout\n39\n39\n");
    T_INT(kit_destroy(&b, false), 0);
}

static void hostile_layers_steer_nothing(void **state)
{
    struct kit_box b;
    (void)state;
    T_INT(kit_create(&kit, &b, NULL), 0);
    run_in(&b, (struct bh_exec_spec){0}, "rm -rf out; ln -s /etc out; ln -s /home/agent prompt.md; echo ok", "ok\n");
    T_INT(kit_freeze(&b, "hostile"), 0);
    create_on(&b, "hostile", false);
    kit_deliver(&b, "in1/a", "a\n");
    kit_deliver(&b, "p", "prompt\n");
    run_in(&b, (struct bh_exec_spec){.inputs = "in1", .prompt = "p"},
           "cat in/a prompt.md; [ -h prompt.md ] || echo file", "a\nprompt\nfile\n");
    int error;
    T_INT(kit_open_output(&b, "out", "passwd", &error), -1);
    T_INT(error, ELOOP);
    T_INT(kit_destroy(&b, false), 0);
}

static void keeps_what_is_to_be_kept(void **state)
{
    struct kit_box b;
    struct stat st;
    (void)state;
    T_INT(kit_create(&kit, &b, NULL), 0);
    run_in(&b, (struct bh_exec_spec){0}, "echo evidence > out/f", "");
    BH_CLEANUP_FREE char *file = kit_path(&b, "upper/root/workspace/out/f");
    BH_CLEANUP_FREE char *work = kit_path(&b, "work");
    BH_CLEANUP_FREE char *pid = kit_path(&b, "pid");
    BH_CLEANUP_FREE char *deliver = kit_path(&b, "deliver");
    T_INT(kit_destroy(&b, true), 0);
    T_TRUE(lstat(file, &st) == 0);
    T_TRUE(lstat(work, &st) < 0 && lstat(pid, &st) < 0 && lstat(deliver, &st) < 0);
}

/* --- a shared box --- */

static void agents_of_a_shared_box_share_the_root_alone(void **state)
{
    struct kit_box b;
    struct kit_exec first = {.spec = {.inputs = "in1", .prompt = "p1", .params = "p1"}};
    const char *argv[] = {
        "/bin/sh", "-c",
        "cat in/a prompt.md; mkfifo /tmp/go; echo shared > common; read x < /tmp/go; cat in/a prompt.md", NULL};
    char bytes[8];
    (void)state;
    T_INT(kit_create(&kit, &b, &(struct kit_how){.shared = true}), 0);
    kit_deliver(&b, "in1/a", "one\n");
    kit_deliver(&b, "p1", "P1\n");
    kit_deliver(&b, "in2/a", "two\n");
    kit_deliver(&b, "p2", "P2\n");
    first.spec.argv = argv;
    kit_start(&b, &first);
    T_INT(read(first.out_fd, bytes, 4), 4); /* the first is under way */
    struct bh_exec_spec second = {.inputs = "in2", .prompt = "p2"};
    run_in(&b, second, "until [ -s common ]; do :; done; cat in/a prompt.md common; cat params.json; " KIT_PS "; ls in",
           "two\nP2\nshared\n" KIT_PS_ALONE "a\n");
    run_in(&b, (struct bh_exec_spec){0}, "cat prompt.md; ls -A in; echo done > /tmp/go", "");
    kit_finish(&b, &first);
    T_STR(first.out.data, "P1\none\nP1\n"); /* the four bytes of "one\n" were read above */
    kit_exec_fini(&first);
    T_INT(kit_barrier(&b), 0);
    int error;
    BH_CLEANUP_FD int fd = kit_open_output(&b, ".", "common", &error);
    T_TRUE(fd >= 0);
    T_INT(kit_destroy(&b, false), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(inputs_appear),
        TEST(inputs_cannot_be_changed),
        TEST(a_lock_on_an_input_stays_inside),
        TEST(deliver_is_nowhere_to_be_seen),
        TEST(missing_inputs_are_an_error),
        TEST(copies_arrive),
        TEST(copies_replace_planted_links),
        TEST(own_files_are_there),
        TEST(a_missing_copy_is_named),
        TEST(empties_first),
        TEST(setup_gives_to_the_agent),
        TEST(outputs_come_out),
        TEST(outputs_lead_nowhere_else),
        TEST(nobody_writes_after_a_barrier),
        cmocka_unit_test(a_layer_has_files_and_deletions),
        cmocka_unit_test(forty_layers_are_fine),
        cmocka_unit_test(hostile_layers_steer_nothing),
        cmocka_unit_test(keeps_what_is_to_be_kept),
        cmocka_unit_test(agents_of_a_shared_box_share_the_root_alone),
    };
    KIT_MAIN(tests);
}
