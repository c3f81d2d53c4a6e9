/* SPDX-License-Identifier: Apache-2.0 */
/* What a box is cut off from, and what it finds instead. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
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

static void check_in(struct kit_box *b, bool root, const char *text, const char *want)
{
    struct kit_exec e = {.spec.root = root};
    kit_sh_with(b, &e, text);
    if (e.result.end != BH_EXEC_EXITED || strcmp(e.out.data, want) != 0)
        fail_msg("'%s' as %s: end %d status %d %s, printed '%s' and '%s', not '%s'", text, root ? "root" : "agent",
                 (int)e.result.end, e.result.status, e.step, e.out.data, e.err.data, want);
    kit_exec_fini(&e);
}

static void check_out(const char *text, const char *want)
{
    check_in(&box, false, text, want);
}

/* Must fail, as the agent and as root of the box. */
static void must_fail(const char *text)
{
    for (int root = 0; root < 2; root++) {
        struct kit_exec e = {.spec.root = root};
        kit_sh_with(&box, &e, text);
        if (e.result.end != BH_EXEC_EXITED || e.result.status == 0)
            fail_msg("'%s' as %s: end %d status %d", text, root ? "root" : "agent", (int)e.result.end, e.result.status);
        kit_exec_fini(&e);
    }
}

static void network_is_loopback_and_it_is_up(void **state)
{
    (void)state;
    check_out("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '", "lo\n");
    check_out("grep -c '127.0.0.1' /proc/net/fib_trie | grep -qv '^0$' && echo up", "up\n");
    check_out("tail -n +2 /proc/net/route", "");
    check_out("wc -l < /proc/net/unix", "1\n"); /* the heading: no abstract socket of the host */
}

static void sees_only_its_own_processes(void **state)
{
    (void)state;
    check_out(KIT_PS, KIT_PS_ALONE);
}

static void host_is_not_there(void **state)
{
    (void)state;
    check_out("ls /home; ls -A /var/lib /srv /mnt /var/log /tmp",
              "agent\n/mnt:\n\n/srv:\n\n/tmp:\n\n/var/lib:\n\n/var/log:\n");
    check_in(&box, true, "ls -A /root", "");
    must_fail("cat /etc/shadow || cat /etc/npmrc || cat /etc/ssh/ssh_config || cat /etc/machine-id");
    must_fail("grep -q alice /etc/passwd || [ $(wc -l < /etc/passwd) -gt 3 ]");
    check_out("ls -d /sys/* /run/* 2>/dev/null", "/run/lock\n");
    BH_CLEANUP_FREE char *text =
        bh_asprintf("ls %s 2>/dev/null; grep -F %s /proc/self/mountinfo; true", kit.home, kit.home);
    check_out(text, "");
    check_out("hostname; cat /etc/hostname", "bulkhead\nbulkhead\n");
}

static void usr_is_read_only(void **state)
{
    (void)state;
    must_fail("touch /usr/x 2>/dev/null || touch /usr/local/x || touch /opt/x || mkdir /usr/lib/y");
    must_fail("rm /usr/bin/env || echo x >> /usr/bin/env");
    check_out("touch /usr/x 2>&1 | grep -o 'Read-only file system'", "Read-only file system\n");
}

static void usr_is_writable_where_asked(void **state)
{
    struct kit_box b;
    struct stat st;
    (void)state;
    const char *mode = getenv("BH_MODE");
    bool is_root = mode && strcmp(mode, "root") == 0;
    if (getenv("BH_SUBMOUNTS") && !is_root)
        return; /* an ordinary user cannot have an overlay over mounts: /opt stays read-only there */
    T_INT(kit_create(&kit, &b, &(struct kit_how){.writable_usr = true}), 0);
    check_in(&b, true, "touch /usr/bulkhead-test && mkdir /opt/bulkhead-test && echo ok", "ok\n");
    check_in(&b, false, "ls -d /usr/bulkhead-test /opt/bulkhead-test /usr/bin/env",
             "/opt/bulkhead-test\n/usr/bin/env\n/usr/bulkhead-test\n");
    if (is_root) /* ids of the host can be mapped: its files are root's in the box */
        check_in(
            &b, true,
            "stat -c %u /usr/bin/env; rm /usr/bin/env && echo x > /usr/local/bin/x && chmod 700 /usr/bin/id && echo ok",
            "0\nok\n");
    T_INT(kit_destroy(&b, false), 0);
    T_TRUE(lstat("/usr/bulkhead-test", &st) < 0 && lstat("/opt/bulkhead-test", &st) < 0);
    T_TRUE(lstat("/usr/bin/env", &st) == 0);
}

