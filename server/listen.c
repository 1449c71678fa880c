#include "server/listen.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

/* A socket file whose server is gone refuses connections. */
static bool is_stale(const struct sockaddr_un *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool stale = fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof *a) && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return stale;
}

static int open_unix(const char *path, struct listener *l, struct err *e)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    if (!*path || strlen(path) >= sizeof a.sun_path)
        return err_set(e, -EINVAL, "--host unix:%s: the path of a socket has 1 to %zu characters", path,
                       sizeof a.sun_path - 1);
    memcpy(a.sun_path, path, strlen(path));
    if (is_stale(&a))
        unlink(path);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->fd < 0 || bind(l->fd, (struct sockaddr *)&a, sizeof a) || listen(l->fd, BACKLOG))
        return errno == EADDRINUSE
                   ? err_set(e, -errno, "unix:%s: another server listens there, or the path is no socket", path)
                   : err_set(e, -errno, "unix:%s: cannot listen: %s", path, strerror(errno));
    memcpy(l->path, path, strlen(path) + 1);
    l->local = true;
    snprintf(l->url, sizeof l->url, "unix:%s", path);
    return 0;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static int bind_failed(const char *host, uint16_t port, struct err *e)
{
    switch (errno) {
    case EADDRINUSE:
        return err_set(e, -EADDRINUSE, "port %u of %s is in use (ss -ltnp 'sport = :%u' tells by whom): choose another "
                       "with --port, or 0 for any", port, host, port);
    case EACCES:
        return err_set(e, -EACCES, "port %u of %s: ports below 1024 are for root: choose another with --port", port,
                       host);
    case EADDRNOTAVAIL:
        return err_set(e, -EADDRNOTAVAIL, "--host %s: no interface of this machine has this address (0.0.0.0 is all)",
                       host);
    default: return err_set(e, -errno, "port %u of %s: cannot listen: %s", port, host, strerror(errno));
    }
}

static int open_address(const struct addrinfo *a, struct listener *l)
{
    int on = 1;
    l->fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->fd < 0)
        return -1;
    setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    /* Connections are accepted with their first bytes there: http.c looks at them. */
    setsockopt(l->fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof on);
    return bind(l->fd, a->ai_addr, a->ai_addrlen) || listen(l->fd, BACKLOG) ? -1 : 0;
}

static void tell_url(const char *host, bool tls, struct listener *l)
{
    struct sockaddr_storage a = { 0 };
    socklen_t n = sizeof a;
    char text[INET6_ADDRSTRLEN + 16] = "", service[8] = "";
    getsockname(l->fd, (struct sockaddr *)&a, &n);
    getnameinfo((struct sockaddr *)&a, n, text, sizeof text, service, sizeof service, NI_NUMERICHOST | NI_NUMERICSERV);
    l->local = is_loopback((struct sockaddr *)&a);
    bool v6 = strchr(text, ':') != NULL, name = strcmp(host, "localhost") == 0;
    snprintf(l->url, sizeof l->url, "%s://%s%s%s:%s", tls ? "https" : "http", v6 && !name ? "[" : "",
             name ? host : text, v6 && !name ? "]" : "", service);
}

int listener_open(const char *host, uint16_t port, bool tls, struct listener *l, struct err *e)
{
    *l = (struct listener){ .fd = -1 };
    if (strncmp(host, "unix:", 5) == 0) {
        int rc = open_unix(host + 5, l, e);
        if (rc)
            listener_close(l);
        return rc;
    }
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *list;
    /* A localhost that is also ::1 would be half a server: curl and browsers try 127.0.0.1 as well. */
    const char *node = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    int rc = getaddrinfo(node, service, &hints, &list);
    if (rc)
        return err_set(e, -EINVAL, "--host %s: %s (an address, a name of this machine, or unix:PATH)", host,
                       gai_strerror(rc));
    rc = -1;
    for (const struct addrinfo *a = list; a && rc; a = a->ai_next) {
        listener_close(l);
        rc = open_address(a, l);
    }
    int saved = errno;
    freeaddrinfo(list);
    if (rc) {
        listener_close(l);
        errno = saved;
        return bind_failed(host, port, e);
    }
    tell_url(host, tls, l);
    return 0;
}

void listener_stop(struct listener *l)
{
    if (l->fd >= 0)
        shutdown(l->fd, SHUT_RDWR);
    if (l->path[0])
        unlink(l->path);
    l->path[0] = 0;
}

void listener_close(struct listener *l)
{
    listener_stop(l);
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}
