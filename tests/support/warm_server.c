/* SPDX-License-Identifier: Apache-2.0 */
/* A preparation in C, as docs/warm.md shows one: warm by a number that it has thought of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workers/warm/warm.h"

int main(void)
{
    struct bh_warm_attempt a;
    int answer = 42;
    FILE *f = fopen("/workspace/out/result", "w"); /* what it leaves lies beneath its forks */
    if (f)
        (void)fclose(f);
    puts("prepared in C");
    if (bh_warm(&a) < 0) {
        perror("bh_warm");
        return 1;
    }
    printf("fork in C: %d", a.number);
    for (int i = 0; i < a.argc; i++)
        printf(" %s", a.argv[i]);
    printf(" %s %d\n", getenv("HOME"), answer);
    printf("random %ld\n", random());
    return fflush(stdout) == 0 ? 0 : 1;
}
