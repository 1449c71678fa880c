# How tinygrad drives the card: transfers, queues that wait for each other, recorded graphs, profiles, a fault.
# test_tinygrad_*.sh runs it on amdsim for compute queues of PM4 and of AQL packets, with SDMA queues and without.
# tinygrad_check.py says how cases are written. Everything here is exact: the values are integers.
import os
import pathlib
import sys
import tempfile

import numpy as np
from tinygrad import Context, Device, Tensor, TinyJit, UOp, dtypes
from tinygrad.device import Buffer, BufferSpec, Compiled
from tinygrad.helpers import ProfileRangeEvent
from tinygrad.runtime.autogen import hsa

from tinygrad_check import FULL, case, main

dev = Device[Device.DEFAULT]


def array(t, n, np_type=np.uint8):
    return t.rng.integers(0, np.iinfo(np_type).max, n, dtype=np_type, endpoint=True)


@case
def configuration(t):
    """The variables of tinygrad that choose the queues did so: their names change between releases."""
    t.equal("AQL", dev.is_aql, int(os.environ.get("AMD_AQL", "0")))
    t.equal("SDMA", dev.has_sdma_queue, not int(os.environ.get("AMD_DISABLE_SDMA", "0")))
    t.equal("interface", type(dev.iface).__name__, "KFDIface")
    t.equal("compiler", type(dev.renderer).__name__, "AMDLLVMRenderer")
    t.equal("card", dev.arch, os.environ["AMDSIM_GPU"])


@case
def transfers(t):
    """Staging buffers hold 2 MiB and are used in turn."""
    for n in (1, 3, 64, 4095, 4097, (1 << 20) + 1, (5 << 20) + 13) + (((2 << 20), (70 << 20) + 5) if FULL else ()):
        x = array(t, n)
        t.equal(
            f"{n} bytes there and back",
            Buffer(Device.DEFAULT, n, dtypes.uint8, initial_value=x.tobytes()).numpy(),
            x,
        )
    x = array(t, 1 << 18, np.uint32)
    X = Tensor(x).realize()
    t.equal("a kernel reads what came", X + 1, x + np.uint32(1))
    t.equal("copy on the card", X.clone().realize(), x)
    t.equal("a view's bytes", X[1001:200003].contiguous(), x[1001:200003])
    t.equal("to the processor", X.to("CPU") + 1, x + np.uint32(1))
    t.equal("and back", (X.to("CPU") ^ 5).to(Device.DEFAULT) + 2, (x ^ np.uint32(5)) + np.uint32(2))
    with tempfile.TemporaryDirectory() as d:
        file = pathlib.Path(d) / "x"
        file.write_bytes(x.tobytes())
        t.equal("from a file", Tensor(file).bitcast(dtypes.uint32).to(Device.DEFAULT) + 1, x + np.uint32(1))


@case
def buffers_come_and_go(t):
    """Sizes that no earlier buffer had, so that none is reused: allocation, mapping and freeing each time."""
    spec = BufferSpec(nolru=True)
    for n in t.rng.choice(300000, 30, replace=False):
        x = array(t, int(n) + 1)
        t.equal(
            f"{n}", Buffer(Device.DEFAULT, x.size, dtypes.uint8, options=spec, initial_value=x.tobytes()).numpy(), x
        )


@case
def order(t):
    """Many kernels in flight, each on its predecessor's result; transfers between them wait for what they read."""
    x = array(t, 999, np.uint32)
    X = Tensor(x).realize()
    for n in range(80):
        X.assign(X * 1664525 + 1013904223).realize()
        x = x * np.uint32(1664525) + np.uint32(1013904223)
        if n % 30 == 17:
            t.equal(f"after {n}", X, x)
    t.equal("at the end", X, x)


@case
def jit(t):
    """The third call replays what was recorded: one indirect buffer of packets, patched for new arguments."""
    for level in (0, 1, 2):  # none, recorded with graphs, recorded without
        with Context(JIT=level):

            @TinyJit
            def f(a, b):
                c = (a * b + 7).realize()
                d = (c.sum(0) ^ b[0]).realize()
                return (c + d).realize(), (d >> 3).realize()

            for n in range(5):
                a, b = array(t, (37, 65), np.uint32), array(t, (37, 65), np.uint32)
                got = f(Tensor(a).realize(), Tensor(b).realize())
                c = a * b + np.uint32(7)
                d = c.sum(0, dtype=np.uint32) ^ b[0]
                t.equal(f"level {level}, call {n}", got[0], c + d)
                t.equal(f"level {level}, call {n}, second result", got[1], d >> np.uint32(3))


@case
def jit_state(t):
    """A recording that changes what it reads, replayed without waiting in between."""
    x = array(t, 300, np.uint32)
    X = Tensor(x).realize()

    @TinyJit
    def step(k):
        X.assign(X * 3 + k).realize()
        X.assign(X ^ (X >> 7)).realize()
        return X

    for n in range(40):
        step(Tensor([n], dtype=dtypes.uint32).realize())
        x = x * np.uint32(3) + np.uint32(n)
        x = x ^ (x >> np.uint32(7))
    t.equal("after 40 steps", X, x)


