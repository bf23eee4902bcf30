# SPDX-License-Identifier: Apache-2.0
"""ventris report --follow: the page of a running training for a browser of this machine, and for nobody and nothing else."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

import support

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def line_of(step, **values):
    return json.dumps({"step": step, "type": "interval", **values}) + "\n"


class Follow(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = os.path.join(cls.folder, "run")
        os.makedirs(cls.run_folder)
        cls.log("w", line_of(1, loss=5.0) + line_of(2, loss=4.0))
        with open(os.path.join(cls.run_folder, "config.json"), "w", encoding="utf-8") as file:
            file.write('{"seed": 1}')
        cls.server = cls.start()
        address = cls.server.stdout.readline().decode()
        port, cls.token = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([0-9a-f]{32})\n", address).groups()
        cls.port = int(port)

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.server.wait()
        cls.server.stdout.close()
        super().tearDownClass()

    @classmethod
    def log(cls, mode, text):
        with open(os.path.join(cls.run_folder, "metrics.jsonl"), mode, encoding="utf-8") as file:
            file.write(text)

    @classmethod
    def start(cls, *options):
        words = [support.BINARY, "report", cls.run_folder, "--follow", *map(str, options)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=support.environment())

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        self.addCleanup(connection.close)
        return connection

    @staticmethod
    def all_of(connection):
        data = b""
        try:
            while part := connection.recv(65536):
                data += part
        except ConnectionResetError:
            pass
        return data

    def ask(self, target=None, method="GET", host=None, raw=None):
        """The status, the head and the body of an answer."""
        connection = self.connect()
        target = f"/?token={self.token}" if target is None else target
        host = f"127.0.0.1:{self.port}" if host is None else host
        connection.sendall(raw if raw is not None else f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        head, _, body = self.all_of(connection).partition(b"\r\n\r\n")
        return int(head.split()[1]) if head else None, head.decode(), body

    def test_the_page_and_its_stamp(self):
        status, head, body = self.ask()
        self.assertEqual(status, 200)
        self.assertIn(f"Content-Length: {len(body)}", head)
        for line in ("Content-Type: text/html; charset=utf-8", "Cache-Control: no-store", "Referrer-Policy: no-referrer", "X-Frame-Options: DENY"):
            self.assertIn(line, head)
        self.assertIn(b"connect-src 'self'", body)
        _, _, stamp = self.ask(f"/stamp?token={self.token}")
        self.assertIn(b'"stamp":' + json.dumps(stamp.decode()).encode(), body)
        self.log("a", line_of(3, loss=3.25))
        _, _, later = self.ask(f"/stamp?token={self.token}", host=f"localhost:{self.port}")
        self.assertNotEqual(later, stamp)
        self.assertIn(b"3.25", self.ask()[2])
        status, head, body = self.ask(method="HEAD")
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(re.search(r"Content-Length: (\d+)", head)[1]), 10000)

    def test_nobody_else_gets_anything(self):
        wrong = [self.token[:-1], self.token + "0", "", "0" * 32, self.token.upper() if self.token.upper() != self.token else "x"]
        for target in ("/", "/stamp", "/metrics.jsonl", "/?", *(f"/?token={token}" for token in wrong), f"/?other=1&token={self.token}"):
            status, _, body = self.ask(target)
            self.assertEqual(status, 403, target)
            self.assertNotIn(b"loss", body)
        for host in ("evil.example", f"evil.example:{self.port}", f"127.0.0.1:{self.port}.evil.example", "127.0.0.1", f"[::1]:{self.port}"):
            self.assertEqual(self.ask(host=host)[0], 403, host)
        for path in ("/metrics.jsonl", "/../../etc/passwd", "//", "/%2e%2e/", "/stamp/", "/run"):
            self.assertEqual(self.ask(f"{path}?token={self.token}")[0], 404, path)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "get"):
            self.assertEqual(self.ask(method=method)[0], 405, method)

    def test_what_is_no_request(self):
        own = f"Host: 127.0.0.1:{self.port}\r\n"
        for raw in (b"\r\n\r\n", b"GET\r\n\r\n", b"\x00\xff\xfe\r\n\r\n", f"GET /?token={self.token} HTTP/2.0\r\n{own}\r\n".encode(),
                    f"GET /?token={self.token} HTTP/1.1\r\n\r\n".encode(), f"GET /?token={self.token} HTTP/1.1\r\n{own}{own}\r\n".encode(),
                    f"GET /?token={self.token} HTTP/1.1\r\nnonsense\r\n{own}\r\n".encode()):  # fmt: skip
            self.assertEqual(self.ask(raw=raw)[0], 400, raw)
        self.assertIn(self.ask(raw=b"GET /" + b"a" * 100000)[0], (431, None))  # a reset may overtake the answer
        self.assertEqual(self.ask()[0], 200)

    def test_slow_and_silent_clients_hold_nobody_up(self):
        silent = [self.connect() for _ in range(20)]
        slow = self.connect()
        slow.sendall(b"GET /?tok")
        deaf = self.connect()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        deaf.sendall(f"GET /?token={self.token} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
        begin = time.monotonic()
        self.assertEqual(self.ask()[0], 200)
        self.assertLess(time.monotonic() - begin, 15)
        for connection in silent:
            connection.close()
        slow.sendall(f"en={self.token} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
        self.assertTrue(self.all_of(slow).startswith(b"HTTP/1.1 200 OK"))

    def test_more_clients_than_there_is_room_for(self):
        """Those that ask for nothing give way, the first of them first."""
        silent = [self.connect() for _ in range(60)]
        self.assertEqual([self.ask()[0] for _ in range(3)], [200] * 3)
        silent[0].settimeout(10)
        self.assertEqual(self.all_of(silent[0]), b"")
        for connection in silent:
            connection.close()

    def test_a_run_that_is_gone_is_told_and_may_come_back(self):
        moved = self.run_folder + ".moved"
        os.rename(self.run_folder, moved)
        try:
            status, _, body = self.ask()
            self.assertEqual(status, 503)
            self.assertIn(b"does not exist", body)
        finally:
            os.rename(moved, self.run_folder)
        self.assertEqual(self.ask()[0], 200)

    def test_it_listens_on_this_machine_alone_and_ends_by_a_signal(self):
        taken = self.start("--port", self.port)
        self.assertEqual((taken.wait(30), taken.stdout.read()), (69, b""))
        taken.stdout.close()
        with open("/proc/net/tcp", encoding="ascii") as file:
            listening = [line.split()[1] for line in file if line.split()[3] == "0A"]
        self.assertIn(f"0100007F:{self.port:04X}", listening)
        self.assertNotIn(f"00000000:{self.port:04X}", listening)
        for number in (signal.SIGINT, signal.SIGTERM):
            other = self.start()
            other.stdout.readline()
            other.send_signal(number)
            self.assertIn(other.wait(30), (-number, 128 + number))
            other.stdout.close()

    def test_options_that_do_not_go_together(self):
        self.refuse(64, "report", self.run_folder, "--follow", "--output", self.path("x.html"), says=["--follow", "--output"])
        self.refuse(64, "report", self.run_folder, "--port", 8000, "--output", self.path("x.html"), says=["--port", "--follow"])
        self.refuse(64, "report", self.run_folder, "--follow", "--port", 70000, says="--port")
        self.refuse(66, "report", self.path("nowhere"), "--follow", says="does not exist")

    def counting_proxy(self, paths):
        """The port of a proxy before the server, which lists the paths that it was asked for; each page changes the run."""
        os.makedirs(self.path("run", "valid", "00000004"))
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        port = listener.getsockname()[1]

        def relay():
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    request = b""
                    while b"\r\n\r\n" not in request and (part := client.recv(65536)):
                        request += part
                    if not request:
                        continue
                    paths.append(request.split()[1].decode().partition("?")[0])
                    with socket.create_connection(("127.0.0.1", self.port), timeout=30) as server:
                        server.sendall(request.replace(f"127.0.0.1:{port}".encode(), f"127.0.0.1:{self.port}".encode()))
                        client.sendall(self.all_of(server))
                    if paths[-1] == "/" and paths.count("/") < 3:
                        self.log("a", line_of(3 + paths.count("/"), loss=1.125))
                        # After the first page there are translations to choose from.
                        self.write("run/valid/00000004/news.txt", "one\ntwo\n")

        threading.Thread(target=relay, daemon=True).start()
        return port

    @unittest.skipUnless(BROWSER, "no Chromium")
    def test_a_browser_draws_the_page_anew_when_the_run_goes_on(self):
        paths = []
        port = self.counting_proxy(paths)
        words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={self.path('profile')}",
                 "--virtual-time-budget=18000", "--dump-dom", f"http://127.0.0.1:{port}/?token={self.token}"]  # fmt: skip
        result = subprocess.run(words, capture_output=True, timeout=120, check=True)
        self.assertNotIn("CONSOLE", result.stderr.decode(errors="replace").replace("favicon", ""))
        self.assertEqual((paths[0], paths.count("/")), ("/", 3), paths)
        self.assertIn('data-value="1.125"', result.stdout.decode())


if __name__ == "__main__":
    unittest.main(verbosity=2)
