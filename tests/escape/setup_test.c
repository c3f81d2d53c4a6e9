/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks on the making of a box. Layers are written by agents, and a later box is made from them: whatever stands
 * there in the place of a folder, nothing of the host may be mounted on, written to or shown through it. Every name
 * that launcher or init opens, mounts on or makes is replaced by every kind of thing; the box may be refused, or be
 * made without it, but the witness outside stays as it was and its secret is not seen. Init's own root holds nothing of
 * the host, so what could be hit in truth is what a box is made from: its folder, the layers, the base. They are
 * compared with those of a box that nobody attacks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"

static const char *const names[] = {
    "workspace",
    "workspace/in",
    "workspace/out",
    "workspace/prompt.md",
    "workspace/params.json",
    "workspace/needs.json",
    "workspace/files",
    "workspace/files/deep",
    "proc",
    "dev",
    "usr",
    "opt",
    "home",
    "home/agent",
    "tmp",
    "etc",
    "sys",
    "var",
    "run",
    "root",
    "mnt",
    "bin",
    "lib",
    "lib64",
    "dev/shm",
    "dev/pts",
    "sbin",
};

static char *witness; /* a folder of the host that everybody may write to */
static char *before;  /* how it was */
static char *folder;  /* of a box that nobody attacks */

static char *host_path(const char *name)
{
    return bh_asprintf("%s/%s", witness, name);
}

static void write_file(const char *path, const char *text)
{
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    T_TRUE(fd >= 0);
    T_INT(bh_write_all(fd, text, strlen(text)), 0);
}

static void make_witness(void)
{
    static const char *const dirs[] = {"", "in", "out", "files", "agent", "shm", "pts"};
    static const char *const files[] = {"secret", "prompt.md", "in/secret", "out/secret", "files/x"};
    for (size_t i = 0; i < BH_ARRAY_LEN(dirs); i++) {
        BH_CLEANUP_FREE char *path = host_path(dirs[i]);
        T_TRUE(mkdir(path, 0777) == 0 && chmod(path, 0777) == 0);
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(files); i++) {
        BH_CLEANUP_FREE char *path = host_path(files[i]);
        write_file(path, "the host's secret\n");
    }
}

static char *said_by(char *command)
{
    FILE *f = popen(command, "re");
    char *text = bh_calloc(1, 1 << 18);
    T_TRUE(f && fread(text, 1, (1 << 18) - 1, f) > 0);
    T_INT(pclose(f), 0);
    bh_free(command);
    return text;
}

/* Everything about it in one text. */
static char *look_at_witness(void)
{
    return said_by(bh_asprintf(
        "cd %s && find . -printf '%%p %%y %%m %%s %%T@\\n' | sort && cat secret prompt.md */secret", witness));
}

/* What boxes are made from. */
static char *look_at_layers(void)
{
    return said_by(bh_asprintf("cd %s && find runs/r1/layers bases -printf '%%p %%y %%s %%l\\n' | sort", kit.home));
}

/* The box's folder, but what is in its upper: that is the box's own. */
static char *look_at_folder(struct kit_box *b)
{
    return said_by(bh_asprintf("cd %s/boxes/%s && { ls -A; ls -A upper work; find deliver -printf '%%p %%y %%s\\n'; } "
                               "2>/dev/null | sort",
                               kit.run_dir, b->key));
}

static bool is_root(void)
{
    const char *mode = getenv("BH_MODE");
    return mode && strcmp(mode, "root") == 0;
}

static void own(const char *path)
{
    if (is_root()) /* as if an agent had made it */
        T_INT(lchown(path, 200000, 200000), 0);
}

enum thing { LINK, REGULAR, FIFO, NOTHING, THINGS };

static void put_thing(const char *path, enum thing thing, const char *link)
{
    if (thing == LINK)
        T_INT(symlink(link, path), 0);
    else if (thing == REGULAR)
        write_file(path, "in the way\n");
    else if (thing == FIFO)
        T_INT(mkfifo(path, 0666), 0);
    else
        T_INT(mknod(path, S_IFCHR, 0), 0); /* overlay: removed here */
    own(path);
}

static bool make_layer(const char *layer, const char *name, enum thing thing, const char *link)
{
    BH_CLEANUP_FREE char *top = bh_asprintf("%s/layers/%s", kit.run_dir, layer);
    BH_CLEANUP_FREE char *root = bh_asprintf("%s/root", top);
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/%s", root, name);
    BH_CLEANUP_FREE char *dir = bh_path_dirname(path);
    T_INT(bh_mkdir_p(dir, 0755, NULL), 0);
    own(top);
    own(root);
    own(dir);
    put_thing(path, thing, link);
    return true;
}

