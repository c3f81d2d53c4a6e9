/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/port_words.h"

#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "workers/logs/log_file.h"

#define LOG_MAX (1 << 20) /* of a longer one the end is not looked for */

static bool says_so(const struct bh_log_line *line)
{
    static const char *const words[] = {"already in use", "EADDRINUSE", "address in use"};
    BH_CLEANUP_FREE char *text = bh_strndup(line->text, line->len);
    for (size_t i = 0; i < BH_ARRAY_LEN(words); i++) {
        if (strcasestr(text, words[i]))
            return true;
    }
    return false;
}

bool bh_log_says_port_is_taken(const char *path)
{
    struct bh_log_reader *reader = NULL;
    struct bh_log_line line;
    struct stat st;
    bool found = false;
    if (stat(path, &st) < 0 || st.st_size > LOG_MAX || bh_log_reader_open(path, &reader, NULL) != 0)
        return false;
    while (!found && bh_log_reader_next(reader, &line, NULL) == 1)
        found = !line.gap && says_so(&line);
    bh_log_reader_close(reader);
    return found;
}
