/* SPDX-License-Identifier: Apache-2.0 */
/* The walker (walk.h). Folders are taken from a list, not by recursion: depth is data here, not stack. */
#include "workers/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

struct folder {
    char *name; /* relative to the root, "." for itself */
    int depth;
};

struct walker {
    int root;
    struct folder *folders; /* still to be read */
    size_t len, cap;
    struct bh_walk *out;
};

static void note_error(struct walker *w, const char *name, int error)
{
    if (w->out->error != 0 || error == ENOENT) /* in a shared box others may be removing things */
        return;
    w->out->error = error;
    w->out->error_at = bh_strdup(name);
}

static mode_t type_of(int dirfd, const struct dirent *entry)
{
    struct stat st;
    if (entry->d_type != DT_UNKNOWN)
        return DTTOIF(entry->d_type);
    return fstatat(dirfd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_mode & S_IFMT : 0;
}

static void add_entry(struct walker *w, const struct folder *folder, int dirfd, const struct dirent *entry)
{
    bool at_root = strcmp(folder->name, ".") == 0;
    char *name = at_root ? bh_strdup(entry->d_name) : bh_asprintf("%s/%s", folder->name, entry->d_name);
    mode_t type = type_of(dirfd, entry);
    if (w->out->len >= BH_WALK_MAX_ENTRIES || strlen(name) >= PATH_MAX) {
        w->out->overflow = true;
        bh_free(name);
        return;
    }
    *BH_PUSH(w->out->entries, w->out->len, w->out->cap) = (struct bh_walk_entry){.name = name, .type = type};
    if (type != S_IFDIR)
        return;
    if (folder->depth + 1 >= BH_WALK_MAX_DEPTH)
        w->out->overflow = true;
    else
        *BH_PUSH(w->folders, w->len, w->cap) = (struct folder){.name = bh_strdup(name), .depth = folder->depth + 1};
}

static void read_folder(struct walker *w, const struct folder *folder)
{
    DIR *dir =
        bh_dir_stream(bh_open_beneath(w->root, folder->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK, 0));
    if (!dir) {
        note_error(w, folder->name, errno);
        return;
    }
    while (!w->out->overflow) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno != 0)
                note_error(w, folder->name, errno);
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            add_entry(w, folder, dirfd(dir), entry);
    }
    (void)closedir(dir);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct bh_walk_entry *)a)->name, ((const struct bh_walk_entry *)b)->name);
}

void bh_walk_folder(int dirfd, struct bh_walk *ret)
{
    struct walker w = {.root = dirfd, .out = ret};
    *BH_PUSH(w.folders, w.len, w.cap) = (struct folder){.name = bh_strdup("."), .depth = 0};
    while (w.len > 0) {
        struct folder folder = w.folders[--w.len];
        if (!ret->overflow)
            read_folder(&w, &folder);
        bh_free(folder.name);
    }
    bh_free(w.folders);
    if (ret->len > 0)
        qsort(ret->entries, ret->len, sizeof(*ret->entries), by_name);
}

void bh_walk_fini(struct bh_walk *w)
{
    for (size_t i = 0; i < w->len; i++)
        bh_free(w->entries[i].name);
    bh_free(w->entries);
    bh_free(w->error_at);
    *w = (struct bh_walk){0};
}
