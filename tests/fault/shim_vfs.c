/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fault/shim_vfs.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

struct fault {
    int left;
    bool stays, failed;
};
static struct fault io_fault, alloc_fault;

static bool strikes(struct fault *f)
{
    if (f->left == 0 && !(f->failed && f->stays))
        return false;
    if (f->left > 0 && --f->left > 0)
        return false;
    f->failed = true;
    return true;
}

void shim_fail(int n, bool from_then_on)
{
    io_fault = (struct fault){n, from_then_on, false};
}

bool shim_has_failed(void)
{
    return io_fault.failed || alloc_fault.failed;
}

/* --- files --- */

struct shim_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct */
};

static sqlite3_file *real(sqlite3_file *f)
{
    return ((struct shim_file *)f)->real;
}

static int shim_close(sqlite3_file *f)
{
    return real(f)->pMethods->xClose(real(f));
}

static int shim_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
    return strikes(&io_fault) ? SQLITE_IOERR_READ : real(f)->pMethods->xRead(real(f), to, n, at);
}

static int shim_write(sqlite3_file *f, const void *from, int n, sqlite3_int64 at)
{
    if (!strikes(&io_fault))
        return real(f)->pMethods->xWrite(real(f), from, n, at);
    (void)real(f)->pMethods->xWrite(real(f), from, n / 2, at);
    return SQLITE_IOERR_WRITE;
}

static int shim_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    return strikes(&io_fault) ? SQLITE_IOERR_TRUNCATE : real(f)->pMethods->xTruncate(real(f), size);
}

static int shim_sync(sqlite3_file *f, int flags)
{
    return strikes(&io_fault) ? SQLITE_IOERR_FSYNC : real(f)->pMethods->xSync(real(f), flags);
}

static int shim_size(sqlite3_file *f, sqlite3_int64 *size)
{
    return strikes(&io_fault) ? SQLITE_IOERR_FSTAT : real(f)->pMethods->xFileSize(real(f), size);
}

static int shim_lock(sqlite3_file *f, int level)
{
    return real(f)->pMethods->xLock(real(f), level);
}

static int shim_unlock(sqlite3_file *f, int level)
{
    return real(f)->pMethods->xUnlock(real(f), level);
}

static int shim_check_lock(sqlite3_file *f, int *out)
{
    return real(f)->pMethods->xCheckReservedLock(real(f), out);
}

static int shim_control(sqlite3_file *f, int op, void *arg)
{
    return real(f)->pMethods->xFileControl(real(f), op, arg);
}

static int shim_sector(sqlite3_file *f)
{
    return real(f)->pMethods->xSectorSize(real(f));
}

static int shim_device(sqlite3_file *f)
{
    return real(f)->pMethods->xDeviceCharacteristics(real(f));
}

static int shim_shm_map(sqlite3_file *f, int region, int size, int extend, void volatile **out)
{
    if (extend && strikes(&io_fault))
        return SQLITE_IOERR_SHMMAP;
    return real(f)->pMethods->xShmMap(real(f), region, size, extend, out);
}

static int shim_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    return real(f)->pMethods->xShmLock(real(f), offset, n, flags);
}

static void shim_shm_barrier(sqlite3_file *f)
{
    real(f)->pMethods->xShmBarrier(real(f));
}

static int shim_shm_unmap(sqlite3_file *f, int delete)
{
    return real(f)->pMethods->xShmUnmap(real(f), delete);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2, /* no memory maps */
    .xClose = shim_close,
    .xRead = shim_read,
    .xWrite = shim_write,
    .xTruncate = shim_truncate,
    .xSync = shim_sync,
    .xFileSize = shim_size,
    .xLock = shim_lock,
    .xUnlock = shim_unlock,
    .xCheckReservedLock = shim_check_lock,
    .xFileControl = shim_control,
    .xSectorSize = shim_sector,
    .xDeviceCharacteristics = shim_device,
    .xShmMap = shim_shm_map,
    .xShmLock = shim_shm_lock,
    .xShmBarrier = shim_shm_barrier,
    .xShmUnmap = shim_shm_unmap,
};

/* --- the file system --- */

static sqlite3_vfs shim, *below;

static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out)
{
    struct shim_file *file = (struct shim_file *)f;
    (void)vfs;
    file->base.pMethods = NULL;
    if (strikes(&io_fault))
        return SQLITE_CANTOPEN;
    file->real = (sqlite3_file *)(file + 1);
    int rc = below->xOpen(below, name, file->real, flags, out);
    if (rc == SQLITE_OK)
        file->base.pMethods = &methods;
    return rc;
}

static int shim_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    (void)vfs;
    return strikes(&io_fault) ? SQLITE_IOERR_DELETE : below->xDelete(below, name, sync);
}

void shim_install(void)
{
    below = sqlite3_vfs_find(NULL);
    shim = *below;
    shim.zName = "shim";
    shim.szOsFile = (int)sizeof(struct shim_file) + below->szOsFile;
    shim.xOpen = shim_open;
    shim.xDelete = shim_delete;
    (void)sqlite3_vfs_register(&shim, 1);
}

/* --- memory --- */

static sqlite3_mem_methods memory, failing;

static void *shim_malloc(int n)
{
    return strikes(&alloc_fault) ? NULL : memory.xMalloc(n);
}

static void *shim_realloc(void *p, int n)
{
    return strikes(&alloc_fault) ? NULL : memory.xRealloc(p, n);
}

void shim_install_alloc(void)
{
    (void)sqlite3_config(SQLITE_CONFIG_GETMALLOC, &memory);
    failing = memory;
    failing.xMalloc = shim_malloc;
    failing.xRealloc = shim_realloc;
    (void)sqlite3_config(SQLITE_CONFIG_MALLOC, &failing);
}

void shim_fail_alloc(int n, bool from_then_on)
{
    alloc_fault = (struct fault){n, from_then_on, false};
}
