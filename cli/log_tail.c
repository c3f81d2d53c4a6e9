/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a log once and keeps its last lines in a ring. A log that is missing or damaged has none: whoever asks has
 * other things to tell. */
#include "cli/log_tail.h"

#include "base/mem.h"
#include "base/text.h"
#include "workers/logs/log_file.h"

enum { LONGEST = 400 }; /* bytes of a line that are shown */

size_t bh_log_tail(const struct bh_cli_run *run, const char *instance, size_t max, const char *lead, struct bh_buf *out)
{
    BH_CLEANUP_FREE char *rel = bh_asprintf("logs/%s.log", instance);
    BH_CLEANUP_FREE char *path = bh_home_run_path(&run->home, run->id, rel);
    BH_CLEANUP_FREE struct bh_buf *ring = bh_calloc(max + 1, sizeof(*ring));
    struct bh_log_reader *reader = NULL;
    struct bh_log_line line;
    size_t n = 0;
    if (bh_log_reader_open(path, &reader, NULL) != 0)
        return 0;
    for (size_t i = 0; i < max; i++)
        bh_buf_init(&ring[i]);
    while (bh_log_reader_next(reader, &line, NULL) == 1) {
        struct bh_buf *slot = &ring[n++ % max];
        bh_buf_clear(slot);
        if (line.gap) {
            BH_CLEANUP_FREE char *gap = bh_log_gap_text(&line);
            bh_buf_addf(slot, "(%s)", gap);
            continue;
        }
        bh_escape_terminal(slot, line.text, line.len < LONGEST ? line.len : LONGEST);
        if (line.len > LONGEST)
            bh_buf_adds(slot, " \u2026");
    }
    bh_log_reader_close(reader);
    size_t shown = n < max ? n : max;
    for (size_t i = n - shown; i < n; i++)
        bh_buf_addf(out, "%s%s\n", lead, ring[i % max].data);
    for (size_t i = 0; i < max; i++)
        bh_buf_fini(&ring[i]);
    return shown;
}
