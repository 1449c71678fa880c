"""python/zinc.py: streaming, chats, errors, callbacks that raise, lifetimes, threads. By test_libzinc_python.sh."""

import ctypes
import errno
import gc
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
import zinc  # noqa: E402

DEMO = "models/zinc-demo.gguf"
QUESTION, ANSWER = "What is 27 + 48?", "27 + 48 = 75"


def demo(**options):
    return zinc.Model(DEMO, **{"tier": "cpu", "context": 256, "threads": 1, **options})


def made(preset):
    path = tempfile.mktemp(suffix=".gguf")
    subprocess.run([os.environ["MKMODEL"], preset, path], check=True, stdout=subprocess.DEVNULL)
    return path


class Whole(unittest.TestCase):
    def test_structs_are_those_of_the_header(self):
        with open("include/zinc.h", encoding="utf-8") as f:
            text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
        names = {
            "zinc_model_opts": zinc._ModelOpts,
            "zinc_model_info": zinc._ModelInfo,
            "zinc_message": zinc._Message,
            "zinc_prompt_opts": zinc._PromptOpts,
            "zinc_gen_opts": zinc._GenOpts,
            "zinc_piece": zinc._Piece,
            "zinc_gen_info": zinc._GenInfo,
            "zinc_chat_opts": zinc._ChatOpts,
            "zinc_logit_bias": zinc._LogitBias,
        }
        kinds = {
            "size_t": ctypes.c_size_t,
            "int32_t": ctypes.c_int32,
            "uint32_t": ctypes.c_uint32,
            "uint64_t": ctypes.c_uint64,
            "float": ctypes.c_float,
        }
        found = re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, flags=re.S)
        self.assertEqual({n for n, _ in found}, set(names) | {"zinc_error"})
        for name, body in found:
            if name == "zinc_error":
                continue
            fields = []
            for line in filter(str.strip, body.split(";")):
                kind, rest = re.match(r"\s*((?:const )?\w+)\s*(.*)", line, flags=re.S).groups()
                for one in rest.split(","):
                    pointer = "*" in one
                    fields.append(
                        (
                            one.replace("*", " ").replace("const", " ").strip(),
                            (
                                8
                                if pointer or kind.startswith("zinc_") and kind.endswith("_fn")
                                else ctypes.sizeof(kinds[kind.replace("const ", "")])
                            ),
                        )
                    )
            self.assertEqual([(n, ctypes.sizeof(t)) for n, t in names[name]._fields_], fields, name)

    def test_functions_are_those_of_the_header(self):
        with open("lib/libzinc.map", encoding="utf-8") as f:
            listed = set(re.findall(r"(zinc_\w+);", f.read()))
        with open("python/zinc.py", encoding="utf-8") as f:
            self.assertEqual(set(re.findall(r'_declare\(\s*"(zinc_\w+)"', f.read())), listed)

    def test_says_what_it_is(self):
        self.assertRegex(zinc.version(), r"^\d+\.\d+\.\d+$")
        self.assertEqual(zinc.tiers()[0], "auto")
        with demo() as m:
            self.assertEqual((m.info["family"], m.info["tier"], m.info["context"]), ("qwen35moe", "cpu", 256))
            self.assertIsNone(m.info["pooling"])

    def test_text_and_tokens(self):
        with demo(vocabulary=True) as m:
            ids = m.tokenize("café = 75")
            self.assertEqual(m.detokenize(ids).decode(), "café = 75")
            self.assertEqual(m.tokenize(""), [])
            with self.assertRaises(zinc.Error) as e:
                m.session()
            self.assertEqual(e.exception.errno, errno.ENOTSUP)

    def test_a_generation_is_an_iterator(self):
        with demo() as m, m.session() as s:
            prompt = m.prompt([{"role": "user", "content": QUESTION}])
            g = s.generate(prompt, answer=True, sampling={"temp": 0, "seed": 3})
            pieces = list(g)
            self.assertGreater(len(pieces), 4)
            self.assertEqual("".join(pieces), ANSWER)
            self.assertEqual({p.kind for p in pieces}, {"text"})
            self.assertEqual(list(g), [])
            self.assertEqual((g.info["end"], g.info["seed"], g.info["n_prompt"]), ("stop", 3, len(prompt)))
            self.assertTrue(m.is_end(g.info["tokens"][-1]))
            self.assertEqual(s.tokens, prompt + g.info["tokens"][:-1])

    def test_a_chat(self):
        with demo() as m, m.chat("Be brief.") as c:
            self.assertEqual(c.say(QUESTION, sampling="temp=0").text(), ANSWER)
            self.assertEqual([x["role"] for x in c.messages], ["system", "user", "assistant"])
            self.assertEqual(c.messages[2]["content"], ANSWER)
            c.undo()
            c.load([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
            self.assertEqual([x["content"] for x in c.messages], ["a", "b"])
            c.reset()
            self.assertEqual(c.messages, [])

    def test_leaving_a_loop_gives_the_session_back(self):
        with demo() as m, m.chat() as c:
            for _ in c.say(QUESTION, sampling="temp=0"):
                break
            gc.collect()
            self.assertEqual(len(c.messages), 2)
            self.assertTrue(c.say("And 1 + 1?", sampling="temp=0", max_tokens=5).text())
        with demo() as m:
            with m.chat():
                pass
            m.session().close()  # the only one there is

    def test_by_hand(self):
        with demo() as m, m.session() as s, m.sampler(sampling="temp=0") as choose:
            ids, out = m.tokenize("The cat"), []
            logits = s.eval(ids)
            for _ in range(6):
                out.append(choose.choose(logits))
                choose.accept(out[-1])
                logits = s.eval(out[-1:])
            s.truncate(0)
            self.assertEqual(len(s.score(ids)), len(ids) - 1)
            s.truncate(0)
            g = s.generate(ids, sampling="temp=0", max_tokens=6)
            list(g)
            self.assertEqual(g.info["tokens"], out)
            self.assertIsNone(s.eval(ids, logits=False))

    def test_options(self):
        with demo(context=512) as m, m.session() as s:
            self.assertIn(s.generate("yes or no? ", grammar='root ::= "yes" | "no"').text(), ("yes", "no"))
            schema = {
                "type": "object",
                "properties": {"a": {"enum": [1, 2]}},
                "required": ["a"],
                "additionalProperties": False,
            }
            self.assertRegex(s.generate("JSON: ", json_schema=schema, max_tokens=40).text(), r'^\{\s*"a"')
            seven = m.tokenize("7")[0]
            g = s.generate(
                m.prompt([{"role": "user", "content": QUESTION}]),
                answer=True,
                sampling="temp=0",
                stop="=",
                logit_bias={seven: float("-inf")},
                max_tokens=30,
            )
            self.assertNotIn("=", g.text())
            self.assertNotIn(seven, g.info["tokens"])
            with self.assertRaisesRegex(zinc.Error, "did you mean temp"):
                s.generate("x", sampling="tmp=1")
            with self.assertRaises(TypeError):
                s.generate("x", temperature=1)
            with self.assertRaises(TypeError):
                demo(contxt=3)

    def test_errors_have_errno_and_a_line(self):
        with self.assertRaisesRegex(zinc.Error, "nowhere.gguf") as e:
            zinc.Model("nowhere.gguf")
        self.assertEqual(e.exception.errno, errno.ENOENT)
        self.assertIsInstance(e.exception, OSError)
        with self.assertRaisesRegex(zinc.Error, "gpu"):
            demo(tier="gpu")
        with self.assertRaises(ValueError):
            demo(tier="c\0pu")
        m = demo()
        m.close()
        m.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            m.tokenize("x")

    def test_any_order_of_closing(self):
        m = demo()
        s = m.session()
        g = s.generate("The cat", sampling="temp=0", max_tokens=5)
        m.close()
        s.close()
        self.assertTrue("".join(g))
        g.close()

    def test_progress_stops_and_raises(self):
        with self.assertRaises(zinc.Cancelled):
            demo(progress=lambda what, done, total: False)
        with self.assertRaisesRegex(KeyError, "mine"):
            demo(progress=lambda what, done, total: {}["mine"])
        seen = []
        with demo(chunk=32) as m, m.session() as s:
            list(s.generate(list(range(100, 250)), max_tokens=1, progress=lambda *a: seen.append(a)))
            self.assertEqual(seen[0], ("prompt", 0, 150))

    def test_log(self):
        lines = []
        with demo(log=lambda *a: lines.append(a), log_level="info"):
            self.assertTrue(any(level == "info" and "zinc-demo on cpu" in line for level, _, line in lines), lines)

    def test_cancel_from_another_thread(self):
        with demo(context=4096) as m, m.session() as s:
            g = s.generate("Once upon a time", ignore_end=True, sampling="temp=0")
            first = next(g)
            t = threading.Thread(target=s.cancel)
            t.start()
            rest = list(g)
            t.join()
            self.assertTrue(first)
            self.assertEqual(g.info["end"], "cancelled")
            self.assertLess(len(rest), 4000)
            s.cancel()
            with self.assertRaises(zinc.Cancelled):
                s.eval([1, 2])

    def test_threads(self):
        out = {}
        with demo(sessions=3) as m:

            def run(i):
                with m.session() as s:
                    out[i] = s.generate("The cat", sampling="temp=0", max_tokens=10).text()

            threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        self.assertEqual(len(set(out.values())), 1)
        self.assertEqual(len(out), 3)

    def test_vectors(self):
        path = made("tiny-qwen3-embed")
        try:
            with zinc.Model(path, tier="cpu", context=64, threads=1, pooling="auto") as m:
                a, b, c = m.embed(["a cat", "a dog", "a cat"])
                self.assertEqual((a, len(a)), (c, m.info["n_vector"]))
                self.assertNotEqual(a, b)
                self.assertAlmostEqual(sum(x * x for x in a), 1, places=4)
                self.assertEqual(m.embed([]), [])
        finally:
            os.unlink(path)
        path = made("tiny-qwen3-rerank")
        try:
            with zinc.Model(path, tier="cpu", context=64, threads=1, pooling="auto") as m:
                self.assertTrue(all(0 <= x <= 1 for x in m.rank("where?", ["on a mat", "on a log"])))
        finally:
            os.unlink(path)


if __name__ == "__main__":
    unittest.main(verbosity=1)
