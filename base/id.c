/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run ids. Owns the one piece of state that makes them strictly increasing: the last one given. May be
 * called from any thread. A second id of the same millisecond, or one made after the clock went back,
 * is the last one plus a random step, so that a forked process does not follow the same path.
 */
#include "base/id.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

struct id {
    uint64_t high; /* 48 bits of milliseconds, then 16 random ones */
    uint64_t low;
};

static void fill_random(void *p, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = getrandom((char *)p + done, n - done, 0);
        BH_ASSERT(got > 0 || errno == EINTR);
        done += got > 0 ? (size_t)got : 0;
    }
}

static struct id next_id(uint64_t ms)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct id last;
    struct id id;
    fill_random(&id, sizeof(id));
    (void)pthread_mutex_lock(&lock);
    if (ms > last.high >> 16) {
        id.high = ms << 16 | (id.high & 0xffff);
    } else {
        uint64_t step = (id.low & 0xffffffff) + 1;
        id.low = last.low + step;
        id.high = last.high + (id.low < step);
    }
    last = id;
    (void)pthread_mutex_unlock(&lock);
    return id;
}

struct bh_run_id bh_run_id_new(void)
{
    struct bh_run_id text = {0};
    struct id id = next_id((uint64_t)(bh_wall_now().us / 1000) & 0xffffffffffff);
    for (int i = BH_ID_LEN - 1; i >= 0; i--) {
        text.s[i] = alphabet[id.low & 31];
        id.low = id.low >> 5 | id.high << 59;
        id.high >>= 5;
    }
    return text;
}

static bool valid_prefix(const char *text)
{
    /* 26 characters hold 130 bits; the first of them may use only three. */
    if (text[0] < '0' || text[0] > '7')
        return false;
    for (int i = 1; i < BH_ID_LEN; i++) {
        if (!text[i] || !strchr(alphabet, text[i]))
            return false;
    }
    return true;
}

bool bh_run_id_valid(const char *text)
{
    return valid_prefix(text) && !text[BH_ID_LEN];
}

struct bh_instance_id bh_instance_id_make(struct bh_run_id run, unsigned n)
{
    struct bh_instance_id id;
    BH_ASSERT(n >= 1 && n <= 999999);
    (void)snprintf(id.s, sizeof(id.s), "%.*s-%06u", BH_ID_LEN, run.s, n);
    return id;
}

bool bh_instance_id_valid(const char *text)
{
    if (!valid_prefix(text) || text[BH_ID_LEN] != '-')
        return false;
    const char *n = text + BH_ID_LEN + 1;
    return strlen(n) == 6 && strspn(n, "0123456789") == 6 && strcmp(n, "000000") != 0;
}
