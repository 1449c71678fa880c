#include "server/listen.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "server/sys.h"

enum { BACKLOG = 1024 };

/* Makes room at the path, or tells by -errno why not: -EADDRINUSE: something is there. A socket file whose server is
 * gone refuses connections. What is no socket refuses them too, so that is looked at before: a model file must not go. */
static int remove_stale(const struct sockaddr_un *a)
{
    struct stat st;
    if (sys->lstat(a->sun_path, &st))
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EADDRINUSE;
    int fd = sys->socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;
    if (fd < 0)
        return -errno;
    do
        rc = sys->connect(fd, (const struct sockaddr *)a, sizeof *a) ? errno : 0;
    while (rc == EINTR);
    sys->close(fd);
    if (rc == 0 || rc == EAGAIN) /* EAGAIN: more want to connect than it takes */
        return -EADDRINUSE;
    if (rc != ECONNREFUSED)
        return -rc;
    return sys->unlink(a->sun_path) && errno != ENOENT ? -errno : 0;
}

static int unix_failed(const char *path, int rc, struct err *e)
{
    struct stat st;
    if (rc != -EADDRINUSE)
        return err_set(e, rc, "unix:%s: cannot listen: %s", path, strerror(-rc));
    if (sys->lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return err_set(e, rc, "unix:%s: there is %s already, which is left alone: give --host a path where nothing is",
                       path, S_ISREG(st.st_mode) ? "a file" : S_ISDIR(st.st_mode) ? "a folder"
                             : S_ISLNK(st.st_mode) ? "a symbolic link" : "something that is no socket");
    return err_set(e, rc, "unix:%s: another server listens there: end it, or give --host another path", path);
}

static int open_unix(const char *path, struct listener *l, struct err *e)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    struct stat st;
    if (!*path || strlen(path) >= sizeof a.sun_path)
        return err_set(e, -EINVAL, "--host unix:%s: the path of a socket has 1 to %zu characters", path,
                       sizeof a.sun_path - 1);
    memcpy(a.sun_path, path, strlen(path));
    int rc = remove_stale(&a);
    if (rc)
        return unix_failed(path, rc, e);
    l->fd = sys->socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0 || sys->bind(l->fd, (struct sockaddr *)&a, sizeof a))
        return unix_failed(path, -errno, e);
    if (sys->lstat(path, &st)) {
        rc = -errno;
        sys->unlink(path); /* without knowing which it is, it could not be told from another's later */
        return unix_failed(path, rc, e);
    }
    memcpy(l->path, path, strlen(path) + 1);
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    if (sys->listen(l->fd, BACKLOG))
        return unix_failed(path, -errno, e);
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
    l->fd = sys->socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return -1;
    sys->setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return sys->bind(l->fd, a->ai_addr, a->ai_addrlen) || sys->listen(l->fd, BACKLOG) ? -1 : 0;
}

static int print_url(const char *host, bool tls, struct listener *l, struct err *e)
{
    struct sockaddr_storage a = { 0 };
    socklen_t n = sizeof a;
    char text[INET6_ADDRSTRLEN + 16] = "", service[8] = "";
    if (sys->getsockname(l->fd, (struct sockaddr *)&a, &n))
        return err_set(e, -errno, "--host %s: the system does not tell which port it gave: %s", host, strerror(errno));
    int bad = sys->getnameinfo((struct sockaddr *)&a, n, text, sizeof text, service, sizeof service,
                               NI_NUMERICHOST | NI_NUMERICSERV);
    if (bad)
        return err_set(e, -EINVAL, "--host %s: its address cannot be written: %s", host, gai_strerror(bad));
    l->local = is_loopback((struct sockaddr *)&a);
    bool v6 = strchr(text, ':') != NULL, name = strcmp(host, "localhost") == 0;
    snprintf(l->url, sizeof l->url, "%s://%s%s%s:%s", tls ? "https" : "http", v6 && !name ? "[" : "",
             name ? host : text, v6 && !name ? "]" : "", service);
    return 0;
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
    int rc = sys->getaddrinfo(node, service, &hints, &list);
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
    rc = print_url(host, tls, l, e);
    if (rc)
        listener_close(l);
    return rc;
}

void listener_stop(struct listener *l)
{
    if (l->fd >= 0)
        sys->shutdown(l->fd, SHUT_RDWR);
    struct stat st; /* another server may have taken the place of ours meanwhile */
    if (l->path[0] && sys->lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
        sys->unlink(l->path);
    l->path[0] = 0;
}

void listener_close(struct listener *l)
{
    listener_stop(l);
    if (l->fd >= 0)
        sys->close(l->fd);
    l->fd = -1;
}