/* Uses the box as the worker does: files, a prompt, inputs, a command, an output. */
static void use(struct kit_box *b)
{
    static const struct bh_box_copy copies[] = {{"f", "files/x", 0644}, {"f", "files/deep/x", 0755}};
    static const char *const empty[] = {"files/old", "out", NULL};
    int why;
    kit_deliver(b, "f", "from outside\n");
    kit_deliver(b, "p", "a prompt\n");
    kit_deliver(b, "inputs/data", "an input\n");
    for (int root = 0; root < 2; root++) {
        struct kit_exec e = {.spec = {.root = root,
                                      .copies = copies,
                                      .n_copies = BH_ARRAY_LEN(copies),
                                      .prompt = "p",
                                      .params = "p",
                                      .needs = "p",
                                      .inputs = "inputs",
                                      .empty_first = root ? empty : NULL,
                                      .give_to_agent = root}};
        kit_sh_with(b, &e,
                    "mounts=; while read -r a b c d at rest; do mounts=\"$mounts $at \"; done < /proc/self/mountinfo; "
                    "for at in /proc /dev /dev/pts /dev/shm /workspace/in; do case \"$mounts\" in *\" $at \"*) ;; "
                    "*) echo missing $at;; esac; done; "
                    "cat /*/secret /*/*/secret in/secret out/secret 2>/dev/null; ls -d /deliver /stage /layers /base "
                    "2>/dev/null; echo x > out/made; echo x > /tmp/made; echo x > /home/agent/made; echo done");
        /* A box that is made at all has its mounts where they belong; a program that does not start has none. */
        if (e.result.end == BH_EXEC_EXITED && strstr(e.out.data, "missing"))
            fail_msg("a box with its mounts elsewhere: %s", e.out.data);
        assert_null(strstr(e.out.data, "the host's secret"));
        assert_null(strstr(e.out.data, "/deliver\n"));
        assert_null(strstr(e.out.data, "/layers\n"));
        kit_exec_fini(&e);
    }
    BH_CLEANUP_FD int fd = kit_open_output(b, "out", "secret", &why);
    BH_CLEANUP_FD int other = kit_open_output(b, ".", "out/secret", &why);
    T_TRUE(fd < 0 && other < 0);
}

static unsigned layers, made;

static void same(const char *what, const char *name, enum thing thing, const char *link, const char *was, char *is)
{
    if (strcmp(was, is) != 0)
        fail_msg("%s as %d -> %s: %s was\n%s\nand is\n%s", name, (int)thing, link ? link : "", what, was, is);
    bh_free(is);
}

static void attack(const char *name, enum thing thing, const char *link, bool shared)
{
    struct kit_box b;
    BH_CLEANUP_FREE char *layer = bh_asprintf("hostile%u", layers++);
    make_layer(layer, name, thing, link);
    BH_CLEANUP_FREE char *was = look_at_layers();
    int rc = kit_create(&kit, &b, &(struct kit_how){.layer = layer, .shared = shared});
    if (rc == 0) {
        made++;
        use(&b);
        same("the box's folder", name, thing, link, folder, look_at_folder(&b));
        T_INT(kit_destroy(&b, false), 0);
    } else {
        T_TRUE(b.message && b.message[0]); /* refused in words */
        kit_forget(&b);
    }
    same("what boxes are made from", name, thing, link, was, look_at_layers());
    same("the witness", name, thing, link, before, look_at_witness());
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/layers/%s", kit.run_dir, layer);
    T_INT(bh_rmtree_at(AT_FDCWD, path), 0);
}

static int set_up(void **state)
{
    struct kit_box b;
    (void)state;
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/layers", kit.run_dir);
    T_INT(bh_mkdir_p(path, 0700, NULL), 0);
    before = look_at_witness();
    T_INT(kit_create(&kit, &b, NULL), 0);
    use(&b);
    folder = look_at_folder(&b);
    T_INT(kit_destroy(&b, false), 0);
    return 0;
}

static void links_in_the_way_steer_nothing(void **state)
{
    (void)state;
    const char *const links[] = {
        witness, "/home", "/layers", "/base", "/deliver", "/proc/1/root",
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        for (size_t k = 0; k < BH_ARRAY_LEN(links); k++)
            attack(names[i], LINK, links[k], (i + k) % 2);
    }
}

static void other_things_in_the_way_steer_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        for (int thing = REGULAR; thing < THINGS; thing++)
            attack(names[i], (enum thing)thing, NULL, (i + (size_t)thing) % 2);
    }
}

/* Most names are only an agent's own: a layer in which one of them is odd makes a box all the same. */
static void most_boxes_are_made(void **state)
{
    (void)state;
    T_TRUE(made > layers / 3);
    T_TRUE(made < layers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_in_the_way_steer_nothing),
        cmocka_unit_test(other_things_in_the_way_steer_nothing),
        cmocka_unit_test(most_boxes_are_made),
    };
    umask(022);
    int rc = kit_begin();
    if (rc != 0)
        return rc;
    witness = bh_asprintf("%s/witness", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    make_witness();
    rc = cmocka_run_group_tests(tests, set_up, NULL);
    kit_end();
    bh_free(before);
    bh_free(folder);
    bh_free(witness);
    return rc;
}
