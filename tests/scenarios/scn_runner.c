/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs scenario files against the engine: `scn_runner FILE…`, or `scn_runner --fails TEXT FILE` for the harness's own
 * tests, which succeeds where the file fails with a message that holds TEXT. After the last line the log is replayed,
 * whatever the file says.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "tests/scenarios/scn.h"

bool scn_fail(struct scn *s, const char *fmt, ...)
{
    va_list ap;
    struct bh_buf text = BH_BUF_INIT;
    if (s->error)
        return false;
    bh_buf_addf(&text, "%s:%d: ", s->file, s->line);
    va_start(ap, fmt);
    bh_buf_vaddf(&text, fmt, ap);
    va_end(ap);
    s->error = bh_buf_take(&text);
    return false;
}

size_t scn_node(struct scn *s, const char *name)
{
    for (size_t i = 0; i < s->spec->n_nodes; i++) {
        if (bh_streq(s->spec->nodes[i].name, name))
            return i;
    }
    (void)scn_fail(s, "no node '%s'", name);
    return SIZE_MAX;
}

size_t scn_box(struct scn *s, const char *name)
{
    for (size_t i = 0; i < s->spec->n_boxes; i++) {
        if (bh_streq(s->spec->boxes[i].id, name))
            return i;
    }
    (void)scn_fail(s, "no box '%s'", name);
    return SIZE_MAX;
}

size_t scn_gate(struct scn *s, const char *name)
{
    for (size_t i = 0; i < s->spec->n_gates; i++) {
        if (bh_streq(s->spec->gates[i].id, name))
            return i;
    }
    (void)scn_fail(s, "no gate '%s'", name);
    return SIZE_MAX;
}

const char *scn_option(const struct scn *s, size_t from, const char *key)
{
    size_t n = strlen(key);
    for (size_t i = from; i < s->n_words; i++) {
        if (strncmp(s->words[i], key, n) == 0 && s->words[i][n] == '=')
            return s->words[i] + n + 1;
    }
    return NULL;
}

bool scn_int(struct scn *s, const char *text, int64_t *ret)
{
    return bh_parse_int(text, ret) == 0 || scn_fail(s, "'%s' is no number", text);
}

/* "setup", "prepare" or the number of an attempt. */
static bool is_unit(const struct bh_attempt *a, const char *unit)
{
    char text[32];
    return !unit || bh_streq(scn_unit(a->kind, a->attempt, text), unit);
}

const char *scn_unit(enum bh_execution kind, int attempt, char text[static 32])
{
    (void)snprintf(text, 32, "%d", attempt);
    return kind == BH_EXECUTION_SETUP ? "setup" : kind == BH_EXECUTION_PREPARE ? "prepare" : text;
}

const struct bh_attempt *scn_attempt(struct scn *s, const char *word)
{
    char *name BH_CLEANUP_FREE = bh_strdup(word);
    char *hash = strchr(name, '#'), *dot = strchr(name, '.');
    int64_t try_ = 0;
    if (dot)
        *dot++ = '\0';
    if (hash && dot)
        dot[strcspn(dot, "#")] = '\0';
    if (hash) {
        *hash = '\0';
        if (!scn_int(s, hash + 1, &try_))
            return NULL;
    }
    size_t node = scn_node(s, name);
    if (node == SIZE_MAX)
        return NULL;
    for (size_t i = bh_engine_n_attempts(s->engine); i-- > 0;) {
        const struct bh_attempt *a = bh_engine_attempt(s->engine, i);
        if (a->node == node && (!hash || a->try_ == try_) && is_unit(a, dot))
            return a;
    }
    (void)scn_fail(s, "'%s' was never leased", word);
    return NULL;
}

/* clock SPAN */
static bool advance(struct scn *s)
{
    int64_t ns;
    if (!s->words[1] || bh_parse_duration(s->words[1], &ns) != 0)
        return scn_fail(s, "clock takes a duration");
    s->now.us += ns / 1000;
    return true;
}

static bool run_line(struct scn *s)
{
    const char *word = s->words[0];
    if (bh_streq(word, ">"))
        return scn_event(s, true);
    if (bh_streq(word, "!>"))
        return scn_event(s, false);
    if (bh_streq(word, "<"))
        return scn_effect(s);
    if (bh_streq(word, "expect"))
        return scn_expect(s);
    if (bh_streq(word, "crash"))
        return scn_crash(s);
    if (bh_streq(word, "clock"))
        return advance(s);
    return scn_setup(s);
}

static bool split(struct scn *s, char *line)
{
    s->n_words = 0;
    memset(s->words, 0, sizeof(s->words));
    for (char *p = line; *p && *p != '#';) {
        size_t gap = strspn(p, " \t"), n = strcspn(p + gap, " \t");
        p += gap;
        if (n == 0 || *p == '#')
            break;
        if (s->n_words == SCN_MAX_WORDS)
            return scn_fail(s, "more than %d words", SCN_MAX_WORDS);
        s->words[s->n_words++] = p;
        p += n;
        if (*p)
            *p++ = '\0';
    }
    return true;
}

static bool run_text(struct scn *s, char *text)
{
    for (char *next; text; text = next) {
        next = strchr(text, '\n');
        if (next)
            *next++ = '\0';
        s->line++;
        if (!split(s, text) || (s->n_words > 0 && !run_line(s)))
            return false;
    }
    if (!s->engine)
        return scn_fail(s, "the file has no event");
    return scn_effects_done(s) && scn_crash(s);
}

static void fini(struct scn *s)
{
    bh_engine_free(s->engine);
    bh_spec_free(s->spec);
    for (size_t i = 0; i < s->group_names.len; i++)
        bh_free(s->group_names.items[i]);
    bh_free(s->group_names.items);
    bh_free(s->log.items);
    bh_effects_fini(&s->fx);
    bh_free(s->error);
}

/* NULL where all of it holds, else what does not. The caller owns it. */
static char *run_file(const char *file)
{
    struct scn s = {.file = file, .now = {.us = 1000000}};
    struct bh_buf text BH_CLEANUP_BUF = BH_BUF_INIT;
    struct bh_err *err BH_CLEANUP_ERR = NULL;
    int fd BH_CLEANUP_FD = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || bh_read_all(fd, 1 << 20, &text, &err) != 0)
        return bh_asprintf("%s: cannot be read", file);
    s.spec = bh_alloc(sizeof(*s.spec));
    s.run = (struct bh_run_id){.s = "01hzzzzzzzzzzzzzzzzzzzzzzz"};
    (void)run_text(&s, text.data);
    char *error = BH_TAKE(s.error);
    fini(&s);
    return error;
}

int main(int argc, char **argv)
{
    const char *fails = argc == 4 && bh_streq(argv[1], "--fails") ? argv[2] : NULL;
    int bad = argc < 2;
    for (int i = fails ? 3 : 1; i < argc; i++) {
        char *error BH_CLEANUP_FREE = run_file(argv[i]);
        bool good = fails ? error && strstr(error, fails) : !error;
        (void)printf("%s %s\n", good ? "ok" : "not ok", argv[i]);
        if (!good)
            (void)fprintf(stderr, "%s\n", error ? error : "it was to fail, and did not");
        bad |= !good;
    }
    return bad;
}
