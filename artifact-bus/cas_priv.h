/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the content store share: cas.c (names), cas_put.c, cas_sync.c, cas_link.c. */
#pragma once

#include "artifact-bus/cas.h"
#include "base/map.h"

#define BH_CAS_MAGIC 0x43415331u

enum {
    BH_CAS_NAME_SIZE = 72, /* "ab/REST.x" and "object-PID-N" */
    BH_CAS_DIR_MODE = 0700,
    BH_CAS_PLAIN_MODE = 0444,
    BH_CAS_EXEC_MODE = 0555,
};

struct bh_cas_pending {
    char *tmp;    /* name in the temporary folder; NULL: the object was there, only its name may not be durable */
    bool replace; /* what has the name is broken */
};

struct bh_cas {
    uint32_t magic;
    char *dir;
    int objects, tmp;       /* folders */
    struct bh_map *pending; /* object name → struct bh_cas_pending */
    unsigned counter;
    char *buffer; /* of cas_put.c, made when first needed */
};

/* Forgets what is pending; nothing of it is kept. */
void bh_cas_drop_pending(struct bh_cas *cas);

/* "ab/REST" or "ab/REST.x" */
const char *bh_cas_object_name(const struct bh_digest *digest, bool executable, char buf[static BH_CAS_NAME_SIZE]);

/* Where an object can be reached now. */
struct bh_cas_place {
    int dirfd;
    char name[BH_CAS_NAME_SIZE];
    int64_t size;
    bool pending;
};
/* False where the store does not have it. */
bool bh_cas_find(const struct bh_cas *cas, const struct bh_digest *digest, bool executable, struct bh_cas_place *ret);
int bh_cas_place_open(const struct bh_cas_place *p, int *ret_fd); /* 0, or -1 with errno */

/* "WHAT 'sha256:…'" */
int bh_cas_complain(struct bh_err **err, enum bh_code code, int saved_errno, const struct bh_digest *digest,
                    const char *what);

/* The second inode, for content that is to be executed; pending where it is new. */
int bh_cas_make_twin(struct bh_cas *cas, const struct bh_digest *digest, struct bh_err **err) BH_MUST_CHECK;
