/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of our own processes. One line is built, then written by one write(), so that lines of threads
 * and processes that share a file do not mix. A line that repeats the last one is dropped while it comes
 * faster than a person reads, and the number dropped is said. Must never fail or change errno.
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#define REPEAT_FREE 10 /* equal lines within REPEAT_NS that are still written */
#define REPEAT_NS BH_NS_PER_S

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};

static int log_fd = STDERR_FILENO;
static int log_level = -1; /* -1: not set up */

static struct {
    pthread_mutex_t lock;
    char *body;
    struct bh_mono since;
    unsigned seen, dropped;
} repeat = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum bh_log_level bh_log_level_from_env(enum bh_log_level fallback)
{
    const char *text = getenv("BULKHEAD_LOG");
    for (size_t i = 0; text && i < BH_ARRAY_LEN(level_names); i++) {
        if (strcasecmp(text, level_names[i]) == 0)
            return (enum bh_log_level)i;
    }
    return fallback;
}

void bh_log_setup(int fd, enum bh_log_level level)
{
    __atomic_store_n(&log_fd, fd, __ATOMIC_RELAXED);
    __atomic_store_n(&log_level, (int)level, __ATOMIC_RELAXED);
}

static int current_level(void)
{
    int level = __atomic_load_n(&log_level, __ATOMIC_RELAXED);
    if (level < 0) {
        level = (int)bh_log_level_from_env(BH_LOG_WARN);
        __atomic_store_n(&log_level, level, __ATOMIC_RELAXED);
    }
    return level;
}

static bool is_secret(const char *key)
{
    static const char *const words[] = {"token", "secret", "password", "passwd", "authorization", "credential"};
    for (size_t i = 0; i < BH_ARRAY_LEN(words); i++) {
        if (strcasestr(key, words[i]))
            return true;
    }
    return false;
}

static void add_value(struct bh_buf *line, const char *value)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_escape_terminal(&text, value, strlen(value));
    if (text.len && !strpbrk(text.data, " \t\"=")) {
        bh_buf_add(line, text.data, text.len);
        return;
    }
    bh_buf_addc(line, '"');
    for (const char *p = text.data; *p; p++) {
        if (*p == '"')
            bh_buf_addc(line, '\\');
        bh_buf_addc(line, *p);
    }
    bh_buf_addc(line, '"');
}

static void write_line(const char *body)
{
    BH_CLEANUP_BUF struct bh_buf line = BH_BUF_INIT;
    char time[BH_WALL_TEXT];
    bh_buf_addf(&line, "%s %s\n", bh_wall_format(bh_wall_now(), time), body);
    ssize_t n;
    do
        n = write(__atomic_load_n(&log_fd, __ATOMIC_RELAXED), line.data, line.len);
    while (n < 0 && errno == EINTR);
}

static void say_dropped(unsigned dropped)
{
    BH_CLEANUP_BUF struct bh_buf body = BH_BUF_INIT;
    bh_buf_addf(&body, "warn log.repeated pid=%d dropped=%u", (int)getpid(), dropped);
    write_line(body.data);
}

/* Whether the line is to be written; *ret_dropped is how many were left out before it. */
static bool admit(const char *body, unsigned *ret_dropped)
{
    struct bh_mono now = bh_mono_now();
    bool same = bh_streq(repeat.body, body);
    bool fresh = now.ns - repeat.since.ns >= REPEAT_NS;
    *ret_dropped = 0;
    if (same && !fresh && ++repeat.seen > REPEAT_FREE) {
        repeat.dropped++;
        return false;
    }
    if (!same || fresh) {
        *ret_dropped = repeat.dropped;
        repeat.dropped = 0;
        repeat.seen = 1;
        repeat.since = now;
    }
    if (!same) {
        bh_free(repeat.body);
        repeat.body = bh_strdup(body);
    }
    return true;
}

void bh_log(enum bh_log_level level, const char *event, ...)
{
    if ((int)level < current_level() || level >= BH_LOG_OFF)
        return;
    int saved = errno;
    BH_CLEANUP_BUF struct bh_buf body = BH_BUF_INIT;
    bh_buf_addf(&body, "%s %s pid=%d", level_names[level], event, (int)getpid());
    va_list ap;
    va_start(ap, event);
    for (const char *key; (key = va_arg(ap, const char *)) != NULL;) {
        const char *value = va_arg(ap, const char *);
        bh_buf_addf(&body, " %s=", key);
        add_value(&body, !value ? "-" : is_secret(key) ? "***" : value);
    }
    va_end(ap);
    unsigned dropped;
    (void)pthread_mutex_lock(&repeat.lock);
    bool admitted = admit(body.data, &dropped);
    (void)pthread_mutex_unlock(&repeat.lock);
    if (dropped)
        say_dropped(dropped);
    if (admitted)
        write_line(body.data);
    errno = saved;
}