/* A host that has mounts below an allowed directory (in_mode.sh makes some). */
static void mounts_of_the_host_below_opt_are_seen(void **state)
{
    struct kit_box b;
    (void)state;
    if (!getenv("BH_SUBMOUNTS"))
        return;
    check_out("cat /opt/plain/f /opt/sub/f", "top\nbelow\n");
    must_fail("touch /opt/x || touch /opt/sub/x || touch /opt/plain/x");
    T_INT(kit_create(&kit, &b, &(struct kit_how){.writable_usr = true}), 0);
    check_in(&b, true, "cat /opt/plain/f /opt/sub/f; touch /usr/x && echo writable", "top\nbelow\nwritable\n");
    T_INT(kit_destroy(&b, false), 0);
}

static void mounts_and_namespaces_are_out_of_reach(void **state)
{
    (void)state;
    must_fail("mount -t tmpfs none /mnt");
    must_fail("mount -o remount,rw /usr");
    must_fail("umount /proc || umount /workspace/in || umount /usr");
    must_fail("unshare -U true");
    must_fail("unshare -r -m true");
    must_fail("nsenter -t 1 -m true");
    must_fail("chroot / true");
    must_fail("mknod /tmp/sda b 8 0 || mknod /tmp/mem c 1 1");
    must_fail("echo x > /proc/sys/kernel/hostname");
    must_fail("echo x > /proc/sys/kernel/core_pattern");
    must_fail("echo h > /proc/sysrq-trigger");
    must_fail("hostname other");
}

/* What the kernel shows everybody, whoever they are, and container runtimes hide. */
static void check_proc(struct kit_box *b)
{
    check_in(b, false,
             "cd /proc; for f in acpi/* asound/* interrupts kallsyms kcore keys latency_stats sched_debug scsi/* "
             "timer_list; do [ ! -e $f ] || cat $f 2>/dev/null; done; echo none",
             "none\n");
    check_in(b, false, "grep -q ' /proc/sys ro' /proc/self/mountinfo && echo ro", "ro\n");
    check_in(b, true, "(echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start) 2>&1 | grep -o 'Read-only'",
             "Read-only\n");
    check_in(b, false,
             "cat /proc/cpuinfo /proc/meminfo /proc/stat /proc/loadavg /proc/uptime > /dev/null && echo there",
             "there\n");
}

static void proc_shows_no_more_than_it_must(void **state)
{
    struct kit_box shared;
    (void)state;
    check_proc(&box);
    T_INT(kit_create(&kit, &shared, &(struct kit_how){.shared = true}), 0);
    check_proc(&shared);
    T_INT(kit_destroy(&shared, false), 0);
    const char *mode = getenv("BH_MODE");
    if (!mode || strcmp(mode, "userns-root") != 0)
        return;
    /* Agents own half of /proc there: what is not named as harmless is gone. */
    must_fail("head -c 1 /proc/kmsg | grep -q . || head -c 8 /proc/kpagecount | grep -q . || "
              "head -c 1 /proc/vmallocinfo | grep -q . || head -c 1 /proc/slabinfo | grep -q . || "
              "head -c 1 /proc/iomem | grep -q .");
}

static void init_is_out_of_reach(void **state)
{
    (void)state;
    must_fail(
        "cat /proc/1/environ || cat /proc/1/mem || ls /proc/1/root/ || readlink /proc/1/exe || cat /proc/1/maps || "
        "cat /proc/1/fd/3 || readlink /proc/1/fd/3 || cat /proc/1/fdinfo/3 || readlink /proc/1/ns/mnt || "
        "echo '0 0 1' > /proc/1/projid_map || cat /proc/1/syscall || cat /proc/1/auxv");
    check_in(&box, true, "kill -KILL 1; kill -STOP 1; kill -TERM 1; echo alive", "alive\n");
    check_out("echo still", "still\n"); /* the box answers */
    must_fail("ls -d /proc/1 || cat /proc/1/comm");
}

