"""zinc chat on a pseudo-terminal, by what is sent to it and what comes. Prints what is missed; exit 1 then.

usage: chat_terminal.py ZINC MODEL FOLDER"""
import json, os, pty, select, signal, sys, time

zinc, model, work = sys.argv[1:4]
misses = []
BOUND = int(os.environ.get("BOUND", 120))  # seconds for anything: for what hangs


def miss(what):
    misses.append(what)
    print("MISS:", what)
    if " no b" in what:  # what never came: nothing behind it can
        sys.exit(1)


class Terminal:
    """A program on a terminal of 80 columns; `seen` is all that it wrote."""

    def __init__(self, *args, **env):
        self.seen = b""
        self.at = 0  # what was awaited ends here
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(env, TERM="xterm", HOME=work, XDG_STATE_HOME=work + "/state", LC_ALL="C.UTF-8")
            os.execv(zinc, [zinc, "chat", "-m", model, "--tier", "null", "--temp", "0", *args])
        import fcntl, struct, termios
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            more = os.read(self.fd, 65536)
        except OSError:  # EIO: the program is gone
            more = b""
        self.seen += more
        return bool(more)

    def send(self, data):
        data = data if isinstance(data, bytes) else data.encode()
        while data:
            readable, writable, _ = select.select([self.fd], [self.fd], [], BOUND)
            if readable and not self.read(0):
                return
            if writable:  # little at a time: it answers every key, and somebody has to read that
                data = data[os.write(self.fd, data[:256]):]

    def wait(self, words, what):
        """Until `words` come behind what was awaited before."""
        words = words if isinstance(words, bytes) else words.encode()
        end = time.monotonic() + BOUND
        while (found := self.seen.find(words, self.at)) < 0:
            if time.monotonic() > end or not self.read(1) and time.monotonic() > end:
                miss(f"{what}: no {words!r} in {self.seen[self.at:][-400:]!r}")
                return False
            if gone(self):
                miss(f"{what}: it ended; no {words!r} in {self.seen[self.at:][-400:]!r}")
                return False
        self.at = found + len(words)
        return True

    def prompt(self, what):
        return self.wait("\x1b[?2004h", what)  # a line is asked for

    def say(self, text, what):
        self.send(text + "\r")
        return self.prompt(what)

    def end(self):
        """The exit status."""
        end = time.monotonic() + BOUND
        while time.monotonic() < end and self.read(1):
            pass
        if not hasattr(self, "status"):
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)
        os.close(self.fd)
        return self.status


def gone(t):
    pid, status = os.waitpid(t.pid, os.WNOHANG)
    if pid:
        t.status = os.waitstatus_to_exitcode(status)
    return bool(pid)


def messages(t, name):
    """The conversation's texts of the user, by /save."""
    path = f"{work}/{name}.json"
    t.say("/save " + path, name)
    try:
        return [m["content"] for m in json.load(open(path))["messages"] if m["role"] == "user"]
    except (OSError, ValueError) as e:
        miss(f"{name}: {e}")
        return []


def expect(got, want, what):
    if got != want:
        miss(f"{what}: {str(got)[:300]!r}, expected {str(want)[:300]!r}")


# what is typed and pasted
t = Terminal("-n", "4", "-c", "40000")
t.prompt("start")
t.send("\x1b[200~one\rtwo\nthree\r\x1b[201~")
t.say("", "paste")
expect(messages(t, "paste"), ["one\ntwo\nthree"], "a paste of three lines is one message")
t.say("/reset", "reset")
long = "".join(chr(97 + i % 26) for i in range(9990)) + "the end ?!"
t.say(long, "long")
expect(messages(t, "long"), [long], "a line of 10,000 bytes arrives whole")
t.say("/reset", "reset")
t.say("first\x1b\rsecond", "Alt-Enter")
t.send("third \\\r")
t.prompt("backslash")
t.say("fourth", "backslash")
t.say("caf\u00e9 \u4f60\u597d\x7f!", "UTF-8")
expect(messages(t, "lines"), ["first\nsecond", "third \nfourth", "caf\u00e9 \u4f60!"], "messages of several lines, and a deleted character")
t.say("\x1b[A\x1b[A", "Up")  # over /save
expect(messages(t, "up")[-1:], ["caf\u00e9 \u4f60!"], "Up brings the last message")

# /commands
t.say("/undo", "undo")
expect(len(messages(t, "undo")), 3, "/undo takes a turn back")
t.say("/retry", "retry")
expect(messages(t, "retry")[-1:], ["caf\u00e9 \u4f60!"], "/retry keeps the message")
t.say("/set temp 0.3", "set")
t.send("/set\r")
t.wait("temp 0.3", "/set shows what was set")
t.prompt("set")
t.send("/set temperature 1\r")
t.wait("nothing to set", "/set of an unknown name")
t.prompt("set")
t.send("/stats\r")
t.wait("tokens generated", "/stats")
t.prompt("stats")
t.send("/copy\r")
t.wait("\x1b]52;c;", "/copy")
t.prompt("copy")
t.say("/load " + work + "/paste.json", "load")
expect(messages(t, "load"), ["one\ntwo\nthree"], "/load brings a conversation back")
t.send("/sta\t\r")
t.wait("tokens generated", "Tab completes a command")
t.prompt("completed")
t.send(f"/load {work}/past\t\r")
t.wait("2 messages from", "Tab completes a file")
t.prompt("completed")

# Ctrl-C: the line, then the program
t.send("not meant\x03")
t.prompt("Ctrl-C")
expect(messages(t, "interrupt"), ["one\ntwo\nthree"], "Ctrl-C forgets the line")
t.send("\x03")
t.prompt("Ctrl-C")
t.send("\x03")
expect(t.end(), 130, "Ctrl-C twice ends the program")

# the next run knows the lines; Ctrl-C ends an answer, which stays; Ctrl-D ends
t = Terminal("-n", "3000", "-c", "8192", ZINC_NULL_GBS="1")
t.prompt("second run")
t.send("\x1b[A")
t.wait("interrupt.json", "Up brings the last line of the run before")
t.send("\x03")
t.prompt("forgotten")
t.send("Count\r")
t.wait("\x1b[?2004l", "an answer begins")
while not t.seen[t.at:].strip() and t.read(BOUND):
    pass
os.write(t.fd, b"\x03")
t.wait("interrupted", "Ctrl-C ends the answer")
t.prompt("after it")
expect(messages(t, "stopped"), ["Count"], "what was interrupted stays")
t.send("\x04")
expect(t.end(), 0, "Ctrl-D ends")

mode = os.stat(work + "/state/zinc/chat_history").st_mode & 0o777
expect(oct(mode), oct(0o600), "the history is private")
size = os.path.getsize(work + "/state/zinc/chat_history")
t = Terminal("--no-history", "-n", "4")
t.prompt("no history")
t.say("secret words", "no history")
t.send("\x04")
expect(t.end(), 0, "without a history")
expect(os.path.getsize(work + "/state/zinc/chat_history"), size, "--no-history writes nothing")

sys.exit(1 if misses else 0)
