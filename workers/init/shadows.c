/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before a check in the workspace that an attempt has left: what tools read by themselves from the folder in which they
 * are started or find a file, and from the folders above it, is put back as it was before `run`. A check does not name
 * these files, and so would not know that it obeys them. So is what would be loaded instead of one of the check's
 * files, which lies beside it under a name that goes first. Only the folders on the way to the check's own files, its
 * working directory and /workspace itself are looked at; what else lies there is the attempt's work.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "workers/init/init.h"

#define DEPTH_MAX 16
#define WORKSPACE "/workspace"

/* Each either makes a tool run something, or makes a test run pass that has run nothing. */
static const char *const names[] = {
    "conftest.py",      "pytest.ini",     ".pytest.ini",    "pytest.toml",   ".pytest.toml", "sitecustomize.py",
    "usercustomize.py", "__pycache__", /* its files may claim to be the compiled form of any source */
    ".npmrc",           ".yarnrc",        ".yarnrc.yml",    ".pnpmfile.cjs", ".mocharc.js",  ".mocharc.cjs",
    ".mocharc.json",    ".mocharc.jsonc", ".mocharc.yaml",  ".mocharc.yml",  ".rspec",       ".proverc",
    ".cargo",           ".envrc",         ".gitattributes", "GNUmakefile",   ".git/config",  ".git/config.worktree",
    ".git/hooks",       ".git/info",      ".git/commondir",
};

static int copy_in(int from, int to, const char *name, unsigned depth);

static int copy_bytes(int from, int to)
{
    for (;;) {
        ssize_t n = sendfile(to, from, NULL, 1 << 30);
        if (n == 0 || (n < 0 && errno != EINTR))
            return (int)n;
    }
}

static int copy_file(int from, int to, const char *name, const struct stat *st)
{
    BH_CLEANUP_FD int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    BH_CLEANUP_FD int out = in >= 0 ? openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    if (out < 0 || copy_bytes(in, out) < 0)
        return -1;
    return fchown(out, st->st_uid, st->st_gid) < 0 ? -1 : fchmod(out, st->st_mode & 0777);
}

static int copy_inside(int from, int to, unsigned depth)
{
    int rc = 0;
    DIR *dir = bh_dir_stream(openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir)
        return -1;
    for (struct dirent *e; rc == 0 && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = copy_in(from, to, e->d_name, depth);
    }
    (void)closedir(dir);
    return rc;
}

static int copy_dir(int from, int to, const char *name, const struct stat *st, unsigned depth)
{
    if (mkdirat(to, name, 0700) < 0)
        return -1;
    BH_CLEANUP_FD int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    BH_CLEANUP_FD int out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (in < 0 || out < 0 || copy_inside(in, out, depth + 1) < 0)
        return -1;
    return fchown(out, st->st_uid, st->st_gid) < 0 ? -1 : fchmod(out, st->st_mode & 0777);
}

static int copy_link(int from, int to, const char *name)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
    if (n < 0)
        return -1;
    target[n] = '\0';
    return symlinkat(target, to, name);
}

/* What is neither file, directory nor link does no tool any good. */
static int copy_in(int from, int to, const char *name, unsigned depth)
{
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -1;
    if (depth > DEPTH_MAX) {
        errno = ELOOP;
        return -1;
    }
    if (S_ISREG(st.st_mode))
        return copy_file(from, to, name, &st);
    if (S_ISDIR(st.st_mode))
        return copy_dir(from, to, name, &st, depth);
    return S_ISLNK(st.st_mode) ? copy_link(from, to, name) : 0;
}

/* --- one folder --- */

static bool is_missing(int dir, const char *name)
{
    struct stat st;
    return dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0;
}

static int restore(int now, int before, const char *name)
{
    if (is_missing(now, name) && is_missing(before, name))
        return 0;
    if (bh_rmtree_at(now, name) < 0)
        return -1;
    return before >= 0 ? copy_in(before, now, name, 0) : 0;
}

