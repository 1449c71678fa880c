/* base/log.h
 * Log lines go to stderr, one event a line: "[  1.204] kfd info: ring 64 KiB". Modules are prefixes;
 * ZINC_LOG=info,kfd=debug sets levels (default warn). Arguments are not evaluated below the level.
 * stdout is for results only. */
#ifndef ZINC_BASE_LOG_H
#define ZINC_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_ERR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

/* X(enum name, prefix in the log) */
#define LOG_MODULES(X) X(BASE, "base") X(GGUF, "gguf") X(TOK, "tok") X(GRAPH, "graph") X(CPU, "cpu") X(RT, "rt")       \
    X(KFD, "kfd") X(UMQ, "umq") X(VK, "vk") X(CUDA, "cuda") X(METAL, "metal") X(ENGINE, "engine") X(SERVER, "server")   \
    X(CLI, "cli")

enum log_module {
#define X(name, prefix) LOGM_##name,
    LOG_MODULES(X)
#undef X
    LOGM_COUNT
};

/* Where the calling thread's lines go instead of stderr, up to its own level: for programs that zinc is a part of. fn gets
 * the text alone, without an end of line. Other threads, those that zinc starts among them, are not changed. */
struct log_sink {
    void (*fn)(void *user, enum log_level l, const char *module, const char *text);
    void *user;
    enum log_level level;
};
/* NULL: stderr. Returns what was there before; the sink must live until another one is set. */
const struct log_sink *log_divert(const struct log_sink *sink);

/* Parses a ZINC_LOG value; unknown words are reported once as a warning. NULL keeps the defaults. */
void log_configure(const char *spec);
bool log_enabled(enum log_module m, enum log_level l);
__attribute__((format(printf, 3, 4))) void log_write(enum log_module m, enum log_level l, const char *fmt, ...);

#define log_at(m, l, ...)                                                                                              \
    do {                                                                                                               \
        if (log_enabled(LOGM_##m, l))                                                                                  \
            log_write(LOGM_##m, l, __VA_ARGS__);                                                                       \
    } while (0)
#define log_err(m, ...)   log_at(m, LOG_ERR, __VA_ARGS__)
#define log_warn(m, ...)  log_at(m, LOG_WARN, __VA_ARGS__)
#define log_info(m, ...)  log_at(m, LOG_INFO, __VA_ARGS__)
#define log_debug(m, ...) log_at(m, LOG_DEBUG, __VA_ARGS__)
#define log_trace(m, ...) log_at(m, LOG_TRACE, __VA_ARGS__)

#endif