@case
def jit_lengths(t):
    """A length that is a variable of the recording, as a language model's context is."""
    x = array(t, (24, 16), np.uint32)
    X = Tensor(x).realize()

    @TinyJit
    def f(n):
        return X[:n].sum(0).realize()

    for n in (1, 2, 3, 5, 24, 11):
        got = f(UOp.variable("n", 1, 24).bind(n))
        t.equal(f"first {n} rows", got, x[:n].sum(0, dtype=np.uint32))


@case
def jit_copies(t):
    """Transfers within the recording: with SDMA on a queue of their own that waits for the kernels' signals."""

    @TinyJit
    def f(a):
        b = (a * 3).realize()
        c = b.to("CPU").realize()
        return (c + 1).to(Device.DEFAULT).realize() * 5 + a

    for n in range(4):
        a = array(t, 5000, np.uint32)
        t.equal(f"call {n}", f(Tensor(a).realize()), (a * np.uint32(3) + np.uint32(1)) * np.uint32(5) + a)


def alloc(n, host=False):
    return dev.allocator.alloc(n, BufferSpec(cpu_access=True, host=host, uncached=host, nolru=True))


def put(buf, x):
    buf.cpu_view()[:] = x.tobytes() + bytes(buf.size - x.nbytes)


def get(buf, n):
    return np.frombuffer(bytes(buf.cpu_view()[:n]), np.uint8)


@case
def queues(t):
    """The queues by hand: writes, waits, bits polled; what a queue waits for comes from another, or from the host."""
    page = alloc(4096, host=True)
    a, b = dev.new_signal(value=0), dev.new_signal(value=0)
    compute = dev.hw_compute_queue_t
    compute().wait(a, 5).write(page.offset(64, 8), 0x1234567890ABCDEF, b64=True).write(
        page.offset(72, 4), 0xFEDCBA98
    ).signal(b, 9).submit(dev)
    t.equal("nothing before the host's signal", (b.value, *get(page, 80)[64:]), [0] * 17)
    a.value = 5
    b.wait(9)
    t.equal("64 bits", int.from_bytes(get(page, 72)[64:].tobytes(), "little"), 0x1234567890ABCDEF)
    t.equal("32 bits", int.from_bytes(get(page, 76)[72:].tobytes(), "little"), 0xFEDCBA98)
    compute().poll_bit(page.offset(128, 8), 4, 6).signal(b, 10).submit(dev)
    t.equal("bits that are not there yet", b.value, 9)
    page.cpu_view()[128] = 0x0D
    b.wait(10)
    s, e = dev.new_signal(value=0), dev.new_signal(value=0)
    compute().timestamp(s).timestamp(e).signal(b, 11).submit(dev)
    b.wait(11)
    t.true("the clock goes on", 0 < s.timestamp <= e.timestamp, f"{s.timestamp} {e.timestamp}")


@case
def copy_queues(t):
    """Two SDMA queues and the compute queue in a chain of waits, submitted backwards; odd sizes and places."""
    if not dev.has_sdma_queue:
        return
    t.true("a second queue", dev.sdma_queue(1) is not None, "was refused")
    n = 70001
    src, mid, dst = alloc(1 << 17), alloc(1 << 17), alloc(1 << 17)
    x = array(t, n)
    put(src, x)
    put(mid, np.zeros(n, np.uint8))
    put(dst, np.zeros(n, np.uint8))
    a, b, c = (dev.new_signal(value=0) for _ in range(3))
    dev.hw_copy_queue_t(queue_idx=1).wait(b, 2).copy(dst.offset(3), mid.offset(1), n - 5).signal(c, 3).submit(dev)
    dev.hw_copy_queue_t(queue_idx=0).wait(a, 1).copy(mid.offset(1), src.offset(5), n - 5).signal(b, 2).submit(dev)
    t.equal("both wait", (a.value, b.value, c.value), [0, 0, 0])
    dev.hw_compute_queue_t().signal(a, 1).submit(dev)
    c.wait(3)
    t.equal("bytes", get(dst, n)[3 : n - 2], x[5:])
    t.equal("none before", get(dst, 3), [0] * 3)
    q = dev.hw_copy_queue_t(queue_idx=1)
    q.max_copy_size = 4093
    q.copy(dst, src, n).signal(c, 4).submit(dev)
    c.wait(4)
    t.equal("in pieces", get(dst, n), x)
    e = dev.new_signal(value=0)
    dev.hw_copy_queue_t().timestamp(e).write(mid.offset(8, 8), 0x0123456789ABCDEF, b64=True).signal(c, 5).submit(
        dev
    )
    c.wait(5)
    t.true("the clock", e.timestamp > 0, "is zero")
    t.equal("a write", int.from_bytes(get(mid, 16)[8:].tobytes(), "little"), 0x0123456789ABCDEF)
    for buf in (src, mid, dst):
        dev.allocator.free(buf, buf.size, BufferSpec(cpu_access=True, nolru=True))


