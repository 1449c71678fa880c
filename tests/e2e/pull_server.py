#!/usr/bin/env python3
"""A server of model files that behaves as the tests of zinc pull ask it to: pull_server.py FOLDER READY_FILE

GET /plain/F serves FOLDER/F with ranges. Other first parts of the path are troubles:
  cut      every answer with a body of more than 64 KiB ends after half of it
  cutonce  the first of these alone does
  slow     64 KiB, then nothing until FOLDER/go is there
  whole    knows no ranges
  nolength no Content-Length, the body never ends
  endless  as plain, and the body goes on beyond its range
  liesize  tells 10**13 bytes, and ranges of them
  otherrange  answers the range after the one that was asked for
  changes  another entity tag with each answer
  headers  headers that never end
  loop     redirects to itself;   away  redirects to the other port;   file  redirects to file:///
  busy     503 twice, then as plain;   page  HTML where a model is expected
  secret   401 without a token
OWNER/REPO/resolve/main/F and api/models/OWNER/REPO/tree/main are a hub, whose bytes lie on the other port. Repositories named
badsum tell a wrong sum, hostile ones list names with '..', badsize tells a wrong size,
and addresses that expiring redirects to answer three times only. FOLDER/log has a line for each request:
port, path, range, token. With a file of a certificate and its key a third port speaks TLS. READY_FILE gets the ports."""
import hashlib
import http.server
import json
import os
import socketserver
import ssl
import sys
import threading
import time

folder, ready = sys.argv[1], sys.argv[2]
counts = {}
lock = threading.Lock()
ports = []


def count(key):
    with lock:
        counts[key] = counts.get(key, 0) + 1
        return counts[key]


def digest(name):
    with open(os.path.join(folder, name), "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *a):
        pass

    def plainly(self, status, body=b"", headers=()):
        self.send_response(status)
        for k, v in headers:
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def hub_tree(self, parts):
        repo = parts[1]
        names = sorted(os.listdir(os.path.join(folder, "repo")))
        files = []
        for n in names:
            size = os.path.getsize(os.path.join(folder, "repo", n))
            sha = digest("repo/" + n)
            if repo == "badsum":
                sha = "0" * 64
            if repo == "badsize":
                size += 1
            path = "../../../" + n if repo == "hostile" else n
            files.append({"type": "file", "oid": "1" * 40, "size": size, "path": path,
                          "lfs": {"oid": sha, "size": size, "pointerSize": 134}})
        files.append({"type": "file", "oid": "2" * 40, "size": 3, "path": "README.md"})
        files.append({"type": "directory", "oid": "3" * 40, "size": 0, "path": "docs"})
        body = json.dumps(files).encode()
        if repo == "endless":
            body = b"[" + b" " * (64 << 20)
        if repo == "nojson":
            body = b"<html>"
        self.plainly(200, body, [("Content-Type", "application/json")])

    def hub_file(self, parts):
        repo, name = parts[1], "/".join(parts[4:])
        path = os.path.join(folder, "repo", name)
        if not os.path.exists(path):
            return self.plainly(404, b"Entry not found")
        if repo == "gated" and self.headers.get("Authorization") != "Bearer good":
            return self.plainly(401, b"Access is restricted")
        sha = "0" * 64 if repo == "badsum" else digest("repo/" + name)
        size = os.path.getsize(path)
        where = "http://127.0.0.1:%d/%s/repo/%s" % (ports[1], "slow" if repo == "slow" else "plain", name)
        if repo == "expiring":
            where += "?until=%d" % count("expiring")
        self.plainly(302, b"Found", [("Location", where), ("X-Linked-Etag", '"%s"' % sha), ("X-Linked-Size", str(size)),
                                     ("X-Repo-Commit", "4" * 40)])

    def do_GET(self):
        path = self.path.split("?")[0]
        parts = path.strip("/").split("/")
        asked = self.headers.get("Range")
        with lock, open(os.path.join(folder, "log"), "a") as f:
            f.write("%d %s %s %s\n" % (ports.index(self.server.server_address[1]), self.path, asked, self.headers.get("Authorization")))
        if parts[:2] == ["api", "models"]:
            return self.hub_tree(parts[2:])
        if len(parts) > 3 and parts[2:4] == ["resolve", "main"]:
            return self.hub_file(parts)
        how, name = parts[0], "/".join(parts[1:])
        port = self.server.server_address[1]
        if how == "loop":
            return self.plainly(302, b"", [("Location", self.path)])
        if how == "away":
            other = ports[1] if port == ports[0] else ports[0]
            return self.plainly(302, b"", [("Location", "http://127.0.0.1:%d/plain/%s" % (other, name))])
        if how == "file":
            return self.plainly(302, b"", [("Location", "file:///etc/passwd")])
        if how == "secret" and self.headers.get("Authorization") != "Bearer good":
            return self.plainly(401)
        if how == "busy" and count("busy") <= 2:
            return self.plainly(503)
        if how == "page":
            return self.plainly(200, b"<html>" + b" " * 5000)
        if "?until=" in self.path and count(self.path) > 3:
            return self.plainly(403, b"expired")
        file = os.path.join(folder, name)
        if not os.path.isfile(file):
            return self.plainly(404)
        size = os.path.getsize(file)
        first, last, status = 0, size - 1, 200
        if asked and how not in ("whole", "nolength", "headers"):
            a, b = asked[6:].split("-")
            first, last, status = int(a), min(int(b), size - 1), 206
            if how == "otherrange" and last > 0:
                first, last = first + 1, min(last + 1, size - 1)
        self.send_response(status)
        if how == "headers":
            for i in range(20000):
                self.send_header("X-Filler-%d" % i, "x" * 100)
        self.send_header("ETag", '"%s"' % (count("etag") if how == "changes" else os.path.basename(name)))
        total = size
        if how == "liesize":
            total = 10 ** 13
        if status == 206:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (first, last, total))
        n = last - first + 1
        if how == "endless" and n > 1:
            self.send_header("Connection", "close")
        elif how != "nolength":
            self.send_header("Content-Length", str(n))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        with open(file, "rb") as f:
            f.seek(first)
            body = f.read(n)
        big = n > 65536
        if big and (how == "cut" or (how == "cutonce" and count("cut") == 1)):
            body = body[:n // 2]
            self.close_connection = True
        if big and how == "slow" and not os.path.exists(os.path.join(folder, "go")):
            self.wfile.write(body[:65536])
            self.wfile.flush()
            while not os.path.exists(os.path.join(folder, "go")):
                time.sleep(0.02)
            body = body[65536:]
        self.wfile.write(body)
        if how == "nolength" or (how == "endless" and n > 1):
            for _ in range(100000):
                self.wfile.write(b"\0" * 65536)
        self.wfile.flush()
        if how in ("cut", "cutonce") and self.close_connection:
            self.connection.close()


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # a client that went away


servers = [Server(("127.0.0.1", 0), Handler) for _ in range(3 if len(sys.argv) > 3 else 2)]
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3])
    servers[2].socket = context.wrap_socket(servers[2].socket, server_side=True)
ports.extend(s.server_address[1] for s in servers)
for s in servers:
    threading.Thread(target=s.serve_forever, daemon=True).start()
with open(ready + ".tmp", "w") as f:
    f.write(" ".join(map(str, ports)) + "\n")
os.rename(ready + ".tmp", ready)
sys.stdin.read()  # until the test closes it
