/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state directory. All of it in 0700 folders below `home`:
 *
 *   store/bulkhead.db      events and projections
 *   cas/                   the content store
 *   bases/                 layers made once per host
 *   snapshots/             prepared states that attempts start from (workers/rootfs/snapshot.h)
 *   audit/                 the audit log (policies/audit.h)
 *   grants/                what was granted to which document (cli/grants.h)
 *   runs/RUN/owner         locked (flock) by the process that owns the run; holds its pid and start time
 *   runs/RUN/head          head mark of the event chain
 *   runs/RUN/logs/         one file per instance
 *   runs/RUN/boxes/KEY/    a live or kept box: upper/ work/ deliver/ pid
 *   runs/RUN/layers/       frozen layers of the run's shared boxes
 *   runs/RUN/decisions/    what people decided about gates (scheduler/dispatch/decision.h)
 *   runs/RUN/tmp/          temporary files; nothing in it outlives the owner
 *
 * Everything that a process makes while it owns a run lies below runs/RUN, made before it is used: the folder is the
 * journal from which the next owner clears up.
 */
#pragma once

#include <dirent.h>

#include "base/err.h"
#include "base/id.h"

struct bh_home {
    char *path; /* absolute */
    int dirfd;
};

/* Where it would be: as bh_home_open chooses. NOT_FOUND where nothing says. Looks at no file. */
int bh_home_find(const char *path, char **ret, struct bh_err **err) BH_MUST_CHECK;
/*
 * Opens, and where `create` makes, the state directory: `path`, else $BULKHEAD_HOME, else $XDG_STATE_HOME/bulkhead,
 * else $HOME/.local/state/bulkhead. An existing writable directory is used whoever owns it. Errors: PERMISSION, IO,
 * NOT_FOUND (no such directory and !create), STORE_VERSION (made by a newer bulkhead).
 */
int bh_home_open(const char *path, bool create, struct bh_home *ret, struct bh_err **err) BH_MUST_CHECK;
void bh_home_close(struct bh_home *home);
/*
 * For whoever removes things in a home that is there: PERMISSION where a folder of it is a link or belongs to another
 * user, which would remove what that user points it at.
 */
int bh_home_check_own(const struct bh_home *home, struct bh_err **err) BH_MUST_CHECK;
/* A folder beneath the home, reached through no link; -1 with errno. */
int bh_home_open_folder(const struct bh_home *home, const char *rel);
DIR *bh_home_list(const struct bh_home *home, const char *rel);  /* the same, to be listed; NULL with errno */
char *bh_home_path(const struct bh_home *home, const char *rel); /* "<home>/<rel>"; the caller owns it */
char *bh_home_run_path(const struct bh_home *home, const char *run,
                       const char *rel); /* "<home>/runs/<run>/<rel>"; rel may be NULL */

/*
 * Takes a run: makes its folder and locks runs/RUN/owner. BUSY at once where the process that took it lives;
 * where it is dead, what it left behind (a launcher that is ending its boxes) is waited for, at most `wait_ns`. The
 * descriptor holds the lock until it is closed; it is CLOEXEC, and a child that is to keep the run taken (the launcher)
 * inherits a duplicate on purpose.
 */
int bh_home_own_run(const struct bh_home *home, const char *run, int64_t wait_ns, int *ret_fd,
                    struct bh_err **err) BH_MUST_CHECK;
/*
 * The lock of a run that nobody owns, for whoever clears up in it: 1 with a descriptor; 0 where somebody owns it or
 * there is no such run; -1 with errno. Neither blocks nor writes anything; who would own the run meanwhile waits as for
 * a dying owner.
 */
int bh_home_hold_run(const struct bh_home *home, const char *run, int *ret_fd);
/* Whether some live process owns it now. Does not block. */
bool bh_home_run_is_owned(const struct bh_home *home, const char *run);
