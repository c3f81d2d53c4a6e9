/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives a fuzz target without libFuzzer: every file of the corpus folders given, then a fixed number of seeded
 * mutations of each, so that an ordinary compiler runs the target as an ordinary test.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MUTATIONS = 200, LARGEST_INPUT = 1 << 20 };

static uint64_t rng_state = 0x9e3779b97f4a7c15u;

static uint64_t rng(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return rng_state;
}

static void mutate_and_run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 64);
    for (int i = 0; i < MUTATIONS && copy; i++) {
        size_t n = size;
        memcpy(copy, data, size);
        for (uint64_t edits = 1 + rng() % 6; edits > 0; edits--) {
            size_t at = n ? rng() % n : 0;
            switch (rng() % 4) {
            case 0:
                if (n)
                    copy[at] = (uint8_t)rng();
                break;
            case 1:
                if (n)
                    copy[at] ^= (uint8_t)(1u << (rng() % 8));
                break;
            case 2: /* drop a piece */
                if (n > 1) {
                    size_t len = 1 + rng() % (n - at);
                    memmove(copy + at, copy + at + len, n - at - len);
                    n -= len;
                }
                break;
            default: /* repeat a byte */
                if (n < size + 64) {
                    memmove(copy + at + 1, copy + at, n - at);
                    n++;
                }
            }
        }
        LLVMFuzzerTestOneInput(copy, n);
    }
    free(copy);
}

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(LARGEST_INPUT);
    if (!f || !data) {
        fprintf(stderr, "cannot read %s\n", path);
        return 1;
    }
    size_t n = fread(data, 1, LARGEST_INPUT, f);
    fclose(f);
    LLVMFuzzerTestOneInput(data, n);
    if (n < 64 * 1024)
        mutate_and_run(data, n);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    int files = 0;
    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        if (!d) {
            fprintf(stderr, "no corpus folder %s\n", argv[i]);
            return 1;
        }
        for (struct dirent *e; (e = readdir(d)) != NULL;) {
            char path[4096];
            if (e->d_name[0] == '.')
                continue;
            snprintf(path, sizeof(path), "%s/%s", argv[i], e->d_name);
            if (run_file(path) != 0)
                return 1;
            files++;
        }
        closedir(d);
    }
    printf("%d corpus files, %d mutations of each\n", files, MUTATIONS);
    return files > 0 ? 0 : 1;
}
