// Replaces fsync in a process that preloads this library. Syncs of the metadata directories of tables
// fail or hang on request. All syncs are recorded. See disk_faults.rs.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Returns the current fault: 0 for none, -1 for a hanging disk, or the error number of all syncs.
static int current_fault(void) {
    char text[16] = "";
    const char *file = getenv("DISK_FAULT_FILE");
    int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return 0;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    return length > 0 ? atoi(text) : 0;
}

// Appends a line: outcome, inode, birth time of the inode in nanoseconds, path.
static void record(const char *outcome, const struct statx *of, const char *path) {
    char line[PATH_MAX + 96];
    const char *file = getenv("DISK_SYNC_LOG");
    int fd = file ? open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0) abort();
    unsigned long long born = of->stx_btime.tv_sec * 1000000000ULL + of->stx_btime.tv_nsec;
    int length = snprintf(line, sizeof line, "%s %llu %llu %s\n", outcome,
                          (unsigned long long)of->stx_ino, born, path);
    if (write(fd, line, length) != length) abort();
    close(fd);
}

int fsync(int fd) {
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    char link[64], path[PATH_MAX];
    struct statx file;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    int found = statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &file);
    if (length < 0 || found != 0) return sync(fd);
    path[length] = '\0';
    int fault = 0;
    if (strstr(path, "/metadata")) {
        while ((fault = current_fault()) < 0) usleep(10000);
    }
    if (fault > 0) {
        record("failed", &file, path);
        errno = fault;
        return -1;
    }
    int result = sync(fd);
    if (result == 0) record("synced", &file, path);
    return result;
}