static void devices_are_few_and_work(void **state)
{
    (void)state;
    check_out("ls -A /dev | tr '\\n' ' '", "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero ");
    check_out("echo gone > /dev/null; head -c 3 /dev/zero | wc -c; head -c 5 /dev/urandom | wc -c", "3\n5\n");
    check_out("echo x > /dev/full 2>/dev/null || echo full", "full\n");
    check_out("echo shared > /dev/shm/x; cat /dev/shm/x; ls /dev/fd/ | head -n 1", "shared\n0\n");
    check_out("exec 3<>/dev/ptmx && ls /dev/pts | grep -c '^[0-9]'", "1\n");
    check_out("echo out > /dev/stdout", "out\n");
    must_fail("touch /dev/x || rm /dev/null || ln -s x /dev/y");
    must_fail("echo x > /dev/tty"); /* there is no terminal */
}

static void box_and_box_are_apart(void **state)
{
    struct kit_box other;
    (void)state;
    T_INT(kit_create(&kit, &other, NULL), 0);
    check_out("echo mine > /tmp/x; echo mine > /workspace/x; echo mine > /dev/shm/x; echo ok", "ok\n");
    check_in(&other, false, "ls /tmp /workspace /dev/shm", "/dev/shm:\n\n/tmp:\n\n/workspace:\nin\nout\n");
    T_INT(kit_destroy(&other, false), 0);
    check_out("cat /tmp/x /workspace/x", "mine\nmine\n"); /* and what one exec left the next one finds */
}

static void finds_what_it_was_promised(void **state)
{
    (void)state;
    check_out("ls -A /workspace /home/agent", "/home/agent:\n\n/workspace:\nin\nout\n");
    check_out("touch /workspace/x /workspace/out/x /home/agent/x /tmp/x /var/tmp/x && echo writable", "writable\n");
    must_fail("touch /workspace/in/x");
    check_out("getent passwd agent root | cut -d: -f1,3,6", "agent:1000:/home/agent\nroot:0:/root\n");
    check_out("getent group agent | cut -d: -f1,3; getent hosts localhost | tr -s ' '",
              "agent:1000\n::1 localhost ip6-localhost ip6-loopback\n");
    check_out("for d in bin sbin lib; do [ -e /$d ] || echo no $d; done", "");
    if (access("/etc/ssl/certs/ca-certificates.crt", F_OK) == 0) /* a minimal host has none to hand on */
        check_out("test -s /etc/ssl/certs/ca-certificates.crt && echo certs", "certs\n");
    check_out("/usr/bin/perl -e 'print \"perl\\n\"'", "perl\n"); /* something dynamic with modules */
}

/* Two filters, no leftovers: what the kernel says about the box from outside. */
static void is_confined_from_outside_too(void **state)
{
    char path[64], own[256], theirs[256];
    static const char *const spaces[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(spaces); i++) {
        (void)snprintf(path, sizeof(path), "/proc/self/ns/%s", spaces[i]);
        ssize_t n = readlink(path, own, sizeof(own) - 1);
        T_TRUE(n > 0);
        own[n] = '\0';
        BH_CLEANUP_FREE char *text = bh_asprintf("readlink /proc/self/ns/%s", spaces[i]);
        struct kit_exec e;
        kit_sh(&box, &e, text);
        (void)snprintf(theirs, sizeof(theirs), "%.*s", (int)strcspn(e.out.data, "\n"), e.out.data);
        T_TRUE(theirs[0]);
        assert_string_not_equal(own, theirs);
        kit_exec_fini(&e);
    }
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(network_is_loopback_and_it_is_up),
        TEST(sees_only_its_own_processes),
        TEST(host_is_not_there),
        TEST(usr_is_read_only),
        TEST(usr_is_writable_where_asked),
        TEST(mounts_of_the_host_below_opt_are_seen),
        TEST(mounts_and_namespaces_are_out_of_reach),
        TEST(proc_shows_no_more_than_it_must),
        TEST(init_is_out_of_reach),
        TEST(devices_are_few_and_work),
        TEST(box_and_box_are_apart),
        TEST(finds_what_it_was_promised),
        TEST(is_confined_from_outside_too),
    };
    KIT_MAIN(tests);
}