/* A folder that is not there any more is put back whole. As a link or a file it leads elsewhere: it is what it was. */
static int restore_git(int now, int before, bool *ret_dir)
{
    struct stat st;
    *ret_dir = fstatat(now, ".git", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
    return *ret_dir ? 0 : restore(now, before, ".git");
}

/* git takes a folder with these in it for a repository, with a configuration of its own; without HEAD it does not. */
static int restore_bare_git(int now, int before)
{
    bool bare = !is_missing(now, "HEAD") &&
                (!is_missing(now, "commondir") || (!is_missing(now, "objects") && !is_missing(now, "refs")));
    if (!bare)
        return 0;
    return restore(now, before, "HEAD") < 0 || restore(now, before, "config") < 0 ||
                   restore(now, before, "commondir") < 0
               ? -1
               : 0;
}

static int restore_in_git(int now, int before, const char *name)
{
    BH_CLEANUP_FD int now_git = openat(now, ".git", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    BH_CLEANUP_FD int git = before < 0 ? -1 : openat(before, ".git", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return now_git < 0 ? -1 : restore(now_git, git, name);
}

/* --- names that go before those of the check's files --- */

typedef bool match_fn(const char *name, const char *stem, size_t len);

/* What matches and is in only one of both, or in both: a folder is never read while something is put into it. */
static int restore_those_in(int listed, int now, int before, match_fn *match, const char *stem, size_t len)
{
    int rc = 0;
    DIR *dir = bh_dir_stream(listed < 0 ? -1 : openat(listed, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir)
        return listed < 0 ? 0 : -1;
    for (struct dirent *e; rc == 0 && (e = readdir(dir));) {
        if (!match(e->d_name, stem, len))
            continue;
        if (listed != now)
            rc = restore(now, before, e->d_name);
        else if (is_missing(before, e->d_name))
            rc = bh_rmtree_at(now, e->d_name);
    }
    (void)closedir(dir);
    return rc;
}

static int restore_matching(int now, int before, match_fn *match, const char *stem, size_t len)
{
    return restore_those_in(now, now, before, match, stem, len) < 0 ||
                   restore_those_in(before, now, before, match, stem, len) < 0
               ? -1
               : 0;
}

static bool starts_a_package(const char *name, const char *stem, size_t len)
{
    (void)stem;
    (void)len;
    return strncmp(name, "__init__.", strlen("__init__.")) == 0;
}

/* STEM.so and STEM.cpython-….so go before STEM.py. */
static bool is_compiled_module(const char *name, const char *stem, size_t len)
{
    size_t n = strlen(name);
    return n >= len + 3 && strncmp(name, stem, len) == 0 && name[len] == '.' && strcmp(name + n - 3, ".so") == 0;
}

/* Only with an __init__ in it a folder goes before a file; a link to one is no folder of ours. */
static int restore_package(int now, int before, const char *name)
{
    struct stat st;
    if (fstatat(now, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (!S_ISDIR(st.st_mode))
        return S_ISLNK(st.st_mode) ? restore(now, before, name) : 0;
    BH_CLEANUP_FD int in_now = openat(now, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    BH_CLEANUP_FD int then = before < 0 ? -1 : openat(before, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return in_now < 0 ? -1 : restore_matching(in_now, then, starts_a_package, NULL, 0);
}

/* In the order in which they are tried for a name without a suffix. */
static const char *const scripts[] = {"", ".mjs", ".js", ".cjs", ".mts", ".ts", ".jsx", ".tsx"};

static size_t script_rank(const char *suffix)
{
    size_t i = 1;
    while (i < BH_ARRAY_LEN(scripts) && strcmp(scripts[i], suffix) != 0)
        i++;
    return i;
}

/* A folder without a suffix goes after all of them. */
static int restore_scripts(int now, int before, const char *stem, size_t rank)
{
    char name[NAME_MAX + 1];
    struct stat st;
    for (size_t i = 0; i < rank; i++) {
        if ((size_t)snprintf(name, sizeof(name), "%s%s", stem, scripts[i]) >= sizeof(name))
            continue;
        if (i == 0 && fstatat(now, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
            continue;
        if (restore(now, before, name) < 0)
            return -1;
    }
    return 0;
}

static int restore_fixed(int now, int before, const char *name)
{
    static const char *const pairs[][2] = {
        {"Makefile", "makefile"},       {"Rakefile", "rakefile"},    {"rakefile.rb", "rakefile"},
        {"rakefile.rb", "Rakefile"},    {"Rakefile.rb", "rakefile"}, {"Rakefile.rb", "Rakefile"},
        {"Rakefile.rb", "rakefile.rb"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(pairs); i++) {
        if (strcmp(pairs[i][0], name) == 0 && restore(now, before, pairs[i][1]) < 0)
            return -1;
    }
    return 0;
}

static int restore_rivals(int now, int before, const char *name)
{
    char stem[NAME_MAX + 2];
    const char *suffix = strrchr(name, '.');
    if (!suffix || suffix == name || strlen(name) > NAME_MAX)
        return restore_fixed(now, before, name);
    size_t len = (size_t)(suffix - name), rank = script_rank(suffix);
    memcpy(stem, name, len);
    stem[len] = '\0';
    if (rank < BH_ARRAY_LEN(scripts))
        return restore_scripts(now, before, stem, rank);
    if (strcmp(suffix, ".pm") == 0) { /* its compiled form */
        (void)snprintf(stem + len, sizeof(stem) - len, ".pmc");
        return restore(now, before, stem);
    }
    if (strcmp(suffix, ".py") != 0)
        return restore_fixed(now, before, name);
    return restore_matching(now, before, is_compiled_module, stem, len) < 0 ? -1 : restore_package(now, before, stem);
}

/* `files`: one of the check's files lies in it or below it. */
static int restore_folder(const struct bh_place *p, int before, const char *folder, bool files)
{
    bool git;
    BH_CLEANUP_FD int now = bh_open_beneath(p->workspace, folder, O_RDONLY | O_DIRECTORY, 0);
    if (now < 0) /* not there, or no directory: nothing is found in it, and what stands there will be replaced */
        return 0;
    BH_CLEANUP_FD int then = bh_open_beneath(before, folder, O_RDONLY | O_DIRECTORY, 0);
    if (restore_git(now, then, &git) < 0 || restore_bare_git(now, then) < 0)
        return -1;
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        bool in_git = strncmp(names[i], ".git/", 5) == 0;
        if (in_git ? git && restore_in_git(now, then, names[i] + 5) < 0 : restore(now, then, names[i]) < 0)
            return -1;
    }
    return files ? restore_matching(now, then, starts_a_package, NULL, 0) : 0;
}

static int restore_beside(const struct bh_place *p, int before, const char *path)
{
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (slash && (size_t)(slash - path) < sizeof(folder)) {
        memcpy(folder, path, (size_t)(slash - path));
        folder[slash - path] = '\0';
    }
    BH_CLEANUP_FD int now = bh_open_beneath(p->workspace, folder, O_RDONLY | O_DIRECTORY, 0);
    if (now < 0)
        return 0;
    BH_CLEANUP_FD int then = bh_open_beneath(before, folder, O_RDONLY | O_DIRECTORY, 0);
    return restore_rivals(now, then, name);
}

/* --- all of them --- */

static int fail_in(const char *folder, struct bh_fail *fail)
{
    return bh_fail(fail, errno, "put back what lay in /workspace/%s", folder);
}

/* The folders above the last segment of `path`; those that `known` passed as well are done. */
static int restore_above(const struct bh_place *p, int before, const char *path, const char *known, bool files,
                         struct bh_fail *fail)
{
    char folder[PATH_MAX];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t len = (size_t)(slash - path);
        if (len >= sizeof(folder))
            return bh_fail(fail, ENAMETOOLONG, "put back what lay in /workspace");
        if (known && strncmp(known, path, len + 1) == 0)
            continue;
        memcpy(folder, path, len);
        folder[len] = '\0';
        if (restore_folder(p, before, folder, files) < 0)
            return fail_in(folder, fail);
    }
    return 0;
}

/* What stands on the way to it and is no folder leads elsewhere, or nowhere: a folder stands there then. */
static int restore_cwd(const struct bh_place *p, int before, const char *cwd, struct bh_fail *fail)
{
    char path[PATH_MAX];
    size_t len = strlen(WORKSPACE "/");
    if (strncmp(cwd, WORKSPACE "/", len) != 0 || !bh_path_is_clean(cwd + len) || bh_path_is_agents_own(cwd + len))
        return 0;
    if ((size_t)snprintf(path, sizeof(path), "%s/", cwd + len) >= sizeof(path))
        return bh_fail(fail, ENAMETOOLONG, "put back what lay in /workspace");
    if (bh_place_folder(p, path, fail) < 0)
        return -1;
    return restore_above(p, before, path, NULL, false, fail);
}

int bh_shadows_restore(const struct bh_place *p, int before, const struct bh_exec_plan *plan, struct bh_fail *fail)
{
    if (restore_folder(p, before, ".", plan->n_copies > 0) < 0)
        return fail_in("", fail);
    if (restore_cwd(p, before, plan->cwd, fail) < 0)
        return -1;
    for (uint32_t i = 0; i < plan->n_copies; i++) {
        const char *to = plan->copies[i].to;
        if (!bh_path_is_clean(to))
            continue;
        if (restore_above(p, before, to, i > 0 ? plan->copies[i - 1].to : NULL, true, fail) < 0)
            return -1;
        if (restore_beside(p, before, to) < 0)
            return fail_in(to, fail);
    }
    return 0;
}