def nops(n_bytes):
    """Packets that do nothing, for so many bytes of the compute queue's ring."""
    if dev.is_aql:
        barrier = hsa.hsa_kernel_dispatch_packet_t(
            header=hsa.HSA_PACKET_TYPE_BARRIER_AND << hsa.HSA_PACKET_HEADER_TYPE
        )
        return bytes(barrier) * (n_bytes // 64)
    out, n = [], n_bytes // 4
    while n:
        body = min(n, 16384) - 1
        out.append(
            np.array([dev.pm4.PACKET3(dev.pm4.PACKET3_NOP, body - 1 if body else 0x3FFF)] + [0] * body, np.uint32)
        )
        n -= body + 1
    return np.concatenate(out).tobytes()


def fill(queue, done, packets, unit):
    """Brings the ring to some 20 units before its end; `packets` makes so many bytes that do nothing."""
    size = queue.ring.nbytes
    while (left := size - queue.put_value * unit % size - 20 * unit) > 0:
        n = min(left, size // 4)
        at = queue.put_value * unit % size
        queue.ring.view(fmt="B")[at : at + n] = packets(n)
        queue.put_value += n // unit
        queue.signal_doorbell(dev, doorbell_value=queue.put_value - dev.is_aql if unit > 1 else None)
        while queue.read_ptr[0] % (size // unit) != queue.put_value % (size // unit):
            pass


@case
def rings_wrap(t):
    """Packets past the end of each ring of 16 MiB: a compute queue's are cut there, an SDMA queue's are not."""
    done, n = dev.new_signal(value=0), 0
    for turn in range(3 if FULL else 1):
        fill(dev.compute_queue, done, nops, 64 if dev.is_aql else 4)
        start = dev.compute_queue.put_value
        for _ in range(30):
            n += 1
            dev.hw_compute_queue_t().wait(dev.timeline_signal, dev.timeline_value - 1).memory_barrier().signal(
                done, n
            ).submit(dev)
        done.wait(n)
        units = dev.compute_queue.ring.nbytes // (64 if dev.is_aql else 4)
        t.true(
            "the compute ring's end was passed", start // units != dev.compute_queue.put_value // units, f"{start}"
        )
        if dev.has_sdma_queue:
            ring, src, dst = dev.sdma_queue(0), alloc(4096), alloc(4096)
            fill(ring, done, bytes, 1)
            start, x = ring.put_value, array(t, 4096)
            put(src, x)
            put(dst, np.zeros(4096, np.uint8))
            n += 1
            q = dev.hw_copy_queue_t()
            for k in range(0, 4096, 64):
                q.copy(dst.offset(k, 64), src.offset(k, 64), 64)
            q.signal(done, n).submit(dev)
            done.wait(n)
            t.true(
                "the SDMA ring's end was passed",
                start // ring.ring.nbytes != ring.put_value // ring.ring.nbytes,
                f"{start}",
            )
            t.equal("what was copied", get(dst, 4096), x)


@case
def profile(t):
    """Time stamps of kernels, transfers and recorded graphs: none before its start, one queue's in order."""
    before = len(Compiled.profile_events)
    with Context(PROFILE=1):
        X = Tensor(array(t, 10000, np.uint32)).realize()
        for _ in range(5):
            X = (X * 3 + 1).realize()
        f = TinyJit(lambda a: ((a + 1).realize() * 3).realize())
        for _ in range(4):
            X = f(X).clone().realize()
        X.numpy()
        dev._at_profile_finalize()
        del f
        ranges = [
            e for e in Compiled.profile_events[before:] if isinstance(e, ProfileRangeEvent) and e.en is not None
        ]
    kernels = [e for e in ranges if e.device == Device.DEFAULT]
    t.true("kernels", len(kernels) >= 9, f"{len(kernels)} of them")
    t.true("none ends before it starts", all(0 < e.st <= e.en for e in ranges), str([(e.st, e.en) for e in ranges]))
    t.true(
        "in order", all(a.en <= b.st for a, b in zip(kernels, kernels[1:])), str([(e.st, e.en) for e in kernels])
    )
    if dev.has_sdma_queue:
        t.true("transfers", sum("SDMA" in str(e.device) for e in ranges) >= 2, str({e.device for e in ranges}))


# Only by name: the card is gone afterwards.
def fault():
    """A kernel that reads where nothing is: the driver's event with its address, and not a hang."""
    X = Tensor(np.zeros(4096, np.uint32)).realize()
    (X + 1).realize()
    X._buffer()._buf.va_addr = 0x6FFF_C000_0000
    try:
        (X + 1).realize()
        dev.synchronize()
        print("FAIL fault: nothing was reported")
    except RuntimeError as e:
        ok = "MMU fault: 0x6FFFC0000" in str(e)
        print(f"reported: {e}" if ok else f"FAIL fault: expected an MMU fault at 0x6FFFC0000000, reported: {e}")
        sys.stdout.flush()
        os._exit(0 if ok else 1)  # nothing can be freed on a card that is gone
    os._exit(1)


if __name__ == "__main__":
    fault() if sys.argv[1:] == ["fault"] else main()
